//! `metadata`: the entries of directories, as a file system keeps them (PHAT-E3, figure 9).
//!
//! A key is the directory's number (8 bytes, big-endian) and a hash of the entry's name (8 bytes). Here the hash is
//! that of the entry's number, one to one, so that no two entries of a directory have the same. Every directory has 20
//! entries, or `directory-entries` of them, and the last directory has the rest. Entry `e` is in directory `e / 20`.
//!
//! The paper does not say in which order entries are put. Here they are put in a random order over all directories:
//! LevelDB's write amplification of 10.3 during the paper's load (PHAT-E4) shows that the keys did not come in order,
//! because LevelDB moves tables down without rewriting them if they do not overlap. With `metadata-put-local` the
//! directories come in a random order, and the entries of each together, as when an archive is unpacked (the premise of
//! PHAT-2).
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
use super::{Dataset, DatasetKind, Defaults, Definition, Make, Workload};
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
    put("metadata-put", "put the entries of directories of 20 in random order", "PHAT-E3, figure 9a", |p, d| {
        let order = random_order(p, d)?;
        make_puts(p, d, move |place| order.number(place))
    }),
    put(
        "metadata-put-local",
        "put the entries of directories of 20, a directory after the other",
        "PHAT-E3, figure 9a, with the entries of a directory together",
        |p, d| {
            let order = DirectoryOrder::new(p, d)?;
            make_puts(p, d, move |place| order.entry(place))
        },
    ),
    read("metadata-get", "get entries of directories, uniform unless told otherwise", "PHAT-E3, figure 9b", |p, d| {
        make_gets(p, d, "metadata-get", How::OneByOne)
    }),
    read("metadata-get-zipfian", "get entries of directories, a few of them often", "PHAT-E3, figure 9c", |p, d| {
        let gets = Gets::new(p, d, "metadata-get-zipfian", How::OneByOne)?;
        Ok(Box::new(gets.with(Distribution::Zipfian)))
    }),
    read("metadata-multiget", "get entries of directories, 32 (or --batch) in one call", IN_FLIGHT, |p, d| {
        make_gets(p, d, "metadata-multiget", How::AtOnce)
    }),
    read(
        "metadata-get-reader",
        "get entries of directories, 16 (or --batch) in flight on each thread's own ring",
        IN_FLIGHT,
        |p, d| make_gets(p, d, "metadata-get-reader", How::Overlapped(LookupsBy::Reader)),
    ),
    read(
        "metadata-get-async",
        "get entries of directories, 16 (or --batch) futures at once on each thread",
        IN_FLIGHT,
        |p, d| make_gets(p, d, "metadata-get-async", How::Overlapped(LookupsBy::Futures)),
    ),
    read(
        "metadata-get-async-zipfian",
        "as metadata-get-async, a few of the entries often",
        "PHAT-E5, figure 12: requests in a queue",
        |p, d| {
            let gets = Gets::new(p, d, "metadata-get-async-zipfian", How::Overlapped(LookupsBy::Futures))?;
            Ok(Box::new(gets.with(Distribution::Zipfian)))
        },
    ),
    read(
        "metadata-list",
        "list all entries of one directory, uniform unless told otherwise",
        "PHAT-E3, figure 9d",
        |p, d| Ok(Box::new(Lists::new(p, d)?)),
    ),
];

const IN_FLIGHT: &str = "PHAT-E3, figure 9b, with several in flight";

const fn put(name: &'static str, about: &'static str, source: &'static str, make: Make) -> Definition {
    let (dataset, load) = (DatasetKind::Metadata, name);
    Definition { name, about, source, dataset, load, defaults: PUT, share: 1, make, splits }
}

const fn read(name: &'static str, about: &'static str, source: &'static str, make: Make) -> Definition {
    let (dataset, load) = (DatasetKind::Metadata, "metadata-put");
    Definition { name, about, source, dataset, load, defaults: READ, share: 1, make, splits }
}

fn splits(parameters: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    let directories = u128::from(records.div_ceil(entries_of(parameters)));
    let first = |partition| (directories * u128::from(partition) / u128::from(partitions)) as u64;
    let mut splits: Vec<u64> = (1..partitions).map(first).filter(|directory| *directory > 0).collect();
    splits.dedup(); // More partitions than directories: one for each.
    splits.into_iter().map(|directory| directory.to_be_bytes().to_vec()).collect()
}

/// Makes a workload that puts every entry once, in the order that `entry` gives.
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
