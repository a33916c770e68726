//! Descriptions of the partitions of a fast tier, for its models ([`crate::fast_tier`]).

use super::fast_level::FastTableHandle;
use super::partition::Partition;
use super::tier::Tier;
use crate::compaction::RunningJob;
use crate::fast_tier::{self, Activity, Run};
use crate::keyspaces::SnapshotRegistry;
use crate::log::Log;
use std::sync::Arc;

/// The end of the log, as the models count it. An earlier position is smaller by the bytes between it and the end.
const LOG_END: u64 = u64::MAX / 2;

/// Describes the tier, which has `partitions` partitions.
pub(super) fn describe_tier(tier: &Tier, partitions: usize) -> fast_tier::Tier {
    fast_tier::Tier { capacity_bytes: tier.room.capacity_bytes(), partitions, log_end: LOG_END }
}

/// Describes a partition; `None` if it has nothing in the tier.
pub(super) fn describe(
    tier: &Tier,
    partition: &Partition,
    snapshots: &SnapshotRegistry,
    log: &Log,
) -> Option<fast_tier::Partition> {
    let super_version = partition.pinned_super_version();
    let (fast, reads) = (super_version.fast.as_ref()?, partition.tier_reads()?);
    let level_bytes = |level: usize| -> u64 {
        let tables = super_version.levels.get(level).into_iter().flatten();
        tables.map(|table| table.meta().bytes).sum()
    };
    let trigger = partition.generation.options.policy.level0_trigger().max(1) as u64;
    let now_ns = tier.now_ns();
    // An eviction releases some of the log only while the tier holds the log back.
    let holds_log = tier.room.log_bytes() > 0;
    let log_from = fast.first().filter(|_| holds_log);
    Some(fast_tier::Partition {
        id: partition.id.0,
        unsorted: run(&fast.unsorted),
        sorted: run(&fast.sorted),
        overlapped: run(&fast.unsorted_and_overlapped().sorted),
        distinct: fast.distinct(),
        rates: reads.statistics.rates(now_ns),
        counted: reads.statistics.counted(now_ns),
        keeps_versions: !snapshots.all_see(fast.last_seq()),
        lower_bytes: (level_bytes(0) + level_bytes(1)) / trigger,
        log_from: log_from.map(|mark| LOG_END.saturating_sub(log.bytes_since(mark.position))),
        activity: match partition.running().iter().any(RunningJob::is_fast) {
            true => Activity::Compacting,
            false => Activity::Idle,
        },
    })
}

/// The description of a partition's part of `handles`.
fn run(handles: &[Arc<FastTableHandle>]) -> Run {
    Run {
        tables: u32::try_from(handles.len()).unwrap_or(u32::MAX),
        entries: handles.iter().map(|handle| handle.entries()).sum(),
        bytes: handles.iter().map(|handle| handle.bytes()).sum(),
    }
}
