//! The core workloads of YCSB (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010), as its
//! `workloada` … `workloadf` specify them.
//!
//! A record is one value of 1 000 bytes, which stands for 10 fields of 100. Reads read the whole value, and updates
//! write the whole value, as YCSB-C and the papers on key-value stores do (YCSB itself updates one field, which only a
//! store with fields can). Records are inserted in the order of their numbers, whose hashes are the keys. Only records
//! whose insert is acknowledged are drawn. `uniform` draws from all of them (YCSB: only from those of the load).
//!
//! - `key`: hashed numbers as keys
//! - `table`: the records and how they are written
//! - `load`: the client of `ycsb-load`
//! - `mixed`: the state that all clients of `ycsb-a` to `ycsb-f` share
//! - `operation`: the client of `ycsb-a` to `ycsb-f`

mod key;
mod load;
mod mixed;
mod operation;
mod table;

use super::mix::{Mix, Share};
use super::{Class, Client, Dataset, DatasetKind, Defaults, Definition, Workload};
use crate::distribution::random;
use crate::error::Result;
use crate::parameters::{Distribution, Parameters};
use key::Keys;
use mixed::Mixed;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use table::{DEFAULTS, Table};

/// Entries of the longest scan: `maxscanlength` of `workloade`.
const SCAN_ENTRIES_MAX: u32 = 100;

/// The shares of operations in one of the workloads, in percent.
struct Specification {
    name: &'static str,
    get: f64,
    update: f64,
    insert: f64,
    scan: f64,
    read_modify_write: f64,
    distribution: Distribution,
}

const NOTHING: Specification = Specification {
    name: "",
    get: 0.0,
    update: 0.0,
    insert: 0.0,
    scan: 0.0,
    read_modify_write: 0.0,
    distribution: Distribution::Zipfian,
};

const A: Specification = Specification { name: "ycsb-a", get: 50.0, update: 50.0, ..NOTHING };
const B: Specification = Specification { name: "ycsb-b", get: 95.0, update: 5.0, ..NOTHING };
const C: Specification = Specification { name: "ycsb-c", get: 100.0, ..NOTHING };
const D: Specification =
    Specification { name: "ycsb-d", get: 95.0, insert: 5.0, distribution: Distribution::Latest, ..NOTHING };
const E: Specification = Specification { name: "ycsb-e", scan: 95.0, insert: 5.0, ..NOTHING };
const F: Specification = Specification { name: "ycsb-f", get: 50.0, read_modify_write: 50.0, ..NOTHING };

/// The core workloads.
pub(super) static DEFINITIONS: &[Definition] = &[
    Definition {
        name: "ycsb-load",
        about: "insert every record once, in hashed order",
        source: SOURCE,
        dataset: DatasetKind::Ycsb,
        load: "ycsb-load",
        defaults: Defaults { operations: None, seconds: None, ..DEFAULTS },
        share: 1,
        make: make_load,
        splits,
    },
    run(&A, "50 % reads, 50 % updates, zipfian", |p, d| make(&A, p, d)),
    run(&B, "95 % reads, 5 % updates, zipfian", |p, d| make(&B, p, d)),
    run(&C, "reads, zipfian", |p, d| make(&C, p, d)),
    run(&D, "95 % reads, the latest likeliest, 5 % inserts", |p, d| make(&D, p, d)),
    run(&E, "95 % scans of 1 to 100 entries from a zipfian start, 5 % inserts", |p, d| make(&E, p, d)),
    run(&F, "50 % reads, 50 % reads and then writes of the same record, zipfian", |p, d| make(&F, p, d)),
];

const SOURCE: &str = "YCSB core workloads";

const fn run(specification: &Specification, about: &'static str, make: super::Make) -> Definition {
    Definition {
        name: specification.name,
        about,
        source: SOURCE,
        dataset: DatasetKind::Ycsb,
        load: "ycsb-load",
        defaults: DEFAULTS,
        share: 1,
        make,
        splits,
    }
}

impl Specification {
    fn shares(&self) -> [Share; 6] {
        [
            ("get", Class::Get, self.get),
            ("scan", Class::Scan, self.scan),
            ("insert", Class::Insert, self.insert),
            ("update", Class::Update, self.update),
            ("remove", Class::Remove, 0.0),
            ("read-modify-write", Class::ReadModifyWrite, self.read_modify_write),
        ]
    }
}

/// `ycsb-load`.
struct Load(Table);

fn make_load(parameters: &Parameters, dataset: &Arc<Dataset>) -> Result<Box<dyn Workload>> {
    let table = Table::new(parameters, dataset)?;
    // The database is empty.
    dataset.next.store(0, Ordering::SeqCst);
    dataset.acknowledged.store(0, Ordering::SeqCst);
    Ok(Box::new(Load(table)))
}

impl Workload for Load {
    fn client(&self, thread: usize, _threads: usize, _seed: u64) -> Box<dyn Client + '_> {
        Box::new(load::Loader::new(&self.0, thread))
    }
}

fn make(specification: &Specification, parameters: &Parameters, dataset: &Arc<Dataset>) -> Result<Box<dyn Workload>> {
    let mix = Mix::new(specification.name, &specification.shares(), &parameters.mix)?;
    let operations = match parameters.operations {
        Some(operations) => operations as f64 * parameters.scale,
        None => 2.0 * dataset.records as f64,
    };
    Ok(Box::new(Mixed {
        name: specification.name,
        table: Table::new(parameters, dataset)?,
        distribution: parameters.distribution.unwrap_or(specification.distribution),
        chooser: OnceLock::new(),
        // Twice the expected number, as in YCSB.
        inserts: (2.0 * operations * mix.share(Class::Insert)) as u64,
        mix,
        scan_entries_max: u64::from(parameters.scan_entries_max.unwrap_or(SCAN_ENTRIES_MAX).max(1)),
    }))
}

impl Workload for Mixed {
    fn client(&self, thread: usize, _threads: usize, seed: u64) -> Box<dyn Client + '_> {
        Box::new(operation::Operator::new(self, thread, random(seed, self.name, thread)))
    }
}

/// Keys are hashes, so their quantiles are those of a sorted sample.
fn splits(parameters: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    let Ok(keys) = Keys::new(parameters.key_bytes.unwrap_or(DEFAULTS.key_bytes)) else { return Vec::new() };
    let sampled = records.min(1 << 16);
    // Consecutive numbers have hashes as scattered as any others.
    let mut sample: Vec<Vec<u8>> = (0..sampled)
        .map(|number| {
            let mut key = Vec::new();
            keys.write(number, &mut key);
            key
        })
        .collect();
    sample.sort_unstable();
    let quantile = |partition: u32| (sampled * u64::from(partition) / u64::from(partitions)) as usize;
    let mut splits: Vec<Vec<u8>> =
        (1..partitions).map(quantile).filter(|at| *at > 0).map(|at| sample[at].clone()).collect();
    splits.dedup(); // More partitions than records: one for each.
    splits
}

#[cfg(test)]
mod tests;
