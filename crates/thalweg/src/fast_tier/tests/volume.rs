//! A small world of writes that Algorithm 1 drives, which counts what is written to the disk. It has no bytes and no
//! files, only numbers of entries: a log, memtables, a tier, level 0 and one level below.
//!
//! All keys are there at the start, and each write replaces one. The tier, or the memory for memtables without a tier,
//! has room for 0.4 of the keys. This prints the table of `docs/fast-tier-results.md`:
//!
//!     cargo test -p thalweg --lib fast_tier::tests::volume -- --nocapture

use super::random::Random;
use crate::fast_tier::{
    Costs, Estimate, EvictionCause, FastTierMode, Flushed, Model, Options, Partition, Rank, Run, Statistics, Takes,
    Tier,
};

const KEYS: usize = 100_000;
const ENTRY_BYTES: u64 = 1024;
/// Entries that the tier has room for.
const ROOM: usize = KEYS * 2 / 5;
/// Entries of log that memtables, or a volatile tier, may pin.
const LOG_MAX: usize = KEYS * 4 / 5;
/// All keys are written once in 100 s on average.
const WRITES_A_SECOND: usize = KEYS / 100;
/// Writes before the counting begins, and while it goes on.
const WARM_UP: usize = 3 * KEYS;
const COUNTED: usize = 10 * KEYS;
/// The standard error of a HyperLogLog of 4 KiB.
const SIGMA: f64 = 0.016;

/// The sizes, besides the tier's, that differ from world to world.
#[derive(Clone, Copy)]
struct Sizes {
    partitions: usize,
    /// Entries of all memtables beside a tier.
    memtables: usize,
}

const SIZES: Sizes = Sizes { partitions: 40, memtables: ROOM / 32 };

/// Which keys are written.
#[derive(Clone, Copy)]
enum Keys {
    Uniform,
    /// With the hot keys scattered over all partitions, as YCSB does.
    Zipf(f64),
    /// With the hot keys side by side: partitions differ.
    ZipfInOrder(f64),
}

/// Ranks that follow a Zipf distribution with an exponent below 1 (Gray and others, as in YCSB).
struct Zipf {
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(theta: f64) -> Zipf {
        let zeta = |count: usize| (1..=count).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let all = zeta(KEYS);
        let eta = (1.0 - (2.0 / KEYS as f64).powf(1.0 - theta)) / (1.0 - zeta(2) / all);
        Zipf { theta, zeta: all, eta }
    }

    fn rank(&self, unit: f64) -> usize {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        let rank = KEYS as f64 * (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        (rank as usize).min(KEYS - 1)
    }
}

/// Where memtables go.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// To level 0. All the memory is theirs.
    Memtables { trigger: usize },
    /// Into a tier that pins the log and evicts to level 0.
    Volatile { trigger: usize, log_max: usize },
    /// Into a tier that is merged into the level below at once, as the paper does.
    Persistent,
}

#[derive(Default)]
struct Part {
    memtable: Vec<usize>,
    memtable_from: u64,
    /// Entries of the unsorted tables, oldest first.
    unsorted: Vec<usize>,
    sorted: usize,
    /// Distinct keys of the tier's tables.
    distinct: usize,
    log_from: Option<u64>,
    level0: Vec<usize>,
    evictions: u64,
}

/// Counts of entries.
#[derive(Clone, Copy, Default)]
struct Counts {
    written: u64,
    disk: u64,
    copied: u64,
    flushed: u64,
    for_log: u64,
    evictions: u64,
    /// Of the tier after each flush.
    filled: f64,
    flushes: u64,
}

struct World {
    sizes: Sizes,
    shape: Shape,
    model: Model,
    parts: Vec<Part>,
    statistics: Vec<Statistics>,
    /// For each key the number of its partition's memtable, and of its evictions, that it was last written in.
    in_memtable: Vec<u64>,
    in_tier: Vec<u64>,
    memtables: Vec<u64>,
    buffered: usize,
    writes: u64,
    counts: Counts,
}

impl World {
    fn new(sizes: Sizes, shape: Shape, options: Options) -> World {
        let log_bytes_max = match shape {
            Shape::Volatile { log_max, .. } => Some(log_max as u64 * ENTRY_BYTES),
            Shape::Memtables { .. } | Shape::Persistent => None,
        };
        World {
            sizes,
            shape,
            model: Model::new(Options { log_bytes_max, ..options }),
            // Level 0 is nowhere equally full, or all partitions would merge it at once.
            parts: (0..sizes.partitions).map(|index| Part { level0: vec![0; index % 4], ..Part::default() }).collect(),
            statistics: (0..sizes.partitions).map(|_| Statistics::new(0)).collect(),
            in_memtable: vec![u64::MAX; KEYS],
            in_tier: vec![u64::MAX; KEYS],
            memtables: vec![0; sizes.partitions],
            buffered: 0,
            writes: 0,
            counts: Counts::default(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.writes * (1_000_000_000 / WRITES_A_SECOND as u64)
    }

    fn write(&mut self, key: usize) {
        let index = key * self.sizes.partitions / KEYS;
        self.writes += 1;
        self.counts.written += 1;
        self.counts.disk += 1;
        let part = &mut self.parts[index];
        if part.memtable.is_empty() {
            part.memtable_from = self.writes - 1;
        }
        if self.in_memtable[key] != self.memtables[index] {
            self.in_memtable[key] = self.memtables[index];
            part.memtable.push(key);
            self.buffered += 1;
        }
        let room = if matches!(self.shape, Shape::Memtables { .. }) { ROOM } else { self.sizes.memtables };
        while self.buffered >= room {
            let largest = (0..self.sizes.partitions).max_by_key(|index| self.parts[*index].memtable.len()).unwrap();
            self.flush(largest);
        }
        let oldest = self.writes.saturating_sub(LOG_MAX as u64);
        if self.writes.is_multiple_of(KEYS as u64 / 1000) {
            for index in 0..self.sizes.partitions {
                if !self.parts[index].memtable.is_empty() && self.parts[index].memtable_from < oldest {
                    self.flush(index);
                }
            }
        }
    }

    fn flush(&mut self, index: usize) {
        let part = &mut self.parts[index];
        let memtable = std::mem::take(&mut part.memtable);
        self.memtables[index] += 1;
        self.buffered -= memtable.len();
        if let Shape::Memtables { trigger } = self.shape {
            return self.add_to_level0(index, memtable.len(), trigger);
        }
        let before = part.distinct;
        for key in &memtable {
            if self.in_tier[*key] != part.evictions {
                self.in_tier[*key] = part.evictions;
                part.distinct += 1;
            }
        }
        let updates = memtable.len() - (part.distinct - before);
        part.unsorted.push(memtable.len());
        part.log_from.get_or_insert(part.memtable_from);
        self.counts.flushed += memtable.len() as u64;
        let bytes = memtable.len() as u64 * ENTRY_BYTES;
        self.statistics[index].flushed(Flushed { entries: memtable.len() as u64, updates: updates as u64, bytes });
        self.decide(index);
    }

    fn decide(&mut self, index: usize) {
        let costs = Costs::default();
        let tier = Tier {
            capacity_bytes: ROOM as u64 * ENTRY_BYTES,
            partitions: self.sizes.partitions,
            log_end: self.writes * ENTRY_BYTES,
        };
        while let Some(compaction) = self.model.compaction(&costs, &tier, &self.describe(index)) {
            self.compact(index, compaction.takes);
        }
        let all: Vec<Partition> = (0..self.sizes.partitions).map(|index| self.describe(index)).collect();
        let entries = |part: &Part| part.unsorted.iter().sum::<usize>() + part.sorted;
        let filled: usize = self.parts.iter().map(entries).sum();
        self.counts.filled += filled as f64 / ROOM as f64;
        self.counts.flushes += 1;
        assert!(filled <= ROOM, "the tier has {filled} entries, and room for {ROOM}");
        for eviction in self.model.evictions(&costs, &tier, &all) {
            self.counts.for_log += u64::from(eviction.cause == EvictionCause::Log);
            self.evict(eviction.index);
        }
    }

    fn describe(&self, index: usize) -> Partition {
        let part = &self.parts[index];
        let run =
            |tables: u32, entries: usize| Run { tables, entries: entries as u64, bytes: entries as u64 * ENTRY_BYTES };
        let sorted = run(u32::from(part.sorted > 0), part.sorted);
        let level0: usize = part.level0.iter().sum();
        let lower = match self.shape {
            Shape::Memtables { trigger } | Shape::Volatile { trigger, .. } => {
                (level0 + KEYS / self.sizes.partitions) / trigger
            }
            Shape::Persistent => KEYS / self.sizes.partitions,
        };
        Partition {
            id: index as u64,
            unsorted: run(part.unsorted.len() as u32, part.unsorted.iter().sum()),
            sorted,
            overlapped: sorted,
            distinct: Estimate { value: part.distinct as f64, sigma: part.distinct as f64 * SIGMA },
            rates: self.statistics[index].rates(self.now_ns()),
            counted: self.statistics[index].counted(self.now_ns()),
            lower_bytes: lower as u64 * ENTRY_BYTES,
            log_from: part.log_from.map(|from| from * ENTRY_BYTES).filter(|_| self.shape != Shape::Persistent),
            ..Partition::default()
        }
    }

    fn compact(&mut self, index: usize, takes: Takes) {
        let part = &mut self.parts[index];
        if takes == Takes::Newest {
            // As the engine chooses them; few keys are in two of them.
            let mean = |newest: &[usize]| newest.iter().sum::<usize>() / newest.len().max(1);
            let is_newest = |count: &usize| {
                let newest = &part.unsorted[part.unsorted.len() - count..];
                count <= &8 || newest[0] <= 8 * mean(&newest[1..])
            };
            let count = (1..=part.unsorted.len()).take_while(is_newest).count();
            let merged = part.unsorted.drain(part.unsorted.len() - count..).sum::<usize>();
            self.counts.copied += merged as u64;
            part.unsorted.push(merged);
            return;
        }
        self.counts.copied += part.distinct as u64;
        (part.unsorted, part.sorted) = (Vec::new(), part.distinct);
        self.statistics[index].compacted(self.now_ns());
    }

    fn evict(&mut self, index: usize) {
        self.counts.evictions += 1;
        let part = &mut self.parts[index];
        let distinct = std::mem::take(&mut part.distinct);
        (part.unsorted, part.sorted, part.log_from) = (Vec::new(), 0, None);
        part.evictions += 1;
        self.statistics[index].compacted(self.now_ns());
        match self.shape {
            Shape::Memtables { trigger } | Shape::Volatile { trigger, .. } => {
                self.add_to_level0(index, distinct, trigger)
            }
            Shape::Persistent => self.counts.disk += (KEYS / self.sizes.partitions) as u64,
        }
    }

    /// A table of level 0; all of them are merged with the level below when there are `trigger`.
    fn add_to_level0(&mut self, index: usize, entries: usize, trigger: usize) {
        self.counts.disk += entries as u64;
        let part = &mut self.parts[index];
        part.level0.push(entries);
        if part.level0.len() >= trigger {
            part.level0.clear();
            self.counts.disk += (KEYS / self.sizes.partitions) as u64;
        }
    }
}

fn run(keys: Keys, sizes: Sizes, shape: Shape, options: Options) -> Counts {
    let mut world = World::new(sizes, shape, options);
    let mut random = Random(1);
    let zipf = match keys {
        Keys::Uniform => None,
        Keys::Zipf(theta) | Keys::ZipfInOrder(theta) => Some(Zipf::new(theta)),
    };
    let mut draw = || match (&zipf, keys) {
        (None, _) => (random.next() % KEYS as u64) as usize,
        (Some(zipf), Keys::ZipfInOrder(_)) => zipf.rank(random.unit()),
        // A permutation: the multiplier is prime and no divisor of the number of keys.
        (Some(zipf), _) => (zipf.rank(random.unit()) * 1_000_003) % KEYS,
    };
    (0..WARM_UP).for_each(|_| world.write(draw()));
    world.counts = Counts::default();
    (0..COUNTED).for_each(|_| world.write(draw()));
    world.counts
}

const COLUMNS: [(&str, Keys); 4] = [
    ("uniform", Keys::Uniform),
    ("zipf 0.8", Keys::Zipf(0.8)),
    ("zipf 0.99", Keys::Zipf(0.99)),
    ("zipf 0.99 in order", Keys::ZipfInOrder(0.99)),
];

/// A row of the table: what is simulated, and the amplification that is expected of each column.
type Row = (&'static str, Shape, Options, [f64; 4]);

/// Runs and prints a row, and compares it with what is expected of it.
fn check((name, shape, options, expected): Row) {
    let mut row = format!("{name:36}");
    for ((column, keys), expected) in COLUMNS.iter().zip(expected) {
        let counts = run(*keys, SIZES, shape, options.clone());
        let copies = counts.copied as f64 / counts.flushed.max(1) as f64;
        let filled = 100.0 * counts.filled / counts.flushes.max(1) as f64;
        let for_log = 100.0 * counts.for_log as f64 / counts.evictions.max(1) as f64;
        let found = counts.disk as f64 / counts.written as f64;
        row += &format!(" | {found:.2}: copies {copies:.1}, {filled:.0} % full, {for_log:.0} % for the log");
        assert!((found / expected - 1.0).abs() < 0.03, "{name}, {column}: {found}, expected {expected}");
        // Copies within the tier must not use up the processor (PMB-A12).
        assert!(copies < 5.0, "{name}, {column}: each byte is copied {copies} times");
    }
    println!("{row}");
}

const VOLATILE: Shape = Shape::Volatile { trigger: 4, log_max: LOG_MAX };

#[test]
fn a_volatile_tier_writes_what_memtables_of_the_same_size_write() {
    let wide = Options { keep_part: 0.65, ..Options::default() };
    check(("volatile tier", VOLATILE, Options::default(), [2.09, 1.76, 1.61, 1.62]));
    check(("volatile tier, evicts to 0.65", VOLATILE, wide, [2.14, 1.75, 1.61, 1.62]));
    check(("memtables, trigger 4", Shape::Memtables { trigger: 4 }, Options::default(), [2.03, 1.77, 1.60, 1.60]));
    check(("memtables, trigger 1", Shape::Memtables { trigger: 1 }, Options::default(), [2.98, 2.75, 2.58, 2.58]));
}

/// A tier in files: it pins no log.
const IN_FILES: Shape = Shape::Volatile { trigger: 4, log_max: 1000 * KEYS };

#[test]
fn a_persistent_tier_keeps_what_is_hot_and_writes_least_through_level_0() {
    let wide = Options { keep_part: 0.65, ..Options::default() };
    check(("tier in files, to level 0", IN_FILES, Options::default(), [2.10, 1.57, 1.26, 1.24]));
    check(("tier in files, evicts to 0.65", IN_FILES, wide.clone(), [2.14, 1.61, 1.31, 1.28]));
    check(("persistent tier", Shape::Persistent, Options::default(), [2.40, 1.79, 1.39, 1.41]));
    check(("persistent tier, evicts to 0.65", Shape::Persistent, wide, [2.53, 1.90, 1.44, 1.46]));
}

#[test]
fn without_the_sound_rank_more_is_written() {
    let paper = || Options { rank: Rank::Paper, keep_part: 0.65, ..Options::default() };
    let whole = || Options { mode: FastTierMode::Pm, ..Options::default() };
    check(("volatile tier, the paper's rank", VOLATILE, paper(), [2.40, 1.75, 1.61, 1.62]));
    check(("volatile tier, evicted as a whole", VOLATILE, whole(), [2.57, 2.17, 1.87, 1.86]));
    check(("persistent tier, the paper's rank", Shape::Persistent, paper(), [7.48, 5.86, 3.52, 3.17]));
    check(("persistent tier, evicted as a whole", Shape::Persistent, whole(), [3.90, 3.60, 3.20, 3.20]));
}

#[test]
fn a_log_as_long_as_the_tier_is_large_leaves_half_of_it_empty() {
    let log = |tiers: usize| Shape::Volatile { trigger: 4, log_max: ROOM * tiers };
    check(("volatile tier, log of 1 tier", log(1), Options::default(), [2.49, 2.19, 2.04, 2.10]));
    check(("volatile tier, log of 3 tiers", log(3), Options::default(), [2.10, 1.59, 1.46, 1.46]));
    check(("volatile tier, log of 8 tiers", log(8), Options::default(), [2.10, 1.55, 1.27, 1.27]));
}

#[test]
fn each_byte_is_copied_few_times_whatever_the_memtables_and_partitions_are() {
    for partitions in [1, 16] {
        for part in [32, 512, 2000] {
            let sizes = Sizes { partitions, memtables: ROOM / part };
            let mut row = format!("{partitions:2} partitions, memtables of 1/{part:<4}");
            for (column, keys) in COLUMNS {
                let counts = run(keys, sizes, VOLATILE, Options::default());
                let copies = counts.copied as f64 / counts.flushed.max(1) as f64;
                row += &format!(" | {column}: {copies:.1}");
                assert!(copies <= 5.0, "{row}");
            }
            println!("{row}");
        }
    }
}
