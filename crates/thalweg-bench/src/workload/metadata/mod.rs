//! `metadata`: the entries of directories, as a file system keeps them (PHAT-E3, figure 9).
//!
//! A key is the directory's number (8 bytes, big-endian) and a hash of the entry's name (8 bytes; here of the entry's
//! number, one to one, so that no two entries of a directory meet). Every directory has 20 entries, or as many as
//! `directory-entries` says, and the last one what is left over. Entry `e` is in directory `e / 20`.
//!
//! The paper does not say in which order entries are put. They are put here in a random order over all directories:
//! LevelDB's write amplification of 10.3 during the paper's load (PHAT-E4) shows that the keys did not come in order,
//! for tables that do not overlap are moved down, not rewritten. With `metadata-put-local` the directories come in a
//! random order, and the entries of each together, as when an archive is unpacked (the premise of PHAT-2).
//!
//! - `entry`: the keys of entries
//! - `order`: the orders of puts
//! - `gets`, `lists`: the workloads that read

mod entry;
mod gets;
mod lists;
mod order;
#[cfg(test)]
mod tests;

use self::entry::{KEY_BYTES, entries_of, key};
use self::gets::{Gets, How, make_gets};
use self::lists::Lists;
use self::order::{DirectoryOrder, random_order};
use super::load::Load;
use super::{Dataset, DatasetKind, Defaults, Definition, Workload};
use crate::engine::LookupsBy;
use crate::error::Result;
use crate::parameters::{Distribution, Parameters};
use std::sync::Arc;

const PUT: Defaults = Defaults {
    records: 2_000_000,
    operations: None,
    seconds: None,
    bounded: false,
    key_bytes: KEY_BYTES,
    value_bytes: 128,
};
const READ: Defaults = Defaults { operations: Some(1_000_000), seconds: Some(10.0), ..PUT };

/// The steps of `metadata`, in the paper's order.
pub(super) const FAMILY: &[&str] = &["metadata-put", "metadata-get", "metadata-get-zipfian", "metadata-list"];

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "metadata-put",
        about: "put the entries of directories of 20 in random order",
        source: "PHAT-E3, figure 9a",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: PUT,
        share: 1,
        make: |parameters, dataset| {
            let order = random_order(parameters, dataset)?;
            make_puts(parameters, dataset, move |place| order.number(place))
        },
        splits,
    },
    Definition {
        name: "metadata-put-local",
        about: "put the entries of directories of 20, a directory after the other",
        source: "PHAT-E3, figure 9a, with the entries of a directory together",
        dataset: DatasetKind::Metadata,
        load: "metadata-put-local",
        defaults: PUT,
        share: 1,
        make: |parameters, dataset| {
            let order = DirectoryOrder::new(parameters, dataset)?;
            make_puts(parameters, dataset, move |place| order.entry(place))
        },
        splits,
    },
    Definition {
        name: "metadata-get",
        about: "get entries of directories, uniform unless told otherwise",
        source: "PHAT-E3, figure 9b",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| make_gets(parameters, dataset, "metadata-get", How::OneByOne),
        splits,
    },
    Definition {
        name: "metadata-get-zipfian",
        about: "get entries of directories, a few of them often",
        source: "PHAT-E3, figure 9c",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| {
            let gets = Gets::new(parameters, dataset, "metadata-get-zipfian", How::OneByOne)?;
            Ok(Box::new(gets.with(Distribution::Zipfian)))
        },
        splits,
    },
    Definition {
        name: "metadata-multiget",
        about: "get entries of directories, 32 (or --batch) in one call",
        source: "PHAT-E3, figure 9b, with several in flight",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| make_gets(parameters, dataset, "metadata-multiget", How::AtOnce),
        splits,
    },
    Definition {
        name: "metadata-get-reader",
        about: "get entries of directories, 16 (or --batch) in flight on each thread's own ring",
        source: "PHAT-E3, figure 9b, with several in flight",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| {
            make_gets(parameters, dataset, "metadata-get-reader", How::Overlapped(LookupsBy::Reader))
        },
        splits,
    },
    Definition {
        name: "metadata-get-async",
        about: "get entries of directories, 16 (or --batch) futures at once on each thread",
        source: "PHAT-E3, figure 9b, with several in flight",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| {
            make_gets(parameters, dataset, "metadata-get-async", How::Overlapped(LookupsBy::Futures))
        },
        splits,
    },
    Definition {
        name: "metadata-list",
        about: "list all entries of one directory, uniform unless told otherwise",
        source: "PHAT-E3, figure 9d",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| Ok(Box::new(Lists::new(parameters, dataset)?)),
        splits,
    },
];

fn splits(parameters: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    let directories = u128::from(records.div_ceil(entries_of(parameters)));
    (1..partitions)
        .map(|i| (directories * u128::from(i) / u128::from(partitions)) as u64)
        .map(|directory| directory.to_be_bytes().to_vec())
        .collect()
}

/// Puts every entry once: `entry` gives the one of each place.
fn make_puts(
    parameters: &Parameters,
    dataset: &Arc<Dataset>,
    entry: impl Fn(u64) -> u64 + Sync + 'static,
) -> Result<Box<dyn Workload>> {
    let value_bytes = parameters.value_bytes.unwrap_or(PUT.value_bytes) as usize;
    let entries = entries_of(parameters);
    let write = move |place, bytes: &mut [u8]| bytes.copy_from_slice(&key(entry(place), entries));
    Ok(Box::new(Load::new(parameters, dataset, (KEY_BYTES as usize, write), value_bytes)?))
}
