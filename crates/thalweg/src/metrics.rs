//! Counters, cheap and always enabled: bytes by cause, syncs, stalls, hits.
//!
//! Every counter is a relaxed atomic. Names carry their unit last.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }
    #[inline]
    pub(crate) fn increment(&self) {
        self.add(1);
    }
    /// Keeps the largest value seen.
    pub(crate) fn raise_to(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one open database, shared by all floors.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Bytes of keys and values that callers wrote.
    pub(crate) user_written_bytes: Counter,
    /// Bytes of records written to the log, framing included.
    pub(crate) log_written_bytes: Counter,
    /// Bytes written to prepare log segments: zeros and headers.
    pub(crate) log_prepared_bytes: Counter,
    /// Table bytes written by flushes (minor compactions).
    pub(crate) flush_written_bytes: Counter,
    /// Table bytes read by compactions.
    pub(crate) compaction_read_bytes: Counter,
    /// Table bytes written by compactions.
    pub(crate) compaction_written_bytes: Counter,
    /// Bytes appended to manifests.
    pub(crate) manifest_written_bytes: Counter,
    /// Flushes that produced a table.
    pub(crate) flushes: Counter,
    /// Flushes and evictions while the log was replayed.
    pub(crate) replay_flushes: Counter,
    /// The most memory that memtables had while the log was replayed.
    pub(crate) replay_memory_bytes: Counter,
    /// Memtables that became fast tables, and the bytes of these.
    pub(crate) minor_compactions: Counter,
    pub(crate) minor_written_bytes: Counter,
    /// Merges of fast tables that stayed in the tier, and the bytes that these made.
    pub(crate) internal_compactions: Counter,
    pub(crate) internal_written_bytes: Counter,
    /// Merges of all fast tables of a partition to level 0, and the bytes of these fast tables.
    pub(crate) evictions: Counter,
    pub(crate) evicted_bytes: Counter,
    /// Bytes written to files of fast tables.
    pub(crate) fast_file_written_bytes: Counter,
    /// Groups of such files that were read by position instead of copied out of a mapping.
    pub(crate) fast_groups_by_position: Counter,
    /// Compactions that merged tables.
    pub(crate) compactions: Counter,
    /// Subtasks of these compactions, by key range; one for each small compaction.
    pub(crate) subtasks: Counter,
    /// Compactions that only moved a table down.
    pub(crate) trivial_moves: Counter,
    /// Partitions split in two.
    pub(crate) splits: Counter,
    /// Neighbours merged into one partition.
    pub(crate) merges: Counter,
    /// Tables that vLSM cut for level 1 and that lie over little of level 2.
    pub(crate) tables_good: Counter,
    /// Tables that vLSM cut for level 1 and that lie over more of level 2.
    pub(crate) tables_poor: Counter,
    /// Poor tables that were merged into level 2 because there was no good one.
    pub(crate) picks_poor: Counter,
    /// The chains of compactions that memtables waited for.
    pub(crate) chains: ChainCounts,
    /// Syncs, by the kind of file; counted at the disk seam.
    pub(crate) log_syncs: SyncCount,
    pub(crate) table_syncs: SyncCount,
    pub(crate) manifest_syncs: SyncCount,
    pub(crate) directory_syncs: SyncCount,
    /// Syncs that a foreground call waited for.
    pub(crate) syncs_waited_for: Counter,
    pub(crate) settle_rounds: Counter,
    pub(crate) settle_rounds_for_space: Counter,
    /// The counters of reads, mostly one stripe for each thread.
    reads: [ReadCounters; READ_STRIPES],
    /// Tables written with direct I/O.
    pub(crate) tables_direct: Counter,
    /// Tables written through the page cache, by choice.
    pub(crate) tables_through_cache: Counter,
    /// Tables through the page cache that the round that settles them writes to the device.
    pub(crate) tables_late: Counter,
    /// Such late tables that were replaced before their round, so that no round writes them.
    pub(crate) tables_never_written: Counter,
    /// Tables written through the page cache because the file system refused direct I/O.
    pub(crate) tables_refused_direct: Counter,
    /// The kernel's reason for refusing a ring to foreground reads, once it did.
    pub(crate) read_ring_refused: OnceLock<String>,
    /// Table writes that waited at the gate.
    pub(crate) gate_waits: Counter,
    /// The durations of background reads and writes of tables, in nanoseconds.
    pub(crate) background_reads: Distribution,
    pub(crate) background_writes: Distribution,
    /// The times for which merges ran between two waits, in nanoseconds.
    pub(crate) merge_slices: Distribution,
    /// Waits of merges for room in their worker's write queue.
    pub(crate) write_queue_waits: Counter,
    /// Waits of writers, by cause.
    pub(crate) stalls_memtable: Stall,
    pub(crate) stalls_level0: Stall,
    pub(crate) stalls_log: Stall,
    pub(crate) stalls_tier: Stall,
    /// Delays of writers that pacing slowed down, so that none of the waits above happens.
    pub(crate) stalls_paced: Stall,
    /// The time of those delays, by cause.
    pub(crate) paced_ns: PacedTimes,
    /// The time of those delays during which a compaction worker waited and the device had room, in nanoseconds.
    pub(crate) paced_while_idle_ns: Counter,
    /// The time for which compactions were to rest, in nanoseconds.
    pub(crate) compactions_rested_ns: Counter,
}

/// The room whose shortage slows writers down; [`crate::PacingStatistics`] describes each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PacingCause {
    #[default]
    Memtables,
    Log,
    Replaced,
    Level0,
    Tier,
    Segments,
}

/// The time of delays in nanoseconds, by cause.
#[derive(Debug, Default)]
pub(crate) struct PacedTimes {
    pub(crate) memtables: Counter,
    pub(crate) log: Counter,
    pub(crate) replaced: Counter,
    pub(crate) level0: Counter,
    pub(crate) tier: Counter,
    pub(crate) segments: Counter,
}

impl PacedTimes {
    pub(crate) fn add(&self, cause: PacingCause, ns: u64) {
        let counter = match cause {
            PacingCause::Memtables => &self.memtables,
            PacingCause::Log => &self.log,
            PacingCause::Replaced => &self.replaced,
            PacingCause::Level0 => &self.level0,
            PacingCause::Tier => &self.tier,
            PacingCause::Segments => &self.segments,
        };
        counter.add(ns);
    }
}

/// The number of stripes over which the counters of reads are spread.
pub(crate) const READ_STRIPES: usize = 16;

/// The stripe of the current thread, below [`READ_STRIPES`].
#[inline]
pub(crate) fn read_stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % READ_STRIPES;
    }
    STRIPE.with(|stripe| *stripe)
}

/// The counters of reads. Each stripe has its own cache lines, so that reading threads do not contend.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ReadCounters {
    /// Table blocks found in the block cache.
    pub(crate) cache_hits: Counter,
    /// Table blocks read from a file.
    pub(crate) cache_misses: Counter,
    /// Cache misses that were copied from a mapping.
    pub(crate) mapped_reads: Counter,
    /// Cache misses that were read with direct I/O.
    pub(crate) direct_reads: Counter,
    /// Cache misses that were submitted to the kernel together with others.
    pub(crate) overlapped_reads: Counter,
    /// Checks of a filter by point reads.
    pub(crate) filter_checks: Counter,
    /// Checks that spared a point read.
    pub(crate) filter_negatives: Counter,
}

impl Metrics {
    /// The stripe in which the current thread counts its reads.
    #[inline]
    pub(crate) fn reads(&self) -> &ReadCounters {
        &self.reads[read_stripe()]
    }

    /// The sum over all threads of one counter of reads.
    pub(crate) fn all_reads(&self, kind: impl Fn(&ReadCounters) -> &Counter) -> u64 {
        self.reads.iter().map(|reads| kind(reads).get()).sum()
    }
}

/// A histogram of amounts, exact to about 6 %: sixteen buckets for each power of two.
#[derive(Debug, Default)]
pub(crate) struct Distribution {
    /// Allocated (8 KiB) with the first amount.
    buckets: OnceLock<Box<[AtomicU64]>>,
    total: Counter,
    max: Counter,
}

/// Buckets for each power of two.
const BUCKETS_A_DOUBLING: u64 = 16;

impl Distribution {
    /// Records `amount`, `times` times.
    pub(crate) fn record(&self, amount: u64, times: u64) {
        let last = Self::bucket(u64::MAX);
        let buckets = self.buckets.get_or_init(|| (0..=last).map(|_| AtomicU64::new(0)).collect());
        if let Some(bucket) = buckets.get(Self::bucket(amount)) {
            bucket.fetch_add(times, Ordering::Relaxed);
        }
        self.total.add(amount.saturating_mul(times));
        self.max.raise_to(amount);
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts().map(|(_, count)| count).sum()
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.get()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.total.get() as f64 / self.count().max(1) as f64
    }

    pub(crate) fn max(&self) -> u64 {
        self.max.get()
    }

    /// The amount that a `share` (above 0, at most 1) of all amounts do not exceed. At most 6 % too high; 0 when
    /// nothing was recorded.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts() {
            seen += count;
            if seen >= wanted {
                return Self::largest(bucket).min(self.max());
            }
        }
        self.max()
    }

    /// The number of amounts in each bucket.
    fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let buckets = self.buckets.get().into_iter().flatten();
        (0..).zip(buckets.map(|bucket| bucket.load(Ordering::Relaxed)))
    }

    fn bucket(amount: u64) -> usize {
        let doublings = (amount / BUCKETS_A_DOUBLING).checked_ilog2().map_or(0, |log| u64::from(log) + 1);
        let shift = doublings.saturating_sub(1);
        (doublings * BUCKETS_A_DOUBLING + (amount >> shift) % BUCKETS_A_DOUBLING) as usize
    }

    /// The largest amount of a bucket.
    fn largest(bucket: u64) -> u64 {
        let (doublings, step) = (bucket / BUCKETS_A_DOUBLING, bucket % BUCKETS_A_DOUBLING);
        match doublings {
            0 => step,
            _ => {
                let shift = doublings - 1;
                ((BUCKETS_A_DOUBLING + step) << shift) + ((1 << shift) - 1)
            }
        }
    }
}

/// The number of source levels with counters of their own.
const CHAIN_STAGES: usize = 8;

/// Chains of compactions ([`crate::ordered`]), counted once for each memtable that waited for one.
#[derive(Debug, Default)]
pub(crate) struct ChainCounts {
    pub(crate) bytes: Distribution,
    pub(crate) stages: Distribution,
    /// Bytes by source level.
    pub(crate) stage_bytes: [Distribution; CHAIN_STAGES],
}

/// Syncs of one kind of file.
#[derive(Debug, Default)]
pub(crate) struct SyncCount {
    pub(crate) count: Counter,
    pub(crate) total_ns: Counter,
}

impl SyncCount {
    pub(crate) fn record(&self, ns: u64) {
        self.count.increment();
        self.total_ns.add(ns);
    }
}

/// A longer wait counts in [`Stall::over_1ms`].
const LONG_STALL_NS: u64 = 1_000_000;

/// The waits of writers for one cause.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    pub(crate) count: Counter,
    /// Waits longer than [`LONG_STALL_NS`].
    pub(crate) over_1ms: Counter,
    pub(crate) total_ns: Counter,
    pub(crate) longest_ns: Counter,
}

impl Stall {
    pub(crate) fn record(&self, ns: u64) {
        self.count.increment();
        self.over_1ms.add(u64::from(ns > LONG_STALL_NS));
        self.total_ns.add(ns);
        self.longest_ns.raise_to(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_off_by_a_sixteenth_at_most() {
        let bounds: Vec<u64> = (0..Distribution::bucket(u64::MAX) as u64).map(Distribution::largest).collect();
        assert!(bounds.is_sorted_by(|a, b| a < b));
        for (bucket, largest) in bounds.iter().enumerate() {
            assert_eq!(Distribution::bucket(*largest), bucket);
            assert_eq!(Distribution::bucket(largest + 1), bucket + 1);
        }
        assert_eq!(Distribution::largest(Distribution::bucket(u64::MAX) as u64), u64::MAX);
        assert!(bounds.windows(2).all(|pair| pair[1] - pair[0] <= pair[0] / 16 + 1));
    }

    #[test]
    fn quantiles_are_of_everything_recorded() {
        let distribution = Distribution::default();
        assert_eq!((distribution.quantile(0.5), distribution.max(), distribution.count()), (0, 0, 0));
        (1..=9).for_each(|amount| distribution.record(amount, 10));
        distribution.record(1_000_000, 10);
        assert_eq!((distribution.quantile(0.1), distribution.quantile(0.5), distribution.quantile(0.9)), (1, 5, 9));
        assert_eq!((distribution.quantile(0.91), distribution.max()), (1_000_000, 1_000_000));
        assert_eq!(distribution.mean(), 100_004.5);
    }

    #[test]
    fn a_wait_is_long_beyond_a_millisecond_and_not_at_it() {
        let stall = Stall::default();
        for ns in [5, LONG_STALL_NS, LONG_STALL_NS + 1, 20 * LONG_STALL_NS] {
            stall.record(ns);
        }
        assert_eq!((stall.count.get(), stall.over_1ms.get()), (4, 2));
        assert_eq!((stall.total_ns.get(), stall.longest_ns.get()), (22 * LONG_STALL_NS + 6, 20 * LONG_STALL_NS));
    }
}
