//! The workloads of `db_bench` (LevelDB, RocksDB) on numbered keys, with the same names and meanings.
//!
//! A key is a number of 8 bytes, highest first, padded with `0`. `fill*` begin with an empty database; the others draw
//! from all numbers below `records`, uniformly by default. A `fillrandom` has written about 63 % of these numbers, so
//! `readrandom` reports the rest as missing. Where LevelDB and RocksDB differ, the client's comment says so.
//!
//! - `key`: numbers as keys
//! - `shared`: the state that all clients of a workload share
//! - `fill`, `read`, `remove`, `compact`: the clients

mod compact;
mod fill;
mod key;
mod read;
mod remove;
mod shared;

use super::{Client, Dataset, DatasetKind, Defaults, Definition, Make, Workload};
use crate::distribution::random;
use crate::error::Result;
use crate::parameters::Parameters;
use key::Keys;
use shared::{DEFAULTS, FILL_SYNC_SHARE, Kind, Numbered};
use std::sync::Arc;

const SOURCE: &str = "db_bench of LevelDB and RocksDB";

const LOAD: Defaults = Defaults { seconds: None, ..DEFAULTS };

/// The workloads of `db_bench`.
pub(super) static DEFINITIONS: &[Definition] = &[
    load("fillseq", "write every record once, in the order of keys", |p, d| make(Kind::FillSeq, p, d)),
    load("fillrandom", "write as many records as there are, each drawn from all", |p, d| make(Kind::FillRandom, p, d)),
    Definition {
        share: FILL_SYNC_SHARE,
        ..load("fillsync", "fillrandom of a 1000th of the records, each durable at once", |p, d| {
            make(Kind::FillSync, p, d)
        })
    },
    run("overwrite", "write records drawn from all again", |p, d| make(Kind::Overwrite, p, d)),
    run("readseq", "read all records in the order of keys, 10 000 at a time", |p, d| make(Kind::ReadSeq, p, d)),
    run("readrandom", "read records drawn from all", |p, d| make(Kind::ReadRandom, p, d)),
    run("multireadrandom", "read records drawn from all, 32 or --batch at a time", |p, d| {
        make(Kind::MultiReadRandom, p, d)
    }),
    run("readmissing", "read keys that do not exist, each next to a record's", |p, d| make(Kind::ReadMissing, p, d)),
    run("seekrandom", "seek a record drawn from all and read from there on", |p, d| make(Kind::SeekRandom, p, d)),
    Definition {
        defaults: Defaults { bounded: true, ..DEFAULTS },
        ..run("deleterandom", "remove records drawn from all", |p, d| make(Kind::DeleteRandom, p, d))
    },
    Definition {
        defaults: Defaults { operations: Some(1), seconds: None, bounded: true, ..DEFAULTS },
        ..run("compact", "compact everything down to the last level, once", |p, d| make(Kind::Compact, p, d))
    },
    run("readwhilewriting", "readrandom, and one more thread that overwrites", |p, d| {
        make(Kind::ReadWhileWriting, p, d)
    }),
];

const fn load(name: &'static str, about: &'static str, make: Make) -> Definition {
    Definition {
        name,
        about,
        source: SOURCE,
        dataset: DatasetKind::Numbered,
        load: name,
        defaults: LOAD,
        share: 1,
        make,
        splits,
    }
}

const fn run(name: &'static str, about: &'static str, make: Make) -> Definition {
    Definition {
        name,
        about,
        source: SOURCE,
        dataset: DatasetKind::Numbered,
        load: "fillrandom",
        defaults: DEFAULTS,
        share: 1,
        make,
        splits,
    }
}

fn make(kind: Kind, parameters: &Parameters, dataset: &Arc<Dataset>) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Numbered::new(kind, parameters, dataset)?))
}

impl Workload for Numbered {
    fn client(&self, thread: usize, threads: usize, seed: u64) -> Box<dyn Client + '_> {
        let random = random(seed, &format!("{:?}", self.kind), thread);
        match self.kind {
            Kind::FillSeq | Kind::FillRandom | Kind::FillSync | Kind::Overwrite => {
                Box::new(fill::Fill::new(self, self.kind, thread, random))
            }
            Kind::ReadWhileWriting if thread >= threads => {
                Box::new(fill::Fill::new(self, Kind::Overwrite, thread, random))
            }
            Kind::ReadRandom | Kind::ReadWhileWriting => Box::new(read::Point::new(self, false, random)),
            Kind::MultiReadRandom => Box::new(read::Several::new(self, random)),
            Kind::ReadMissing => Box::new(read::Point::new(self, true, random)),
            Kind::ReadSeq => Box::new(read::Stretch::new(self, thread, threads)),
            Kind::SeekRandom => Box::new(read::Seek::new(self, random)),
            Kind::DeleteRandom => Box::new(remove::Remove::new(self, random)),
            Kind::Compact => Box::new(compact::Compact::new(thread)),
        }
    }

    fn operations_each(&self) -> u64 {
        match self.kind {
            Kind::FillSeq | Kind::FillRandom | Kind::FillSync | Kind::Overwrite => self.batch,
            Kind::MultiReadRandom => self.keys_at_once(),
            Kind::ReadSeq => self.scan_entries,
            Kind::ReadRandom
            | Kind::ReadMissing
            | Kind::SeekRandom
            | Kind::DeleteRandom
            | Kind::ReadWhileWriting
            | Kind::Compact => 1,
        }
    }

    fn background(&self) -> usize {
        usize::from(self.kind == Kind::ReadWhileWriting)
    }
}

/// Keys are dense, so their quantiles are those of the numbers.
fn splits(parameters: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    let bytes = parameters.key_bytes.unwrap_or(DEFAULTS.key_bytes);
    let Ok(keys) = Keys::new(bytes, records) else { return Vec::new() };
    let number = |partition: u32| (u128::from(records) * u128::from(partition) / u128::from(partitions)) as u64;
    let mut numbers: Vec<u64> = (1..partitions).map(number).filter(|number| *number > 0).collect();
    numbers.dedup(); // More partitions than records: one for each.
    let key = |number| {
        let mut key = Vec::new();
        keys.write(number, &mut key);
        key
    };
    numbers.into_iter().map(key).collect()
}

#[cfg(test)]
mod tests;
