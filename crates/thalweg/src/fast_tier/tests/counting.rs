//! Statistics, rates and calibration.

use crate::fast_tier::{
    Calibration, CompactionCause, Costs, Counted, Estimate, Flushed, Model, Options, Partition, Rates, Run, Statistics,
    Tier,
};

const SECOND_NS: u64 = 1_000_000_000;

fn get_many(statistics: &Statistics, count: u64) -> usize {
    (0..count).filter(|_| statistics.count_get()).count()
}

fn seek_many(statistics: &Statistics, count: u64) -> usize {
    (0..count).filter(|_| statistics.count_seek()).count()
}

/// Whether two rates differ by at most a part.
fn near(found: f64, expected: f64, part: f64) -> bool {
    (found - expected).abs() <= expected * part
}

#[test]
fn reads_are_counted_in_sixteens_and_gets_and_seeks_apart() {
    let statistics = Statistics::new(0);
    get_many(&statistics, 1599);
    seek_many(&statistics, 31);
    let counted = statistics.counted(SECOND_NS);
    assert_eq!(counted.reads, 1584 + 16);
    let rates = statistics.rates(SECOND_NS);
    assert!(near(rates.gets, 1584.0, 1e-9) && near(rates.seeks, 16.0, 1e-9), "{rates:?}");
}

#[test]
fn threads_do_not_lose_each_others_reads() {
    let statistics = Statistics::new(0);
    let (threads, reads) = (4, 1_u64 << 20);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| get_many(&statistics, reads));
        }
    });
    let counted = statistics.counted(SECOND_NS).reads;
    // Threads may share a stripe: then ticks are lost, but not most of them.
    assert!(counted <= threads * reads && counted > threads * reads / 4, "{counted}");
}

#[test]
fn the_models_are_due_every_64_ki_reads() {
    let statistics = Statistics::new(0);
    assert_eq!(get_many(&statistics, (64 << 10) - 1), 0);
    assert!(statistics.count_get());
    assert_eq!(get_many(&statistics, 5 * (64 << 10)), 5);
    // Gets and seeks add up.
    assert_eq!(get_many(&statistics, 32 << 10) + seek_many(&statistics, 32 << 10), 1);
}

/// A phase of reads has no flush, but it makes the models see the reads (acceptance of PMB-A11).
#[test]
fn a_phase_of_reads_compacts() {
    let costs = Costs { get_seconds: 1e-6, ..Costs::default() };
    let tier = Tier { capacity_bytes: 1 << 30, partitions: 1, log_end: 0 };
    let (model, statistics) = (Model::new(Options::default()), Statistics::new(0));
    let mut partition = Partition {
        unsorted: Run { tables: 8, entries: 8000, bytes: 8 << 20 },
        distinct: Estimate { value: 8000.0, sigma: 128.0 },
        ..Partition::default()
    };
    assert_eq!(model.compaction(&costs, &tier, &partition), None);
    // 300,000 reads a second waste 1.2 cores on four tables more than one; 200,000 waste 0.8.
    let mut decide_after = |reads_a_second: u64, seconds: u64| {
        let mut causes = Vec::new();
        for read in 0..reads_a_second * seconds {
            if statistics.count_get() {
                let now_ns = read * SECOND_NS / reads_a_second;
                partition.rates = statistics.rates(now_ns);
                causes.extend(model.compaction(&costs, &tier, &partition).map(|compaction| compaction.cause));
            }
        }
        causes
    };
    assert_eq!(decide_after(200_000, 2), []);
    let causes = decide_after(300_000, 60);
    assert!(causes.contains(&CompactionCause::Reads), "{causes:?}");
}

#[test]
fn a_rate_is_right_from_the_first_second_on() {
    let statistics = Statistics::new(5 * SECOND_NS);
    for second in 1..60 {
        get_many(&statistics, 16_000);
        statistics.flushed(Flushed { entries: 100, updates: 25, bytes: 102_400 });
        let rates = statistics.rates((5 + second) * SECOND_NS);
        let expected = Rates { gets: 16_000.0, seeks: 0.0, writes: 100.0, updates: 25.0, written_bytes: 102_400.0 };
        let pairs = [(rates.gets, expected.gets), (rates.writes, expected.writes), (rates.updates, expected.updates)];
        assert!(pairs.iter().all(|(found, expected)| near(*found, *expected, 1e-6)), "{second}: {rates:?}");
        assert!(near(rates.written_bytes, expected.written_bytes, 1e-6) && rates.seeks == 0.0, "{rates:?}");
    }
}

#[test]
fn the_first_moment_is_no_rate() {
    let statistics = Statistics::new(0);
    get_many(&statistics, 16);
    // 16 reads in a millisecond are not 16,000 a second.
    let rates = statistics.rates(1_000_000);
    assert!(rates.gets > 0.0 && rates.gets < 17.0, "{rates:?}");
}

#[test]
fn a_rate_halves_in_ten_seconds_however_often_it_is_read() {
    for steps in [1, 7, 100] {
        let statistics = Statistics::inherited(0, Rates { gets: 1000.0, ..Rates::default() });
        let mut found = Rates::default();
        for step in 1..=steps {
            found = statistics.rates(10 * SECOND_NS * step / steps);
        }
        assert!(near(found.gets, 500.0, 1e-6), "{steps}: {found:?}");
    }
}

#[test]
fn a_compaction_zeroes_the_papers_counters_and_no_rate() {
    let statistics = Statistics::new(0);
    get_many(&statistics, 1600);
    statistics.flushed(Flushed { entries: 10, updates: 4, bytes: 1 });
    let now_ns = 4 * SECOND_NS;
    assert_eq!(statistics.counted(now_ns), Counted { reads: 1600, writes: 10, updates: 4, seconds: 4.0 });
    let before = statistics.rates(now_ns);
    statistics.compacted(now_ns);
    assert_eq!(statistics.counted(now_ns), Counted::default());
    assert_eq!(statistics.rates(now_ns), before);
    seek_many(&statistics, 16);
    // An estimate of updates may be above what there is.
    statistics.flushed(Flushed { entries: 0, updates: 9, bytes: 0 });
    assert_eq!(statistics.counted(now_ns + SECOND_NS), Counted { reads: 16, writes: 0, updates: 0, seconds: 1.0 });
}

#[test]
fn a_clock_that_stands_still_changes_no_rate() {
    let statistics = Statistics::new(0);
    get_many(&statistics, 1600);
    let rates = statistics.rates(SECOND_NS);
    get_many(&statistics, 1600);
    assert_eq!(statistics.rates(SECOND_NS), rates);
    assert!(near(statistics.rates(2 * SECOND_NS).gets, 1600.0, 1e-6));
}

#[test]
fn rates_are_divided_and_added() {
    let rates = Rates { gets: 1.0, seeks: 2.0, writes: 3.0, updates: 4.0, written_bytes: 5.0 };
    assert_eq!(rates.times(0.5).plus(rates.times(0.5)), rates);
}

#[test]
fn costs_follow_measured_jobs_and_no_outlier() {
    let costs = Costs { get_seconds: 1e-6, seek_seconds: 2e-6, internal_seconds: 1e-6, major_seconds: 4e-6 };
    let calibration = Calibration::new(costs);
    (0..50).for_each(|_| calibration.measured_internal(10_000, 0.02));
    (0..50).for_each(|_| calibration.measured_major(10_000, 0.02));
    let found = calibration.costs();
    assert!(near(found.internal_seconds, 2e-6, 0.01) && near(found.major_seconds, 2e-6, 0.01), "{found:?}");
    assert_eq!((found.get_seconds, found.seek_seconds), (1e-6, 2e-6));
    // A job that slept for an hour counts as four times the average, with a weight of a fifth.
    calibration.measured_internal(10_000, 3600.0);
    assert!(near(calibration.costs().internal_seconds, 3.2e-6, 0.01));
    // Nothing is learnt from a tiny job, nor from a clock that went wrong.
    let before = calibration.costs();
    calibration.measured_internal(999, 1.0);
    [0.0, -1.0, f64::NAN, f64::INFINITY].iter().for_each(|seconds| calibration.measured_major(10_000, *seconds));
    assert_eq!(calibration.costs(), before);
}
