//! Algorithm 1, a table of cases for each step and each of its bounds.

use crate::fast_table::FastLayout;
use crate::fast_tier::{
    Activity, Compaction, CompactionCause, Costs, Counted, Estimate, Eviction, EvictionCause, FastTierForms,
    FastTierMode, Model, Options, Partition, Rank, Rates, Run, Takes, Tier,
};

const COSTS: Costs = Costs { get_seconds: 1e-6, seek_seconds: 10e-6, internal_seconds: 1e-6, major_seconds: 4e-6 };
const KIB: u64 = 1 << 10;

/// A tier for 1000 entries of 1 KiB and 10 partitions: `τ_w` is 25 KiB.
fn tier() -> Tier {
    Tier { capacity_bytes: 1000 * KIB, partitions: 10, log_end: 0 }
}

fn run(tables: u32, entries: u64) -> Run {
    Run { tables, entries, bytes: entries * KIB }
}

/// `n` unsorted and `m` sorted tables of ten entries, all overlapping, without duplicates and reads.
fn partition(n: u32, m: u32) -> Partition {
    let distinct = f64::from(10 * (n + m));
    Partition {
        unsorted: run(n, u64::from(10 * n)),
        sorted: run(m, u64::from(10 * m)),
        overlapped: run(m, u64::from(10 * m)),
        distinct: Estimate { value: distinct, sigma: 0.0 },
        ..Partition::default()
    }
}

fn gets(partition: Partition, gets: f64) -> Partition {
    Partition { rates: Rates { gets, ..partition.rates }, ..partition }
}

/// With `distinct` keys of all its entries.
fn distinct(partition: Partition, value: f64, sigma: f64) -> Partition {
    Partition { distinct: Estimate { value, sigma }, ..partition }
}

/// As many bytes must be new as are a quarter of what is rewritten.
fn quarter() -> Options {
    Options { unsorted_part_min: 0.25, ..Options::default() }
}

fn unforced() -> Options {
    Options { unsorted_tables_max: None, ..quarter() }
}

/// Checks steps 1 and 2 on each case: what it shows, the partition, and the cause of its merge.
fn check(options: &Options, cases: &[(&str, Partition, Option<CompactionCause>)]) {
    let model = Model::new(options.clone());
    for (name, partition, expected) in cases {
        let found = model.compaction(&COSTS, &tier(), partition);
        assert_eq!(found.map(|compaction| compaction.cause), *expected, "{name}");
        let takes_all = options.forms == FastTierForms::Paper;
        assert!(found.is_none_or(|compaction| (compaction.takes == Takes::All) == takes_all), "{name}");
    }
}

#[test]
fn step_1_merges_when_reads_waste_more_than_a_core() {
    let reads = Some(CompactionCause::Reads);
    let seeks = |seeks: f64| Rates { seeks, ..Rates::default() };
    let cases = [
        ("no reads", partition(4, 0), None),
        // 500,000 × 1 µs × 4 / 2 is one core.
        ("a core exactly", gets(partition(4, 0), 500_000.0), None),
        ("more than a core", gets(partition(4, 0), 500_001.0), reads),
        ("more tables waste more", gets(partition(8, 0), 250_001.0), reads),
        ("a seek costs ten gets", Partition { rates: seeks(50_001.0), ..partition(4, 0) }, reads),
        ("fewer seeks", Partition { rates: seeks(50_000.0), ..partition(4, 0) }, None),
        ("the two add up", Partition { rates: Rates { gets: 250_001.0, ..seeks(25_000.0) }, ..partition(4, 0) }, reads),
        ("one table over nothing is sorted", gets(partition(1, 0), 1e9), None),
        ("one table over a sorted one", gets(partition(1, 1), 1e9), reads),
        ("nothing unsorted", gets(partition(0, 9), 1e9), None),
        // 10 KiB over 40, and over 50.
        ("a quarter of what is rewritten", gets(partition(1, 4), 1e9), reads),
        ("less than a quarter", gets(partition(1, 5), 1e9), None),
        ("only what overlaps counts", Partition { overlapped: run(4, 40), ..gets(partition(1, 9), 1e9) }, reads),
        ("snapshots do not matter", Partition { keeps_versions: true, ..gets(partition(4, 0), 1e9) }, reads),
        ("compacting", Partition { activity: Activity::Compacting, ..gets(partition(4, 0), 1e9) }, None),
        ("evicting", Partition { activity: Activity::Evicting, ..gets(partition(4, 0), 1e9) }, None),
    ];
    check(&unforced(), &cases);
    let two_cores = Options { read_cores_min: 2.0, ..unforced() };
    check(
        &two_cores,
        &[("two cores", gets(partition(4, 0), 1_000_001.0), reads), ("less", gets(partition(4, 0), 999_999.0), None)],
    );
}

#[test]
fn step_2_merges_when_what_it_removes_would_cost_more_below() {
    let writes = Some(CompactionCause::Writes);
    let cases = [
        // Of 40 entries a merge must remove more than a quarter: one below costs four merged here.
        ("a quarter exactly", distinct(partition(4, 0), 30.0, 0.0), None),
        ("more than a quarter", distinct(partition(4, 0), 29.0, 0.0), writes),
        ("three times the error more", distinct(partition(4, 0), 26.0, 1.0), writes),
        ("not beyond three times the error", distinct(partition(4, 0), 27.0, 1.0), None),
        ("sorted entries are merged too", distinct(partition(4, 4), 61.0, 0.0), None),
        ("and removed", distinct(partition(4, 4), 59.0, 0.0), writes),
        (
            "sorted entries that do not overlap are not",
            { Partition { overlapped: run(0, 0), ..distinct(partition(4, 4), 29.0, 0.0) } },
            writes,
        ),
        ("nor removed", Partition { overlapped: run(0, 0), ..distinct(partition(4, 4), 30.0, 0.0) }, None),
        (
            "a snapshot keeps old versions",
            { Partition { keeps_versions: true, ..distinct(partition(4, 0), 10.0, 0.0) } },
            None,
        ),
        ("20 KiB are below the threshold", distinct(partition(2, 0), 10.0, 0.0), None),
        ("30 KiB are not", distinct(partition(3, 0), 10.0, 0.0), writes),
        ("less than a quarter of what is rewritten", distinct(partition(1, 5), 1.0, 0.0), None),
        ("nothing unsorted", distinct(partition(0, 9), 1.0, 0.0), None),
    ];
    check(&unforced(), &cases);
}

#[test]
fn the_threshold_of_step_2_is_a_part_of_each_partitions_share() {
    let options = Options::default();
    assert_eq!(options.write_threshold_bytes(1000 * KIB, 10), 25 * KIB);
    assert_eq!(options.write_threshold_bytes(1000 * KIB, 0), 1000 * KIB);
    let model = Model::new(unforced());
    let at = |bytes: u64| {
        let unsorted = Run { tables: 2, entries: 40, bytes };
        let partition = Partition { unsorted, ..distinct(partition(2, 0), 10.0, 0.0) };
        model.compaction(&COSTS, &tier(), &partition).is_some()
    };
    assert_eq!((at(25 * KIB - 1), at(25 * KIB)), (false, true));
}

/// Keys that are drawn from 10,000 of a partition: by a uniform distribution, and by a Zipf distribution with 0.99.
#[test]
fn step_2_refuses_uniform_writes_and_takes_zipf() {
    let entries: u64 = 2000;
    let uniform = 10_000.0 * (1.0 - (-(entries as f64) / 10_000.0).exp());
    let zeta: f64 = (1..=10_000).map(|rank| 1.0 / f64::from(rank).powf(0.99)).sum();
    let seen = |rank: i32| 1.0 - (-(entries as f64) / (f64::from(rank).powf(0.99) * zeta)).exp();
    let zipf: f64 = (1..=10_000).map(seen).sum();
    assert!(uniform > 1800.0 && zipf < 1200.0, "distinct keys: {uniform}, {zipf}");
    let partition = |value: f64| Partition {
        unsorted: run(8, entries),
        distinct: Estimate { value, sigma: value * 0.016 },
        ..partition(8, 0)
    };
    check(
        &unforced(),
        &[("uniform", partition(uniform), None), ("zipf", partition(zipf), Some(CompactionCause::Writes))],
    );
}

#[test]
fn too_many_tables_are_merged_whatever_it_costs() {
    let tables = Some(CompactionCause::Tables);
    let cases = [
        ("fifteen", partition(15, 0), None),
        ("sixteen", partition(16, 0), tables),
        ("sixteen over a little", partition(16, 64), tables),
        ("sixteen over much", partition(16, 65), None),
        ("sixty-four over anything", partition(64, 1000), tables),
        ("sixty-three", partition(63, 1000), None),
        ("reads come first", gets(partition(16, 0), 1e9), Some(CompactionCause::Reads)),
        ("writes come first", distinct(partition(16, 0), 10.0, 0.0), Some(CompactionCause::Writes)),
    ];
    check(&quarter(), &cases);
    check(&unforced(), &[("turned off", partition(1000, 0), None)]);
    let always = Options { unsorted_tables_max: Some(0), ..Options::default() };
    check(&always, &[("nothing unsorted", partition(0, 9), None)]);
}

#[test]
fn modes_take_the_steps_of_the_papers_ablation() {
    let hot = gets(distinct(partition(100, 0), 10.0, 0.0), 1e9);
    let cases = [
        (FastTierMode::Ssd, false, 0, FastLayout::Array, false),
        (FastTierMode::P, false, 2, FastLayout::Array, false),
        (FastTierMode::Pi, true, 1, FastLayout::Array, false),
        (FastTierMode::Pic, true, 1, FastLayout::Prefixed, false),
        (FastTierMode::Full, true, 1, FastLayout::Prefixed, true),
        (FastTierMode::Pm, false, 2, FastLayout::Prefixed, true),
    ];
    for (mode, compacts, evicted, layout, coroutines) in cases {
        let model = Model::new(Options { mode, ..Options::default() });
        assert_eq!(model.compaction(&COSTS, &tier(), &hot).is_some(), compacts, "{mode:?}");
        let evictions = model.evictions(&COSTS, &tier(), &[partition(40, 0), partition(50, 0)]);
        assert_eq!(evictions.len(), evicted, "{mode:?}");
        assert_eq!((mode.layout(), mode.uses_coroutines()), (layout, coroutines), "{mode:?}");
        assert_eq!(mode.uses_tier(), mode != FastTierMode::Ssd);
    }
}

#[test]
fn the_papers_forms_use_counters_and_merge_everything() {
    let options = Options { forms: FastTierForms::Paper, ..unforced() };
    let counted = |reads, writes, updates| Partition {
        counted: Counted { reads, writes, updates, seconds: 10.0 },
        ..partition(4, 100)
    };
    check(
        &options,
        &[
            ("reads a second, and no bound on copies", counted(5_000_010, 0, 0), Some(CompactionCause::Reads)),
            ("a core exactly", counted(5_000_000, 0, 0), None),
            ("updates", counted(0, 40, 11), Some(CompactionCause::Writes)),
            ("a quarter exactly", counted(0, 40, 10), None),
            ("rates do not count", gets(distinct(partition(4, 0), 1.0, 0.0), 1e9), None),
        ],
    );
    // The first second counts as a whole one: a counter that was zeroed just now says little.
    let young = Counted { reads: 500_000, seconds: 0.001, ..Counted::default() };
    check(&options, &[("young", Partition { counted: young, ..partition(4, 0) }, None)]);
}

/// The partitions that are evicted, if each has this many tables of 10 KiB, of which the tier holds 100.
fn evicted(options: &Options, partitions: &[Partition]) -> Vec<usize> {
    let evictions = Model::new(options.clone()).evictions(&COSTS, &tier(), partitions);
    assert!(evictions.iter().all(|eviction| eviction.cause == EvictionCause::Room));
    evictions.into_iter().map(|eviction| eviction.index).collect()
}

#[test]
fn step_3_begins_at_a_threshold_and_ends_at_the_target() {
    let options = Options { keep_part: 0.65, ..Options::default() };
    let five = |last: u32| [17, 17, 17, 17, last].map(|tables| partition(tables, 0));
    assert_eq!(evicted(&options, &five(16)), [] as [usize; 0]);
    // 850 KiB to 650: two of 170.
    assert_eq!(evicted(&options, &five(17)), [0, 1]);
    // Down to exactly 650.
    assert_eq!(evicted(&options, &[partition(20, 0), partition(65, 0)]), [0]);
    // One byte more is too much.
    let mut large = partition(65, 0);
    large.unsorted.bytes += 1;
    assert_eq!(evicted(&options, &[partition(20, 0), large]), [1]);
    assert_eq!(evicted(&options, &[]), [] as [usize; 0]);
}

#[test]
fn a_tier_that_mostly_serves_reads_keeps_more() {
    let evicted_at = |gets: f64, seeks: f64, writes: f64| {
        let rates = Rates { gets, seeks, writes, ..Rates::default() };
        let nine = vec![Partition { rates, ..partition(10, 0) }; 9];
        let options = Options { keep_part: 0.65, keep_part_mostly_reads: 0.80, ..Options::default() };
        evicted(&options, &nine).len()
    };
    // 900 KiB to 650, or to 800.
    assert_eq!(evicted_at(0.0, 0.0, 0.0), 3);
    assert_eq!(evicted_at(95.0, 0.0, 5.0), 3);
    assert_eq!(evicted_at(95.1, 0.0, 4.9), 1);
    assert_eq!(evicted_at(0.1, 95.0, 4.9), 1);
}

#[test]
fn the_sound_rank_weighs_what_stays_against_what_an_eviction_rewrites() {
    let first = |a: Partition, b: Partition| evicted(&Options::default(), &[a, b])[0];
    let lower = |partition: Partition, tables: u64| Partition { lower_bytes: tables * 10 * KIB, ..partition };
    let updates = |partition: Partition, updates: f64| {
        let rates = Rates { updates, written_bytes: 1024.0 * updates, ..Rates::default() };
        Partition { rates, ..partition }
    };
    let half = || partition(45, 0);
    assert_eq!(first(half(), gets(half(), 1.0)), 0, "fewer reads");
    assert_eq!(first(gets(half(), 1.0), half()), 1, "fewer reads");
    assert_eq!(first(lower(half(), 10), lower(half(), 9)), 1, "less below");
    assert_eq!(first(lower(partition(44, 0), 100), lower(partition(46, 0), 100)), 1, "more bytes for what lies below");
    assert_eq!(first(updates(half(), 10.0), updates(half(), 9.0)), 1, "fewer updates");
    let much_below = lower(gets(half(), 1.0), 1000);
    assert_eq!(first(lower(half(), 10_000), much_below), 1, "below weighs more than a read a second");
}

#[test]
fn the_papers_rank_knows_reads_only() {
    let options = Options { rank: Rank::Paper, ..Options::default() };
    let lower = |partition: Partition| Partition { lower_bytes: 1 << 30, ..partition };
    assert_eq!(evicted(&options, &[lower(partition(45, 0)), partition(45, 0)])[0], 0);
    assert_eq!(evicted(&options, &[gets(partition(45, 0), 2.0), gets(partition(45, 0), 1.0)])[0], 1);
    // Reads a byte, not reads.
    assert_eq!(evicted(&options, &[gets(partition(60, 0), 2.0), gets(partition(25, 0), 1.0)])[0], 0);
    // The paper's own counters.
    let counted = |reads| Partition { counted: Counted { reads, ..Counted::default() }, ..partition(45, 0) };
    let paper = Options { forms: FastTierForms::Paper, ..options };
    assert_eq!(evicted(&paper, &[counted(200), counted(100)])[0], 1);
}

#[test]
fn what_is_on_its_way_out_counts_as_gone() {
    let evicting = |tables| Partition { activity: Activity::Evicting, ..partition(tables, 0) };
    let options = Options::default();
    assert_eq!(evicted(&options, &[evicting(30), partition(30, 0), partition(30, 0)]), [] as [usize; 0]);
    assert_eq!(evicted(&options, &[evicting(10), partition(60, 0), partition(30, 0)]).len(), 1);
    // One that is merged may be evicted when its merge has ended.
    let compacting = Partition { activity: Activity::Compacting, ..partition(60, 0) };
    assert_eq!(evicted(&options, &[compacting, partition(30, 0)]), [0]);
}

#[test]
fn a_cold_small_partition_stays_if_a_large_one_has_to_go() {
    let ranked = [partition(1, 0), gets(partition(40, 0), 1e3), gets(partition(50, 0), 1e6)];
    // The first is the coldest, but the second has to go as well, and is enough alone.
    let options = Options { rank: Rank::Paper, ..Options::default() };
    assert_eq!(evicted(&options, &ranked), [1]);
    // With it the tier has exactly 800 KiB, its target while there are only reads.
    let ranked = [partition(10, 0), gets(partition(20, 0), 1e3), gets(partition(70, 0), 1e6)];
    assert_eq!(evicted(&options, &ranked), [1]);
}

#[test]
fn partitions_that_pin_too_much_log_are_evicted_the_oldest_first() {
    let pinning = |from: u64| Partition { log_from: Some(from), ..partition(1, 0) };
    let options = Options { log_bytes_max: Some(100), ..Options::default() };
    let evicted = |options: &Options, partitions: &[Partition]| {
        let tier = Tier { log_end: 1000, ..tier() };
        Model::new(options.clone()).evictions(&COSTS, &tier, partitions)
    };
    let log = |index| Eviction { index, cause: EvictionCause::Log };
    assert_eq!(evicted(&options, &[pinning(900), partition(1, 0)]), []);
    assert_eq!(evicted(&options, &[pinning(899), pinning(900), pinning(10)]), [log(2), log(0)]);
    let going = Partition { activity: Activity::Evicting, ..pinning(0) };
    assert_eq!(evicted(&options, &[going, pinning(950)]), []);
    assert_eq!(evicted(&Options::default(), &[pinning(0)]), [], "a persistent tier pins nothing");
    // What the log evicts makes room, so that nothing else has to go; else more goes, for room.
    let large = |from| Partition { log_from: Some(from), ..partition(45, 0) };
    assert_eq!(evicted(&options, &[large(950), large(0)]), [log(1)]);
    let room = |index| Eviction { index, cause: EvictionCause::Room };
    assert_eq!(evicted(&options, &[large(950), pinning(0), large(960)]), [log(1), room(0)]);
    // In a mode that evicts everything for room, the log still takes only those that pin it.
    let whole = Options { mode: FastTierMode::Pm, ..options };
    assert_eq!(evicted(&whole, &[pinning(950), pinning(0)]), [log(1)]);
}

#[test]
fn a_merge_takes_what_overlaps_and_nothing_twice() {
    let model = Model::new(Options::default());
    let found = model.compaction(&COSTS, &tier(), &gets(partition(4, 1), 1e9));
    assert_eq!(found, Some(Compaction { cause: CompactionCause::Reads, takes: Takes::Overlapped }));
}
