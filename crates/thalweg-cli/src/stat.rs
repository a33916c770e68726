//! `thalweg stat`: prints levels, space and counters, for people or as JSON.
//!
//! Counters count from the open of a database. If `stat` opens it, they show the work of that open; `import --stat`
//! shows those of the import. If another process has the database open, `stat` shows the statistics that this process
//! last wrote, and their age.

use crate::args::Stat;
use crate::numbers::{count, counted, duration, size};
use crate::open;
use crate::report::{Failure, Paint, say};
use crate::running::Running;
use crate::spelling::{Spelling, shown};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;
use thalweg::{
    BackgroundFailure, ChainStatistics, Error, KeyspaceStatistics, LevelStatistics, StallStatistics, Statistics,
};

/// The fewest bytes from the user for which write amplification is shown.
const WEIGHED_BYTES_MIN: u64 = 1 << 20;

pub fn run(args: &Stat, output: &mut dyn Write) -> Result<(), Failure> {
    let name = args.keyspace.as_ref().map(|name| Spelling::of_arguments(args.escaped).name(name)).transpose()?;
    let (mut statistics, levels, running) = match open::for_reading(&args.source) {
        Ok(database) => (database.statistics(), args.levels.then(|| database.draw_levels()), None),
        // Another process has the database open, and may have written its statistics.
        Err(Failure::Engine(locked @ Error::Locked { .. })) => match Running::read(&args.source)? {
            Some((running, statistics)) => (statistics, None, Some(running)),
            None => return Err(locked.into()),
        },
        Err(failure) => return Err(failure),
    };
    if let Some(name) = name {
        statistics.keyspaces.retain(|keyspace| keyspace.name == name);
        if statistics.keyspaces.is_empty() {
            return Err(Error::NoKeyspace(name.into()).into());
        }
    }
    if args.json {
        let mut json = to_json(&statistics);
        json["running"] = running.as_ref().map_or(Value::Null, running_json);
        writeln!(output, "{json:#}")?;
        return Ok(());
    }
    if let Some(running) = &running {
        write!(output, "{}", running.render())?;
        if args.levels {
            say("the tables of each level can be drawn only when no other process has the database open");
        }
    }
    write!(output, "{}", render(&statistics, levels.as_deref(), &Paint::for_output()))?;
    Ok(())
}

fn running_json(running: &Running) -> Value {
    json!({
        "process": running.process,
        "age_ms": running.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        "is_alive": running.is_alive,
        "keyspaces_left_out": running.keyspaces_left_out,
        "failures": running.failures,
    })
}

/// Renders two lines: where the data lies, and the cost of its writes.
pub fn render_brief(statistics: &Statistics) -> String {
    let all = total(statistics.keyspaces.iter().flat_map(|keyspace| &keyspace.levels));
    let deepest = statistics.keyspaces.iter().map(used_levels).max().unwrap_or(0);
    let mut text = format!(
        "{} in {}, {}; log {}\n",
        counted(all.tables, "table"),
        counted(deepest, "level"),
        size(all.bytes),
        size(statistics.log_backlog_bytes),
    );
    if let Some(amplification) = write_amplification(statistics) {
        let waited = statistics.stalls.iter().map(|stall| stall.total_ns).sum();
        let waited = match waited {
            0 => "writers never waited".to_owned(),
            waited => format!("writers waited {} in all", duration(Duration::from_nanos(waited))),
        };
        let _ = writeln!(text, "wrote {amplification:.2} bytes for each byte given; {waited}");
    }
    for note in &statistics.io_notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// Renders all statistics as tables of text, with the drawing of the levels if it is given.
pub fn render(statistics: &Statistics, levels: Option<&str>, paint: &Paint) -> String {
    let mut text = String::new();
    for keyspace in &statistics.keyspaces {
        render_keyspace(keyspace, paint, &mut text);
    }
    if statistics.keyspaces.is_empty() {
        text.push_str("no keyspaces\n");
    }
    if let Some(levels) = levels {
        heading("levels", paint, &mut text);
        text.push_str(levels.trim_end());
        text.push('\n');
    }
    heading("space", paint, &mut text);
    let all = total(statistics.keyspaces.iter().flat_map(|keyspace| &keyspace.levels));
    fact("tables", &size(all.bytes), &mut text);
    fact("kept for readers and unsettled edits", &size(statistics.retained_bytes), &mut text);
    if statistics.unsettled_edits > 0 {
        let lag = format!("{}, the oldest for {} ms", statistics.unsettled_edits, statistics.settle_lag_ms);
        fact("unsettled edits", &lag, &mut text);
    }
    fact("log", &size(statistics.log_backlog_bytes), &mut text);
    fact("memtables", &size(statistics.memtable_bytes), &mut text);
    render_counters(statistics, paint, &mut text);
    render_health(statistics, paint, &mut text);
    render_notes(statistics, paint, &mut text);
    text
}

fn render_keyspace(keyspace: &KeyspaceStatistics, paint: &Paint, text: &mut String) {
    let name = shown(keyspace.name.as_bytes());
    heading(&format!("keyspace {name} ({})", counted(keyspace.partitions, "partition")), paint, text);
    let all = total(&keyspace.levels);
    if all.tables == 0 {
        text.push_str("  no tables: what there is lies in the log\n");
        return;
    }
    let header = ["level", "tables", "size", "entries", "tombstones"].map(String::from);
    let row = |name: String, level: &LevelStatistics| {
        [name, count(level.tables), size(level.bytes), count(level.entries), count(level.tombstones)]
    };
    let mut rows = vec![header];
    for (number, level) in keyspace.levels.iter().enumerate().filter(|(_, level)| level.tables > 0) {
        rows.push(row(number.to_string(), level));
    }
    rows.push(row("all".into(), &all));
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    for row in &rows {
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
}

fn render_counters(statistics: &Statistics, paint: &Paint, text: &mut String) {
    let s = statistics;
    if s.user_written_bytes + s.log_written_bytes + s.flush_written_bytes + s.compaction_written_bytes == 0 {
        heading("since the opening", paint, text);
        text.push_str("  nothing written: counters count from the opening; `import --stat` shows those of an import\n");
        return;
    }
    heading("written since the opening", paint, text);
    fact("by the user", &size(s.user_written_bytes), text);
    fact("to the log", &size(s.log_written_bytes), text);
    fact("to make log segments ready", &size(s.log_prepared_bytes), text);
    fact("by flushes", &format!("{} ({})", size(s.flush_written_bytes), count(s.flushes)), text);
    fact(
        "by compactions",
        &format!(
            "{} ({}, {} read; {})",
            size(s.compaction_written_bytes),
            count(s.compactions),
            size(s.compaction_read_bytes),
            counted(s.trivial_moves, "trivial move")
        ),
        text,
    );
    if s.splits > 0 {
        fact("partitions split", &count(s.splits), text);
    }
    if s.merges > 0 {
        fact("partitions merged", &count(s.merges), text);
    }
    if s.chains.memtables > 0 {
        let chains = &s.chains;
        let bytes = [chains.bytes_mean as u64, chains.bytes_p99, chains.bytes_max].map(size);
        let of = format!("{}, at most {}", bytes[..2].join(", P99 "), bytes[2]);
        fact("moved to free a memtable, mean", &format!("{of}; {:.1} levels", chains.stages_mean), text);
    }
    fact("to manifests", &size(s.manifest_written_bytes), text);
    if let Some(amplification) = write_amplification(s) {
        fact("write amplification", &format!("{amplification:.2}"), text);
    }
    heading("syncs, reads and waits since the opening", paint, text);
    fact(
        "syncs of log, tables, manifests, directories",
        &[s.log_syncs, s.table_syncs, s.manifest_syncs, s.directory_syncs].map(count).join(", "),
        text,
    );
    fact("their time in all", &duration(Duration::from_nanos(s.syncs_ns)), text);
    fact("syncs that a caller waited for", &count(s.syncs_waited_for), text);
    fact("blocks found in the cache, and read", &format!("{}, {}", count(s.cache_hits), count(s.cache_misses)), text);
    fact(
        "filters asked, and reads spared",
        &format!("{}, {}", count(s.filter_checks), count(s.filter_negatives)),
        text,
    );
    for stall in &s.stalls {
        let told = format!(
            "{} ({} over 1 ms), {} in all, longest {}",
            count(stall.count),
            count(stall.over_1ms),
            duration(Duration::from_nanos(stall.total_ns)),
            duration(Duration::from_nanos(stall.longest_ns))
        );
        let told = if stall.count == 0 { "none".to_owned() } else { told };
        fact(&format!("writers waited: {}", stall.cause), &told, text);
    }
}

/// Renders the background work that fails, and the last failure, if there is any.
fn render_health(statistics: &Statistics, paint: &Paint, text: &mut String) {
    let health = &statistics.health;
    let refused = health.writes_refused.iter().map(|error| format!("writes are refused: {error}"));
    let failing = health.failing.iter().map(|failure| failure.to_string());
    let ended = health.last_failure.iter().filter(|_| health.failing.is_empty());
    let ended = ended.map(|failure| format!("the last failure, done since: {failure}"));
    let lines: Vec<String> = refused.chain(failing).chain(ended).collect();
    if !lines.is_empty() {
        heading("background failures", paint, text);
    }
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

/// Renders what the machine refused, if anything.
fn render_notes(statistics: &Statistics, paint: &Paint, text: &mut String) {
    if statistics.io_notes.is_empty() {
        return;
    }
    heading("input and output", paint, text);
    for note in &statistics.io_notes {
        let _ = writeln!(text, "  {note}");
    }
}

fn heading(words: &str, paint: &Paint, text: &mut String) {
    let _ = writeln!(text, "{}{words}{}", paint.strong, paint.end);
}

fn fact(name: &str, value: &str, text: &mut String) {
    let _ = writeln!(text, "  {name:<46}{value}");
}

fn total<'a>(levels: impl IntoIterator<Item = &'a LevelStatistics>) -> LevelStatistics {
    let mut sum = LevelStatistics::default();
    for level in levels {
        sum.tables += level.tables;
        sum.bytes += level.bytes;
        sum.entries += level.entries;
        sum.tombstones += level.tombstones;
    }
    sum
}

fn used_levels(keyspace: &KeyspaceStatistics) -> u64 {
    keyspace.levels.iter().filter(|level| level.tables > 0).count() as u64
}

/// Returns the bytes written to the disk for each byte of keys and values. `None`: the user has written too little to
/// weigh against what is written once, such as the zeros of new log segments.
fn write_amplification(s: &Statistics) -> Option<f64> {
    (s.user_written_bytes >= WEIGHED_BYTES_MIN).then(|| s.write_amplification())
}

fn to_json(s: &Statistics) -> Value {
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
    let shape = [
        ("splits", s.splits.into()),
        ("merges", s.merges.into()),
        ("tables_good", s.tables_good.into()),
        ("tables_poor", s.tables_poor.into()),
        ("picks_poor", s.picks_poor.into()),
        ("chains", chains_json(&s.chains)),
        ("writes_refused", s.health.writes_refused.as_ref().map(|error| error.to_string()).into()),
        ("failing", s.health.failing.iter().map(failure_json).collect()),
        ("last_failure", s.health.last_failure.as_ref().map(failure_json).into()),
    ];
    for (name, value) in shape {
        json[name] = value;
    }
    json
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
        json!({
            "level": number,
            "tables": level.tables,
            "bytes": level.bytes,
            "entries": level.entries,
            "tombstones": level.tombstones,
        })
    };
    json!({
        "name": keyspace.name,
        "partitions": keyspace.partitions,
        "levels": keyspace.levels.iter().enumerate().map(level).collect::<Vec<_>>(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> Statistics {
        let mut statistics = Statistics::default();
        statistics.user_written_bytes = 1000 << 20;
        statistics.log_written_bytes = 1100 << 20;
        statistics.flush_written_bytes = 900 << 20;
        let mut keyspace = KeyspaceStatistics::default();
        keyspace.name = "default".into();
        keyspace.partitions = 1;
        for tables in [2, 0, 13] {
            let mut level = LevelStatistics::default();
            level.tables = tables;
            level.bytes = tables << 20;
            level.entries = tables * 1000;
            keyspace.levels.push(level);
        }
        statistics.keyspaces.push(keyspace);
        statistics
    }

    #[test]
    fn levels_are_a_table_with_a_total() {
        let text = render(&statistics(), None, &Paint::NONE);
        let expected = "\
keyspace default (1 partition)
  level  tables      size  entries  tombstones
      0       2   2.0 MiB    2,000           0
      2      13  13.0 MiB   13,000           0
    all      15  15.0 MiB   15,000           0
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("write amplification                           2.00\n"), "{text}");
    }

    #[test]
    fn the_brief_form_tells_tables_levels_and_cost() {
        let text = render_brief(&statistics());
        assert!(text.starts_with("15 tables in 2 levels, 15.0 MiB; log 0 B\nwrote 2.00 bytes for each byte"), "{text}");
        assert_eq!(render_brief(&Statistics::default()), "0 tables in 0 levels, 0 B; log 0 B\n");
    }

    #[test]
    fn no_amplification_is_told_of_a_few_bytes() {
        let mut few = statistics();
        few.user_written_bytes = 12;
        assert!(!render_brief(&few).contains("for each byte given"));
        assert!(!render(&few, None, &Paint::NONE).contains("amplification"));
        assert_eq!(to_json(&few)["write_amplification"], Value::Null);
    }

    #[test]
    fn waits_are_told_with_those_over_a_millisecond() {
        let mut waited = statistics();
        let mut stall = StallStatistics::default();
        stall.cause = "memtable";
        (stall.count, stall.over_1ms) = (12, 3);
        (stall.total_ns, stall.longest_ns) = (40_000_000, 20_000_000);
        waited.stalls = vec![stall];
        let text = render(&waited, None, &Paint::NONE);
        assert!(text.contains("writers waited: memtable") && text.contains("12 (3 over 1 ms), "), "{text}");
        assert_eq!(to_json(&waited)["stalls"][0]["over_1ms"], 3);
    }

    #[test]
    fn an_empty_database_is_told_in_words() {
        assert!(render(&Statistics::default(), None, &Paint::NONE).starts_with("no keyspaces\n"));
    }

    #[test]
    fn what_the_machine_refused_is_told_and_nothing_where_it_refused_nothing() {
        let mut refused = statistics();
        assert!(!render(&refused, None, &Paint::NONE).contains("input and output"));
        refused.io_notes = vec!["no io_uring: not permitted".to_owned()];
        let text = render(&refused, None, &Paint::NONE);
        assert!(text.ends_with("input and output\n  no io_uring: not permitted\n"), "{text}");
        assert_eq!(to_json(&refused)["io_notes"][0], "no io_uring: not permitted");
    }

    #[test]
    fn the_drawing_of_levels_is_shown_when_asked() {
        assert!(render(&statistics(), Some("L0: [a..b]\n"), &Paint::NONE).contains("levels\nL0: [a..b]\nspace\n"));
    }

    #[test]
    fn json_has_every_level_and_no_amplification_before_a_write() {
        let value = to_json(&statistics());
        assert_eq!(value["keyspaces"][0]["levels"][2]["tables"], 13);
        assert_eq!(value["write_amplification"], 2.0);
        assert_eq!(to_json(&Statistics::default())["write_amplification"], Value::Null);
    }
}
