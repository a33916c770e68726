//! Properties of decisions over random descriptions.

use super::random::Random;
use crate::fast_tier::{
    Activity, Costs, Decision, Estimate, Eviction, EvictionCause, EvictionRule, FastTierForms, FastTierMode, Model,
    Options, Partition, Rank, Rates, Run, Tier,
};

const CASES: u64 = 5000;

struct Case {
    options: Options,
    costs: Costs,
    tier: Tier,
    partitions: Vec<Partition>,
}

fn options(random: &mut Random) -> Options {
    let modes = [
        FastTierMode::Ssd,
        FastTierMode::P,
        FastTierMode::Pi,
        FastTierMode::Pic,
        FastTierMode::Full,
        FastTierMode::Full,
        FastTierMode::Full,
        FastTierMode::Pm,
    ];
    Options {
        mode: modes[random.below(modes.len())],
        forms: if random.below(4) == 0 { FastTierForms::Paper } else { FastTierForms::Sound },
        rank: if random.below(4) == 0 { Rank::Paper } else { Rank::Sound },
        unsorted_tables_max: (random.below(2) == 0).then_some(1 + random.below(20) as u32),
        log_bytes_max: (random.below(2) == 0).then_some(random.below(1000) as u64),
        ..Options::default()
    }
}

fn partition(random: &mut Random, id: u64) -> Partition {
    let activities = [Activity::Idle, Activity::Idle, Activity::Idle, Activity::Compacting, Activity::Evicting];
    let mut run = |most: usize| {
        let tables = random.below(most) as u32;
        let entries = u64::from(tables) * random.below(100) as u64;
        Run { tables, entries, bytes: entries * (1 + random.below(100) as u64) }
    };
    let (unsorted, sorted) = (run(20), run(20));
    let overlapped = if random.below(2) == 0 { sorted } else { Run::default() };
    let merged = unsorted.entries + overlapped.entries;
    let value = merged as f64 * random.unit();
    let rate = |random: &mut Random| if random.below(3) == 0 { 0.0 } else { 1e6 * random.unit() };
    Partition {
        id,
        unsorted,
        sorted,
        overlapped,
        distinct: Estimate { value, sigma: value * 0.016 },
        rates: Rates {
            gets: rate(random),
            seeks: rate(random),
            writes: rate(random),
            updates: rate(random),
            written_bytes: rate(random),
        },
        keeps_versions: random.below(4) == 0,
        lower_bytes: random.below(1_000_000) as u64,
        log_from: (random.below(2) == 0).then_some(random.below(1000) as u64),
        activity: activities[random.below(activities.len())],
        ..Partition::default()
    }
}

fn case(seed: u64) -> Case {
    let random = &mut Random(seed);
    let partitions: Vec<Partition> = (0..random.below(30) as u64).map(|id| partition(random, id)).collect();
    let all: u64 = partitions.iter().map(Partition::bytes).sum();
    let tier = Tier {
        capacity_bytes: (all as f64 * (0.5 + random.unit())) as u64,
        partitions: partitions.len(),
        log_end: 1000,
    };
    Case { options: options(random), costs: Costs::default(), tier, partitions }
}

/// Bytes of the partitions that stay if `evictions` go.
fn staying(case: &Case, evictions: &[Eviction]) -> u64 {
    let stays = |index: &usize| evictions.iter().all(|eviction| eviction.index != *index);
    let partition = |index: usize| &case.partitions[index];
    (0..case.partitions.len())
        .filter(stays)
        .filter(|index| partition(*index).activity != Activity::Evicting)
        .map(|index| partition(index).bytes())
        .sum()
}

fn target(case: &Case) -> u64 {
    let sum = |rate: fn(&Rates) -> f64| case.partitions.iter().map(|partition| rate(&partition.rates)).sum::<f64>();
    let (reads, writes) = (sum(|rates| rates.gets + rates.seeks), sum(|rates| rates.writes));
    let mostly_reads = reads > case.options.mostly_reads_part * (reads + writes);
    let part = if mostly_reads { case.options.keep_part_mostly_reads } else { case.options.keep_part };
    (case.tier.capacity_bytes as f64 * part) as u64
}

#[test]
fn evictions_end_at_the_target_and_none_is_superfluous() {
    let (mut with_room, mut with_both, mut with_several) = (0, 0, 0);
    for seed in 0..CASES {
        let case = case(seed);
        let evictions = Model::new(case.options.clone()).evictions(&case.costs, &case.tier, &case.partitions);
        let (log, room): (Vec<Eviction>, Vec<Eviction>) =
            evictions.iter().partition(|eviction| eviction.cause == EvictionCause::Log);
        let stays = staying(&case, &log);
        let begins = (case.tier.capacity_bytes as f64 * case.options.evict_part) as u64;
        if stays < begins || case.options.mode.eviction() == EvictionRule::Never {
            assert_eq!(room, [], "seed {seed}: the tier is not full");
            continue;
        }
        if case.options.mode.eviction() == EvictionRule::Whole {
            assert_eq!(staying(&case, &evictions), 0, "seed {seed}");
            continue;
        }
        let target = target(&case);
        assert!(staying(&case, &evictions) <= target, "seed {seed}: the tier stays too large");
        for spared in &room {
            let others: Vec<Eviction> = evictions.iter().filter(|other| *other != spared).copied().collect();
            assert!(staying(&case, &others) > target, "seed {seed}: {spared:?} is superfluous");
        }
        with_room += u64::from(!room.is_empty());
        with_several += u64::from(room.len() > 1);
        with_both += u64::from(!room.is_empty() && !log.is_empty());
    }
    assert!(with_room > 500 && with_several > 200 && with_both > 50, "{with_room}, {with_several}, {with_both}");
}

#[test]
fn the_log_evicts_those_that_pin_it_too_far_back_and_no_others() {
    let mut seen = 0;
    for seed in 0..CASES {
        let case = case(seed);
        let evictions = Model::new(case.options.clone()).evictions(&case.costs, &case.tier, &case.partitions);
        let found: Vec<usize> = evictions
            .iter()
            .filter(|eviction| eviction.cause == EvictionCause::Log)
            .map(|eviction| eviction.index)
            .collect();
        let from = |index: usize| case.partitions[index].log_from;
        assert!(found.windows(2).all(|pair| from(pair[0]) <= from(pair[1])), "seed {seed}: the oldest goes first");
        for (index, partition) in case.partitions.iter().enumerate() {
            let too_old =
                case.options.log_bytes_max.zip(partition.log_from).is_some_and(|(most, from)| from + most < 1000);
            let due = too_old && partition.activity != Activity::Evicting && case.options.mode != FastTierMode::Ssd;
            assert_eq!(found.contains(&index), due, "seed {seed}, partition {index}");
            seen += u64::from(due);
        }
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn equal_descriptions_get_equal_decisions_and_each_partition_one() {
    let (mut compactions, mut evicted) = (0, 0);
    for seed in 0..CASES {
        let case = case(seed);
        let model = Model::new(case.options.clone());
        let reports = model.reports(&case.costs, &case.tier, &case.partitions);
        assert_eq!(reports, model.reports(&case.costs, &case.tier, &case.partitions.clone()), "seed {seed}");
        let evictions = model.evictions(&case.costs, &case.tier, &case.partitions);
        for (index, (partition, report)) in case.partitions.iter().zip(&reports).enumerate() {
            let compaction = model.compaction(&case.costs, &case.tier, partition).map(|compaction| compaction.cause);
            let eviction = evictions.iter().filter(|eviction| eviction.index == index);
            let causes: Vec<EvictionCause> = eviction.map(|eviction| eviction.cause).collect();
            let expected = match (causes.as_slice(), compaction) {
                ([cause], _) => Decision::Evict(*cause),
                ([], Some(cause)) => Decision::Compact(cause),
                ([], None) => Decision::Keep,
                _ => panic!("seed {seed}: partition {index} is evicted twice"),
            };
            assert_eq!((report.id, report.decision), (index as u64, expected), "seed {seed}");
            assert!(!report.copies_too_many || compaction.is_none(), "seed {seed}: partition {index} is compacted");
            compactions += u64::from(matches!(expected, Decision::Compact(_)));
            evicted += u64::from(matches!(expected, Decision::Evict(_)));
            let idle = partition.activity == Activity::Idle && partition.unsorted.tables > 0;
            assert!(idle || compaction.is_none(), "seed {seed}: partition {index} is busy or sorted");
        }
    }
    assert!(compactions > 1000 && evicted > 1000, "{compactions}, {evicted}");
}

/// Sound and paper: a partition that stays is worth at least as much a byte as each that goes, unless it is too large
/// to make up for it, or small enough to stay beside what goes.
#[test]
fn a_warmer_partition_of_the_same_size_outlives_a_colder_one() {
    let mut seen = 0;
    for seed in 0..CASES {
        let mut case = case(seed);
        case.options = Options { rank: case.options.rank, ..Options::default() };
        for partition in &mut case.partitions {
            partition.unsorted = Run { tables: 1, entries: 10, bytes: 1000 };
            (partition.sorted, partition.lower_bytes, partition.activity) = (Run::default(), 0, Activity::Idle);
            partition.rates.updates = 0.0;
            partition.rates.seeks = 0.0;
        }
        case.tier.capacity_bytes = 1000 * case.partitions.len() as u64;
        let evictions = Model::new(case.options.clone()).evictions(&case.costs, &case.tier, &case.partitions);
        let gets = |index: usize| case.partitions[index].rates.gets;
        let goes: Vec<usize> = evictions.iter().map(|eviction| eviction.index).collect();
        for stays in (0..case.partitions.len()).filter(|index| !goes.contains(index)) {
            assert!(goes.iter().all(|goes| gets(*goes) <= gets(stays)), "seed {seed}: {stays} stays, of {goes:?}");
            seen += 1;
        }
    }
    assert!(seen > 1000, "{seen}");
}
