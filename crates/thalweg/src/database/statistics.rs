//! [`Statistics`]: counters and gauges, copied out at one call.

use super::engine::{Engine, Mode, Writable};
use super::health::Health;
use super::keyspace_statistics::{KeyspaceStatistics, keyspace_statistics};
use super::tier_statistics::{FastTierSource, FastTierStatistics};
use crate::keyspaces::{KeyspaceMap, Registry};
use crate::lineage::Lineage;
use crate::log::Log;
use crate::metrics::{ChainCounts, Distribution, Metrics, PacedTimes, Stall};
use crate::ordered::{Memory, OrderedKeyspace, SuperVersionGuard};
use crate::runtime::{self, Environment};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Counters since the open, and gauges as of the call. Bytes are bytes, times nanoseconds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Keys and values that callers wrote.
    pub user_written_bytes: u64,
    /// Bytes written to the log, framing included.
    pub log_written_bytes: u64,
    /// Bytes written to make log segments ready for use: zeros and headers.
    pub log_prepared_bytes: u64,
    /// Bytes of tables written by flushes (minor compactions).
    pub flush_written_bytes: u64,
    /// Bytes of tables read by compactions.
    pub compaction_read_bytes: u64,
    /// Bytes of tables written by compactions.
    pub compaction_written_bytes: u64,
    /// Bytes appended to manifests.
    pub manifest_written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Flushes, and evictions from the fast tier, that the open made while it replayed the log, to keep to its memory.
    pub replay_flushes: u64,
    /// The most memory that memtables had while the open replayed the log, as it was allocated.
    pub replay_memory_bytes: u64,
    /// Compactions that merged tables.
    pub compactions: u64,
    /// Subtasks of the compactions that merged, cut by key range; one for each compaction that is small.
    pub subtasks: u64,
    /// Tables that compactions only moved down a level.
    pub trivial_moves: u64,
    /// Partitions that were split in two.
    pub splits: u64,
    /// Neighbours that were merged into one partition.
    pub merges: u64,
    /// Syncs of log segments.
    pub log_syncs: u64,
    /// Syncs of tables.
    pub table_syncs: u64,
    /// Syncs of manifests.
    pub manifest_syncs: u64,
    /// Syncs of directories.
    pub directory_syncs: u64,
    /// The sum of the times of all these syncs, in nanoseconds.
    pub syncs_ns: u64,
    /// Syncs that a foreground call, a flush or a compaction waited for.
    pub syncs_waited_for: u64,
    /// Table blocks found in the block cache.
    pub cache_hits: u64,
    /// Table blocks read from a file.
    pub cache_misses: u64,
    /// Misses that were copied from a mapping of their file, without a system call.
    pub mapped_reads: u64,
    /// Misses that were read past the page cache, because it had dropped their blocks.
    pub direct_reads: u64,
    /// Misses that `multi_get` and readers handed to the kernel together with others (io_uring).
    pub overlapped_reads: u64,
    /// Point reads of a table that checked its filter.
    pub filter_checks: u64,
    /// Filter checks that excluded the key.
    pub filter_negatives: u64,
    /// Bytes of replaced tables on disk: their edit is not settled, a reader holds them, or their removal takes time.
    pub retained_bytes: u64,
    /// Changes of the set of live files that a power cut can still undo. The files that they replace are kept until
    /// they are settled.
    pub unsettled_edits: u64,
    /// The age of the oldest unsettled edit in milliseconds; 0 if there is none.
    pub settle_lag_ms: u64,
    /// Settle rounds.
    pub settle_rounds: u64,
    /// Settle rounds that did not wait for their interval, because replaced tables took too much space.
    pub settle_rounds_for_space: u64,
    /// Bytes of log segments in use.
    pub log_backlog_bytes: u64,
    /// Bytes of all memtables, active and sealed.
    pub memtable_bytes: u64,
    /// The memory budget of the database in bytes ([`crate::Builder::memory_budget`]).
    pub memory_budget_bytes: u64,
    /// The part of the budget that memtables have, as they were allocated.
    pub memtable_memory_bytes: u64,
    /// The part of the budget that cached blocks have, and blocks of new tables that will be cached.
    pub cached_bytes: u64,
    /// The part of the budget that filters and indexes of open tables have, and indexes of directory keyspaces. Memory
    /// that the tables of a fast tier in memory take beyond its capacity is included.
    pub index_memory_bytes: u64,
    /// Table writes that waited because the device had `io_depth` operations already.
    pub gate_waits: u64,
    /// Merges that waited because their worker had too many bytes waiting to be written.
    pub write_queue_waits: u64,
    /// The time in which writers were slowed down, by the room that was scarcest.
    pub paced: PacingStatistics,
    /// Nanoseconds in which a writer was slowed down although a compaction worker waited and the device had fewer than
    /// `io_depth` operations: more compactions at once might have used them. Decided when a delay begins, and counted
    /// for each writer.
    pub paced_while_idle_ns: u64,
    /// Nanoseconds for which compactions rested while nobody waited for them, so that reads wait less
    /// (`docs/pacing.md`). Counted for each compaction.
    pub compactions_rested_ns: u64,
    /// The durations of reads of compactions, of up to 256 KiB each, at the device or in the page cache.
    pub background_reads: DurationStatistics,
    /// The durations of writes of tables, of up to 256 KiB each.
    pub background_writes: DurationStatistics,
    /// The times for which compactions merged between two waits (S2 of PMB-13).
    pub merge_slices: DurationStatistics,
    /// Whether background reads, writes and syncs are handed to the kernel (io_uring); else they block their worker.
    pub io_uring: bool,
    /// Tables written since the open past the page cache ([`crate::TableWrites`]).
    pub tables_written_direct: u64,
    /// Tables written since the open through the page cache, chosen or because direct I/O was refused.
    pub tables_written_cached: u64,
    /// Cached tables whose write-back waits for the settle round that finds them in use.
    pub tables_written_late: u64,
    /// Late tables that a round found replaced. No round writes them to the device, though the kernel may have.
    pub tables_never_written: u64,
    /// Whether direct I/O is possible: `false` once the file system has refused it for a table.
    pub direct_io: bool,
    /// Why `io_uring` or `direct_io` is off, or reads of `multi_get` do not overlap through a ring, in words.
    pub io_notes: Vec<String>,
    /// Good tables of vLSM's level 1: those whose overlap with level 2 is within the limit.
    pub tables_good: u64,
    /// Poor tables of vLSM's level 1: those with more overlap.
    pub tables_poor: u64,
    /// Poor tables that were merged into level 2 because there was no good one.
    pub picks_poor: u64,
    /// The chains of compactions that memtables waited for.
    pub chains: ChainStatistics,
    /// Writers that waited, by cause.
    pub stalls: Vec<StallStatistics>,
    /// The background work that fails ([`crate::Database::health`]).
    pub health: Health,
    /// The fast tier ([`crate::Builder::fast_tier`]), if there is one.
    pub fast_tier: Option<FastTierStatistics>,
    /// Each keyspace, by name.
    pub keyspaces: Vec<KeyspaceStatistics>,
}

/// The durations of an operation.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DurationStatistics {
    /// The number of operations.
    pub count: u64,
    /// The sum of their durations.
    pub total_ns: u64,
    /// The median; at most 6 % too much, as is P99.
    pub p50_ns: u64,
    /// The bound that 99 of 100 do not exceed.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Chains of compactions (VLSM-1). A chain is all that a partition compacts from one compaction of its level 0 to the
/// end of the next. It is counted once for each memtable whose table the latter took. Bytes are those that compactions
/// read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ChainStatistics {
    /// Memtables whose tables have left level 0.
    pub memtables: u64,
    /// The mean bytes of a chain.
    pub bytes_mean: f64,
    /// The median; at most 6 % too much, as is P99.
    pub bytes_p50: u64,
    /// The bound that 99 of 100 do not exceed.
    pub bytes_p99: u64,
    /// The most bytes of a chain.
    pub bytes_max: u64,
    /// The mean length of a chain: the number of levels that it takes data from.
    pub stages_mean: f64,
    /// The greatest length.
    pub stages_max: u64,
    /// The width of a chain at each level that it takes data from: the mean bytes over all chains, and the most.
    pub stage_bytes: Vec<(f64, u64)>,
}

/// Writers that waited for one cause.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StallStatistics {
    /// `memtable`: sealed memtables waited for their flush; `level 0`: too many tables in level 0; `log`: no free
    /// segment, or the log beyond twice its cap; `fast tier`: no room in the fast tier; `pacing`: slowed down before it
    /// comes to any of these.
    pub cause: &'static str,
    /// The number of waits.
    pub count: u64,
    /// The number of waits of more than a millisecond.
    pub over_1ms: u64,
    /// The sum of the waits.
    pub total_ns: u64,
    /// The longest wait.
    pub longest_ns: u64,
}

/// Nanoseconds in which writers were slowed down (stall `pacing`), by the room that was scarcest.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PacingStatistics {
    /// Memtables that wait for their flush, and the memory of all memtables.
    pub memtables_ns: u64,
    /// The log, which flushes release.
    pub log_ns: u64,
    /// Replaced tables, which settle rounds release.
    pub replaced_tables_ns: u64,
    /// Level 0.
    pub level0_ns: u64,
    /// The fast tier.
    pub fast_tier_ns: u64,
    /// Prepared segments of the log.
    pub log_segments_ns: u64,
}

impl PacingStatistics {
    /// Each time with the name of its cause.
    pub fn by_cause(&self) -> [(&'static str, u64); 6] {
        [
            ("memtables", self.memtables_ns),
            ("log", self.log_ns),
            ("replaced tables", self.replaced_tables_ns),
            ("level 0", self.level0_ns),
            ("fast tier", self.fast_tier_ns),
            ("log segments", self.log_segments_ns),
        ]
    }
}

impl Statistics {
    /// Bytes written to log (with its preparation), tables and manifest for each byte that callers wrote; 0 before the
    /// first write. Includes [`Statistics::tables_never_written`], which no settle round writes to the device.
    pub fn write_amplification(&self) -> f64 {
        let written = self.log_written_bytes
            + self.log_prepared_bytes
            + self.flush_written_bytes
            + self.compaction_written_bytes
            + self.manifest_written_bytes;
        if self.user_written_bytes == 0 { 0.0 } else { written as f64 / self.user_written_bytes as f64 }
    }
}

/// The figures of an engine that writes.
#[derive(Default)]
struct Gauges {
    retained_bytes: u64,
    unsettled_edits: u64,
    unsettled_ns: u64,
    log_backlog_bytes: u64,
    memory_budget_bytes: u64,
    memtable_memory_bytes: u64,
    cached_bytes: u64,
    index_memory_bytes: u64,
    fast_tier: Option<FastTierStatistics>,
}

impl Engine {
    pub(super) fn statistics(&self) -> Statistics {
        match &self.mode {
            Mode::Writable(writable) => StatisticsSource::of(self, writable).statistics(),
            Mode::ReadOnly { log_bytes, keyspaces, .. } => {
                let gauges = Gauges { log_backlog_bytes: *log_bytes, ..Gauges::default() };
                Statistics::collect(&self.environment, &self.metrics, keyspaces, gauges)
            }
        }
    }
}

/// The sources of the statistics of a database that is open for writing.
pub(super) struct StatisticsSource {
    environment: Environment,
    metrics: Arc<Metrics>,
    health: Arc<runtime::Health>,
    log: Arc<Log>,
    lineage: Arc<Lineage>,
    registry: Arc<Registry>,
    memory: Memory,
    memory_budget_bytes: u64,
    fast_tier: FastTierSource,
}

impl StatisticsSource {
    pub(super) fn of(engine: &Engine, writable: &Writable) -> Self {
        StatisticsSource {
            environment: engine.environment.clone(),
            metrics: Arc::clone(&engine.metrics),
            health: Arc::clone(&writable.health),
            log: Arc::clone(&writable.log),
            lineage: Arc::clone(&writable.lineage),
            registry: Arc::clone(&writable.registry),
            memory: writable.kind.memory.clone(),
            memory_budget_bytes: engine.options.memory_budget(&*engine.environment.storage),
            fast_tier: FastTierSource::of(writable),
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        let (unsettled_edits, unsettled_ns) = self.lineage.unsettled();
        let gauges = Gauges {
            retained_bytes: self.lineage.retained_bytes(),
            unsettled_edits,
            unsettled_ns,
            log_backlog_bytes: self.log.backlog_bytes(),
            memory_budget_bytes: self.memory_budget_bytes,
            memtable_memory_bytes: self.memory.pool.used_bytes() as u64,
            cached_bytes: self.memory.cache.bytes_used(),
            index_memory_bytes: self.memory.cache.charged_bytes(),
            fast_tier: self.fast_tier.statistics(&self.metrics),
        };
        let health = Health::of(&self.environment, &self.health, &self.registry);
        let keyspaces = self.registry.keyspaces();
        Statistics { health, ..Statistics::collect(&self.environment, &self.metrics, &keyspaces, gauges) }
    }
}

impl Statistics {
    fn collect(environment: &Environment, metrics: &Metrics, keyspaces: &KeyspaceMap, gauges: Gauges) -> Statistics {
        let ordered: Vec<_> = keyspaces.of_kind::<OrderedKeyspace>().collect();
        let keyspaces = ordered.iter().map(|keyspace| (keyspace.name.clone(), keyspace_statistics(keyspace)));
        Statistics {
            user_written_bytes: metrics.user_written_bytes.get(),
            log_written_bytes: metrics.log_written_bytes.get(),
            log_prepared_bytes: metrics.log_prepared_bytes.get(),
            flush_written_bytes: metrics.flush_written_bytes.get(),
            compaction_read_bytes: metrics.compaction_read_bytes.get(),
            compaction_written_bytes: metrics.compaction_written_bytes.get(),
            manifest_written_bytes: metrics.manifest_written_bytes.get(),
            flushes: metrics.flushes.get(),
            replay_flushes: metrics.replay_flushes.get(),
            replay_memory_bytes: metrics.replay_memory_bytes.get(),
            compactions: metrics.compactions.get(),
            subtasks: metrics.subtasks.get(),
            trivial_moves: metrics.trivial_moves.get(),
            splits: metrics.splits.get(),
            merges: metrics.merges.get(),
            log_syncs: metrics.log_syncs.count.get(),
            table_syncs: metrics.table_syncs.count.get(),
            manifest_syncs: metrics.manifest_syncs.count.get(),
            directory_syncs: metrics.directory_syncs.count.get(),
            syncs_ns: syncs_ns(metrics),
            syncs_waited_for: metrics.syncs_waited_for.get(),
            cache_hits: metrics.all_reads(|reads| &reads.cache_hits),
            cache_misses: metrics.all_reads(|reads| &reads.cache_misses),
            mapped_reads: metrics.all_reads(|reads| &reads.mapped_reads),
            direct_reads: metrics.all_reads(|reads| &reads.direct_reads),
            overlapped_reads: metrics.all_reads(|reads| &reads.overlapped_reads),
            filter_checks: metrics.all_reads(|reads| &reads.filter_checks),
            filter_negatives: metrics.all_reads(|reads| &reads.filter_negatives),
            retained_bytes: gauges.retained_bytes,
            unsettled_edits: gauges.unsettled_edits,
            settle_lag_ms: gauges.unsettled_ns / 1_000_000,
            settle_rounds: metrics.settle_rounds.get(),
            settle_rounds_for_space: metrics.settle_rounds_for_space.get(),
            log_backlog_bytes: gauges.log_backlog_bytes,
            memtable_bytes: memtable_bytes(&ordered),
            memory_budget_bytes: gauges.memory_budget_bytes,
            memtable_memory_bytes: gauges.memtable_memory_bytes,
            cached_bytes: gauges.cached_bytes,
            index_memory_bytes: gauges.index_memory_bytes,
            gate_waits: metrics.gate_waits.get(),
            write_queue_waits: metrics.write_queue_waits.get(),
            paced: pacing_statistics(&metrics.paced_ns),
            paced_while_idle_ns: metrics.paced_while_idle_ns.get(),
            compactions_rested_ns: metrics.compactions_rested_ns.get(),
            background_reads: duration_statistics(&metrics.background_reads),
            background_writes: duration_statistics(&metrics.background_writes),
            merge_slices: duration_statistics(&metrics.merge_slices),
            io_uring: environment.scheduler.ring_refused().is_none(),
            tables_written_direct: metrics.tables_direct.get(),
            tables_written_late: metrics.tables_late.get(),
            tables_never_written: metrics.tables_never_written.get(),
            tables_written_cached: metrics.tables_through_cache.get() + metrics.tables_refused_direct.get(),
            direct_io: metrics.tables_refused_direct.get() == 0,
            io_notes: io_notes(environment, metrics),
            tables_good: metrics.tables_good.get(),
            tables_poor: metrics.tables_poor.get(),
            picks_poor: metrics.picks_poor.get(),
            chains: chain_statistics(&metrics.chains),
            stalls: stalls(metrics),
            health: Health::default(),
            fast_tier: gauges.fast_tier,
            keyspaces: keyspaces.collect::<BTreeMap<_, _>>().into_values().collect(),
        }
    }
}

fn memtable_bytes(keyspaces: &[Arc<OrderedKeyspace>]) -> u64 {
    let partitions = keyspaces.iter().flat_map(|keyspace| keyspace.layout().partitions().to_vec());
    // After a split two partitions have the same sealed memtables.
    let mut seen = BTreeSet::new();
    let mut bytes = |super_version: SuperVersionGuard| -> u64 {
        let new = super_version.memtables().filter(|handle| seen.insert(Arc::as_ptr(handle).addr()));
        new.map(|handle| handle.memtable.bytes() as u64).sum()
    };
    partitions.map(|partition| bytes(partition.super_version())).sum()
}

fn io_notes(environment: &Environment, metrics: &Metrics) -> Vec<String> {
    let refused = environment.scheduler.ring_refused();
    let ring = refused.map(|reason| format!("no io_uring, background operations block their worker: {reason}"));
    let cached = metrics.tables_refused_direct.get();
    let direct = (cached > 0)
        .then(|| format!("the file system refuses direct I/O: {cached} tables were written through the page cache"));
    let refused = metrics.read_ring_refused.get();
    let reads = refused
        .map(|reason| format!("no io_uring for reads, multi_get reads ahead and readers read one by one: {reason}"));
    ring.into_iter().chain(direct).chain(reads).collect()
}

fn syncs_ns(metrics: &Metrics) -> u64 {
    let kinds = [&metrics.log_syncs, &metrics.table_syncs, &metrics.manifest_syncs, &metrics.directory_syncs];
    kinds.map(|syncs| syncs.total_ns.get()).iter().sum()
}

fn duration_statistics(times: &Distribution) -> DurationStatistics {
    DurationStatistics {
        count: times.count(),
        total_ns: times.total(),
        p50_ns: times.quantile(0.5),
        p99_ns: times.quantile(0.99),
        max_ns: times.max(),
    }
}

fn chain_statistics(counts: &ChainCounts) -> ChainStatistics {
    let memtables = counts.bytes.count();
    // Only the chains that reach a stage have recorded it.
    let mean = |stage: &Distribution| stage.mean() * stage.count() as f64 / memtables.max(1) as f64;
    let mut stage_bytes: Vec<_> = counts.stage_bytes.iter().map(|stage| (mean(stage), stage.max())).collect();
    while stage_bytes.last().is_some_and(|(_, max)| *max == 0) {
        stage_bytes.pop();
    }
    ChainStatistics {
        memtables,
        bytes_mean: counts.bytes.mean(),
        bytes_p50: counts.bytes.quantile(0.5),
        bytes_p99: counts.bytes.quantile(0.99),
        bytes_max: counts.bytes.max(),
        stages_mean: counts.stages.mean(),
        stages_max: counts.stages.max(),
        stage_bytes,
    }
}

/// The causes for which writers wait.
pub(super) const STALL_CAUSES: [&str; 5] = ["memtable", "level 0", "log", "fast tier", "pacing"];

fn pacing_statistics(times: &PacedTimes) -> PacingStatistics {
    PacingStatistics {
        memtables_ns: times.memtables.get(),
        log_ns: times.log.get(),
        replaced_tables_ns: times.replaced.get(),
        level0_ns: times.level0.get(),
        fast_tier_ns: times.tier.get(),
        log_segments_ns: times.segments.get(),
    }
}

fn stalls(metrics: &Metrics) -> Vec<StallStatistics> {
    let Metrics { stalls_memtable, stalls_level0, stalls_log, stalls_tier, stalls_paced, .. } = metrics;
    let stalls = [stalls_memtable, stalls_level0, stalls_log, stalls_tier, stalls_paced];
    STALL_CAUSES.into_iter().zip(stalls).map(|(cause, stall)| stall_statistics(cause, stall)).collect()
}

fn stall_statistics(cause: &'static str, stall: &Stall) -> StallStatistics {
    StallStatistics {
        cause,
        count: stall.count.get(),
        over_1ms: stall.over_1ms.get(),
        total_ns: stall.total_ns.get(),
        longest_ns: stall.longest_ns.get(),
    }
}
