//! Reports as a user sees them.

use crate::fast_tier::{Activity, Costs, Estimate, Model, Options, Partition, Rank, Rates, Run, Tier};
use expect_test::expect;

const KIB: u64 = 1 << 10;

fn run(tables: u32, entries: u64) -> Run {
    Run { tables, entries, bytes: entries * KIB }
}

#[test]
fn a_report_says_what_each_step_has_compared() {
    let tier = Tier { capacity_bytes: 1 << 30, partitions: 5, log_end: 10 << 30 };
    let options = Options { log_bytes_max: Some(4 << 30), ..Options::default() };
    let rates = Rates { gets: 120_000.0, seeks: 400.0, writes: 2000.0, updates: 900.0, written_bytes: 2048e3 };
    let hot = Partition {
        id: 1,
        unsorted: run(6, 120_000),
        sorted: run(4, 200_000),
        overlapped: run(4, 200_000),
        distinct: Estimate { value: 230_000.0, sigma: 3700.0 },
        rates,
        lower_bytes: 100 << 20,
        log_from: Some(7 << 30),
        ..Partition::default()
    };
    let small = Partition { id: 2, unsorted: run(1, 1000), log_from: Some(7 << 30), ..Partition::default() };
    let old = Partition { id: 3, log_from: Some(1 << 30), ..small.clone() };
    let cold = Partition {
        id: 4,
        unsorted: run(15, 600_000),
        distinct: Estimate { value: 590_000.0, sigma: 9000.0 },
        lower_bytes: 100 << 20,
        ..Partition::default()
    };
    let scanned = Partition {
        id: 5,
        unsorted: run(8, 20_000),
        distinct: Estimate { value: 20_000.0, sigma: 300.0 },
        rates: Rates { seeks: 300_000.0, ..Rates::default() },
        ..Partition::default()
    };
    let busy = Partition { id: 6, activity: Activity::Compacting, ..small.clone() };
    let pinned = Partition { id: 7, keeps_versions: true, unsorted: run(1, 60_000), ..Partition::default() };
    let hindered = Partition { id: 8, unsorted: run(4, 10_000), ..hot.clone() };
    let hindered = Partition { distinct: Estimate { value: 100_000.0, sigma: 1600.0 }, ..hindered };
    let all = [hot, small, old, cold, scanned, busy, pinned, hindered];
    let reports = Model::new(options.clone()).reports(&Costs::default(), &tier, &all);
    let mut lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
    let paper = Options { rank: Rank::Paper, ..options };
    lines.push(Model::new(paper).reports(&Costs::default(), &tier, &all)[0].to_string());
    expect![[r#"
        partition 1: n 6, m 4, s 312.5 MiB: compact for writes
          120000 gets/s, 400 seeks/s, 2000 writes/s
          reads waste 0.073 ≤ 1.000 cores; a merge saves 0.316 > 0.256 s, copies 2.7
          a GB saves 25.91 s if it stays, and costs 5.16 s if it goes
        partition 2: n 1, m 0, s 1.0 MiB: keep
          0 gets/s, 0 seeks/s, 0 writes/s
          reads waste 0.000 ≤ 1.000 cores; too small to save writes, copies 1.0
          a GB saves 0.00 s if it stays, and costs 3.91 s if it goes
        partition 3: n 1, m 0, s 1.0 MiB: evict for the log
          0 gets/s, 0 seeks/s, 0 writes/s
          reads waste 0.000 ≤ 1.000 cores; too small to save writes, copies 1.0
          a GB saves 0.00 s if it stays, and costs 3.91 s if it goes
        partition 4: n 15, m 0, s 585.9 MiB: evict for room
          0 gets/s, 0 seeks/s, 0 writes/s
          reads waste 0.000 ≤ 1.000 cores; a merge saves 0.000 ≤ 0.480 s, copies 1.0
          a GB saves 0.00 s if it stays, and costs 4.57 s if it goes
        partition 5: n 8, m 0, s 19.5 MiB: compact for reads
          0 gets/s, 300000 seeks/s, 0 writes/s
          reads waste 1.200 > 1.000 cores; too small to save writes, copies 1.0
          a GB saves 4442.14 s if it stays, and costs 3.91 s if it goes
        partition 6: n 1, m 0, s 1.0 MiB: being compacted
          0 gets/s, 0 seeks/s, 0 writes/s
          reads waste 0.000 ≤ 1.000 cores; too small to save writes, copies 1.0
          a GB saves 0.00 s if it stays, and costs 3.91 s if it goes
        partition 7: n 1, m 0, s 58.6 MiB: keep
          0 gets/s, 0 seeks/s, 0 writes/s
          reads waste 0.000 ≤ 1.000 cores; a snapshot is held, copies 1.0
          a GB saves 0.00 s if it stays, and costs 3.91 s if it goes
        partition 8: n 4, m 4, s 205.1 MiB: keep, a merge would copy too much
          120000 gets/s, 400 seeks/s, 2000 writes/s
          reads waste 0.049 ≤ 1.000 cores; a merge saves 0.421 > 0.168 s, copies 21.0
          a GB saves 39.49 s if it stays, and costs 5.81 s if it goes
        partition 1: n 6, m 4, s 312.5 MiB: compact for writes
          120000 gets/s, 400 seeks/s, 2000 writes/s
          reads waste 0.073 ≤ 1.000 cores; a merge saves 0.316 > 0.256 s, copies 2.7
          a GB gets 367432 reads/s"#]]
    .assert_eq(&lines.join("\n"));
}
