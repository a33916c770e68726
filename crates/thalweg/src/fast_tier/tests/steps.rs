//! Algorithm 1, a table of cases for each step.

use crate::fast_tier::{Costs, Estimate, Model, Options, Partition, Run, Tier};

/// The tier has room for 100 of these.
const MIB: u64 = 1 << 20;

fn run(tables: u32, entries: u64) -> Run {
    Run { tables, entries, bytes: entries * 1024 }
}

#[test]
fn two_unsorted_tables_without_reads_and_updates_stay() {
    let tier = Tier { capacity_bytes: 100 * MIB, partitions: 10, log_end: 0 };
    let partition =
        Partition { unsorted: run(2, 2000), distinct: Estimate { value: 2000.0, sigma: 30.0 }, ..Partition::default() };
    let model = Model::new(Options::default());
    assert_eq!(model.compaction(&Costs::default(), &tier, &partition), None);
    assert_eq!(model.evictions(&Costs::default(), &tier, &[partition]), []);
}
