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
use crate::stat_json::{to_json, write_amplification};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;
use thalweg::{Error, KeyspaceStatistics, LevelStatistics, Statistics};

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
    let fast = total(statistics.keyspaces.iter().map(|keyspace| &keyspace.fast));
    if fast.tables > 0 {
        fact("fast tables", &size(fast.bytes), &mut text);
    }
    fact("kept for readers and unsettled edits", &size(statistics.retained_bytes), &mut text);
    if statistics.unsettled_edits > 0 {
        let lag = format!("{}, the oldest for {} ms", statistics.unsettled_edits, statistics.settle_lag_ms);
        fact("unsettled edits", &lag, &mut text);
    }
    fact("log", &size(statistics.log_backlog_bytes), &mut text);
    fact("memtables", &size(statistics.memtable_bytes), &mut text);
    render_memory(statistics, paint, &mut text);
    render_fast_tier(statistics, paint, &mut text);
    render_counters(statistics, paint, &mut text);
    render_health(statistics, paint, &mut text);
    render_notes(statistics, paint, &mut text);
    text
}

fn render_keyspace(keyspace: &KeyspaceStatistics, paint: &Paint, text: &mut String) {
    let name = shown(keyspace.name.as_bytes());
    let kind = if keyspace.directories.is_some() { "directory keyspace" } else { "keyspace" };
    heading(&format!("{kind} {name} ({})", counted(keyspace.partitions, "partition")), paint, text);
    let all = total([&keyspace.fast].into_iter().chain(&keyspace.levels));
    if all.tables == 0 {
        text.push_str("  no tables: what there is lies in the log\n");
        return;
    }
    if let Some(index) = &keyspace.directories {
        let _ = writeln!(
            text,
            "  directories: {}; places of their entries: {}; index: {}",
            count(index.directories),
            count(index.spans),
            size(index.index_bytes)
        );
        if let Some(damage) = &index.damage {
            let (damage, advice) = (shown(damage.as_bytes()), "restore the file from a copy, or the database from a");
            let _ = writeln!(text, "  {}damaged pack: {damage}{}", paint.bad, paint.end);
            let _ = writeln!(text, "  its directories are not counted, and no entry of the keyspace can be read;");
            let _ = writeln!(text, "  `thalweg check DB` lists all damage; {advice} checkpoint");
        }
    }
    let header = ["level", "tables", "size", "entries", "tombstones"].map(String::from);
    let row = |name: String, level: &LevelStatistics| {
        [name, count(level.tables), size(level.bytes), count(level.entries), count(level.tombstones)]
    };
    let mut rows = vec![header];
    if keyspace.fast.tables > 0 {
        rows.push(row("fast".into(), &keyspace.fast));
    }
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

/// Renders the use of the memory budget. A database that no process has open for writing has no budget.
fn render_memory(statistics: &Statistics, paint: &Paint, text: &mut String) {
    if statistics.memory_budget_bytes == 0 {
        return;
    }
    heading("memory", paint, text);
    fact("budget", &size(statistics.memory_budget_bytes), text);
    fact("memtables", &size(statistics.memtable_memory_bytes), text);
    fact("cached blocks", &size(statistics.cached_bytes), text);
    fact("filters and indexes", &size(statistics.index_memory_bytes), text);
}

/// Renders the fast tier, if there is one: its contents, its work, and for each partition the reasons.
fn render_fast_tier(statistics: &Statistics, paint: &Paint, text: &mut String) {
    let Some(tier) = &statistics.fast_tier else { return };
    heading("fast tier", paint, text);
    fact("holds", &format!("{} of {}", size(tier.bytes), size(tier.capacity_bytes)), text);
    fact("with what readers still have", &size(tier.memory_bytes), text);
    if tier.log_bytes_max > 0 {
        fact("log that it pins", &format!("{} of {}", size(tier.log_bytes), size(tier.log_bytes_max)), text);
    } else {
        fact("written to its directory", &size(tier.file_written_bytes), text);
        fact("groups read by position", &count(tier.groups_by_position), text);
    }
    for (name, bytes, times) in [
        ("from memtables", tier.minor_written_bytes, tier.minor_compactions),
        ("merged within", tier.internal_written_bytes, tier.internal_compactions),
        ("evicted", tier.evicted_bytes, tier.evictions),
    ] {
        fact(name, &format!("{} ({})", size(bytes), count(times)), text);
    }
    for line in tier.partitions.iter().flat_map(|partition| partition.lines()) {
        let _ = writeln!(text, "  {}", shown(line.as_bytes()));
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
    render_times(s, text);
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
    render_pacing(s, text);
}

/// Renders the reasons for which writers were slowed down.
fn render_pacing(s: &Statistics, text: &mut String) {
    let paced = s.paced.by_cause().into_iter().filter(|(_, ns)| *ns > 0);
    let paced: Vec<_> = paced.map(|(cause, ns)| format!("{cause} {}", duration(Duration::from_nanos(ns)))).collect();
    if !paced.is_empty() {
        fact("paced for", &paced.join(", "), text);
    }
    let idle = duration(Duration::from_nanos(s.paced_while_idle_ns));
    fact("paced while a worker and the device had room", &idle, text);
    let rested = duration(Duration::from_nanos(s.compactions_rested_ns));
    fact("compactions rested, for nobody waited", &rested, text);
}

/// Renders how long the steps of compactions take.
fn render_times(s: &Statistics, text: &mut String) {
    for (name, times) in [
        ("reads of compactions: P50, P99", &s.background_reads),
        ("writes of tables: P50, P99", &s.background_writes),
        ("merged between two waits: P50, P99", &s.merge_slices),
    ] {
        if times.count > 0 {
            let [median, most] = [times.p50_ns, times.p99_ns].map(|ns| duration(Duration::from_nanos(ns)));
            fact(name, &format!("{median}, {most} ({})", count(times.count)), text);
        }
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

/// Renders the machine's refusals, if there are any.
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

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::StallStatistics;

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
    fn a_directory_keyspace_is_marked_and_its_damage_named() {
        let mut directories = statistics();
        let mut index = thalweg::DirectoryStatistics::default();
        index.directories = 3;
        directories.keyspaces[0].directories = Some(index.clone());
        let text = render(&directories, None, &Paint::NONE);
        assert!(text.starts_with("directory keyspace default (1 partition)\n  directories: 3; "), "{text}");
        assert!(!text.contains("damaged"), "{text}");
        assert_eq!(to_json(&directories)["keyspaces"][0]["kind"], "directory");
        assert_eq!(to_json(&statistics())["keyspaces"][0]["kind"], "ordered");
        index.damage = Some("7.table is damaged".into());
        directories.keyspaces[0].directories = Some(index);
        assert!(render(&directories, None, &Paint::NONE).contains("\n  damaged pack: 7.table is damaged\n"));
        assert_eq!(to_json(&directories)["keyspaces"][0]["directories"]["damage"], "7.table is damaged");
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
