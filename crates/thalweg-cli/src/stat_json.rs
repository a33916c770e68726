//! Statistics as JSON, for `thalweg stat --json` and `import --stat`.

use serde_json::{Value, json};
use thalweg::{
    BackgroundFailure, ChainStatistics, DurationStatistics, FastTierStatistics, KeyspaceStatistics, LevelStatistics,
    StallStatistics, Statistics,
};

/// The fewest bytes from the user for which write amplification is shown.
const WEIGHED_BYTES_MIN: u64 = 1 << 20;

pub fn to_json(s: &Statistics) -> Value {
    let stall = |stall: &StallStatistics| {
        json!({
            "cause": stall.cause,
            "count": stall.count,
            "over_1ms": stall.over_1ms,
            "total_ns": stall.total_ns,
            "longest_ns": stall.longest_ns,
        })
    };
    let mut json = json!({
        "keyspaces": s.keyspaces.iter().map(keyspace_json).collect::<Vec<_>>(),
        "retained_bytes": s.retained_bytes,
        "unsettled_edits": s.unsettled_edits,
        "settle_lag_ms": s.settle_lag_ms,
        "settle_rounds": s.settle_rounds,
        "settle_rounds_for_space": s.settle_rounds_for_space,
        "log_backlog_bytes": s.log_backlog_bytes,
        "memtable_bytes": s.memtable_bytes,
        "memory_budget_bytes": s.memory_budget_bytes,
        "memtable_memory_bytes": s.memtable_memory_bytes,
        "cached_bytes": s.cached_bytes,
        "index_memory_bytes": s.index_memory_bytes,
        "user_written_bytes": s.user_written_bytes,
        "log_written_bytes": s.log_written_bytes,
        "log_prepared_bytes": s.log_prepared_bytes,
        "flush_written_bytes": s.flush_written_bytes,
        "compaction_read_bytes": s.compaction_read_bytes,
        "compaction_written_bytes": s.compaction_written_bytes,
        "manifest_written_bytes": s.manifest_written_bytes,
        "write_amplification": write_amplification(s),
        "flushes": s.flushes,
        "compactions": s.compactions,
        "trivial_moves": s.trivial_moves,
        "log_syncs": s.log_syncs,
        "table_syncs": s.table_syncs,
        "manifest_syncs": s.manifest_syncs,
        "directory_syncs": s.directory_syncs,
        "syncs_ns": s.syncs_ns,
        "syncs_waited_for": s.syncs_waited_for,
        "cache_hits": s.cache_hits,
        "cache_misses": s.cache_misses,
        "mapped_reads": s.mapped_reads,
        "direct_reads": s.direct_reads,
        "overlapped_reads": s.overlapped_reads,
        "filter_checks": s.filter_checks,
        "filter_negatives": s.filter_negatives,
        "io_uring": s.io_uring,
        "direct_io": s.direct_io,
        "io_notes": s.io_notes,
        "stalls": s.stalls.iter().map(stall).collect::<Vec<_>>(),
    });
    add_times(s, &mut json);
    let shape = [
        ("splits", s.splits.into()),
        ("merges", s.merges.into()),
        ("tables_good", s.tables_good.into()),
        ("tables_poor", s.tables_poor.into()),
        ("picks_poor", s.picks_poor.into()),
        ("chains", chains_json(&s.chains)),
        ("fast_tier", s.fast_tier.as_ref().map(fast_tier_json).into()),
        ("writes_refused", s.health.writes_refused.as_ref().map(|error| error.to_string()).into()),
        ("failing", s.health.failing.iter().map(failure_json).collect()),
        ("last_failure", s.health.last_failure.as_ref().map(failure_json).into()),
    ];
    for (name, value) in shape {
        json[name] = value;
    }
    json
}

fn add_times(s: &Statistics, json: &mut Value) {
    json["paced_ns"] = s.paced.by_cause().into_iter().map(|(cause, ns)| (cause.to_owned(), json!(ns))).collect();
    json["paced_while_idle_ns"] = s.paced_while_idle_ns.into();
    json["compactions_rested_ns"] = s.compactions_rested_ns.into();
    json["background_reads"] = times_json(&s.background_reads);
    json["background_writes"] = times_json(&s.background_writes);
    json["merge_slices"] = times_json(&s.merge_slices);
}

fn times_json(times: &DurationStatistics) -> Value {
    json!({
        "count": times.count,
        "total_ns": times.total_ns,
        "p50_ns": times.p50_ns,
        "p99_ns": times.p99_ns,
        "max_ns": times.max_ns,
    })
}

fn failure_json(failure: &BackgroundFailure) -> Value {
    json!({
        "work": failure.work.to_string(),
        "keyspace": failure.partition.as_ref().map(|(keyspace, _)| keyspace),
        "partition": failure.partition.as_ref().map(|(_, partition)| partition),
        "error": failure.error.to_string(),
        "times": failure.times,
        "since_s": failure.since.as_secs_f64(),
        "last_s": failure.last.as_secs_f64(),
        "retry_in_s": failure.retry_in.map(|wait| wait.as_secs_f64()),
    })
}

fn keyspace_json(keyspace: &KeyspaceStatistics) -> Value {
    let level = |(number, level): (usize, &LevelStatistics)| {
        let mut json = level_json(level);
        json["level"] = number.into();
        json
    };
    let fast = &keyspace.fast;
    json!({
        "name": keyspace.name,
        "kind": if keyspace.directories.is_some() { "directory" } else { "ordered" },
        "partitions": keyspace.partitions,
        "directories": keyspace.directories.as_ref().map(|index| {
            json!({
                "directories": index.directories,
                "spans": index.spans,
                "index_bytes": index.index_bytes,
                "damage": index.damage,
            })
        }),
        "fast": (fast.tables > 0).then(|| level_json(fast)),
        "levels": keyspace.levels.iter().enumerate().map(level).collect::<Vec<_>>(),
    })
}

fn level_json(level: &LevelStatistics) -> Value {
    json!({
        "tables": level.tables,
        "bytes": level.bytes,
        "entries": level.entries,
        "tombstones": level.tombstones,
    })
}

fn fast_tier_json(tier: &FastTierStatistics) -> Value {
    json!({
        "capacity_bytes": tier.capacity_bytes,
        "bytes": tier.bytes,
        "memory_bytes": tier.memory_bytes,
        "log_bytes": tier.log_bytes,
        "log_bytes_max": tier.log_bytes_max,
        "minor_compactions": tier.minor_compactions,
        "minor_written_bytes": tier.minor_written_bytes,
        "internal_compactions": tier.internal_compactions,
        "internal_written_bytes": tier.internal_written_bytes,
        "evictions": tier.evictions,
        "evicted_bytes": tier.evicted_bytes,
        "file_written_bytes": tier.file_written_bytes,
        "groups_by_position": tier.groups_by_position,
        "partitions": tier.partitions,
    })
}

fn chains_json(chains: &ChainStatistics) -> Value {
    json!({
        "memtables": chains.memtables,
        "bytes_mean": chains.bytes_mean,
        "bytes_p50": chains.bytes_p50,
        "bytes_p99": chains.bytes_p99,
        "bytes_max": chains.bytes_max,
        "stages_mean": chains.stages_mean,
        "stages_max": chains.stages_max,
        "stage_bytes": chains.stage_bytes,
    })
}

/// Returns the bytes written to the disk for each byte of keys and values. `None`: the user has written too little
/// compared with one-time writes, such as the zeros of new log segments.
pub fn write_amplification(s: &Statistics) -> Option<f64> {
    (s.user_written_bytes >= WEIGHED_BYTES_MIN).then(|| s.write_amplification())
}
