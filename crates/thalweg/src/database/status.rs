//! [`RunningStatus`]: the statistics that the owner of an open database publishes for other processes.
//!
//! The owner keeps its statistics in the file `STATUS` (`docs/format/status.md`): it writes them when it has opened the
//! database, then at most once a second while they change because something is written, and at the close. An idle
//! database writes nothing and wakes nobody. Reads alone do not count as a change.
//!
//! The file is overwritten in place: no name changes, a full disk has its blocks already, and it grows only with the
//! number of keyspaces, to [`BYTES_MAX`]. It is never synced, and recovery does not read it. After a crash it has an
//! older status or is damaged, and the next open overwrites it. A reader that reads during a write finds a checksum
//! that does not fit, and reads again. A failure to write it is no failure of the database.

use super::health::{BackgroundFailure, Health};
use super::keyspace_statistics::{DirectoryStatistics, KeyspaceStatistics, LevelStatistics};
use super::statistics::{
    ChainStatistics, DurationStatistics, PacingStatistics, StallStatistics, Statistics, StatisticsSource,
};
use super::tier_statistics::FastTierStatistics;
use crate::error::{Error, Result};
use crate::format::checksum;
use crate::log::Log;
use crate::runtime::yield_now;
use crate::storage::{File, OpenMode, Storage};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file.
pub(super) const NAME: &str = "STATUS";

/// The first word of the file, with the version of its format.
const MAGIC: &str = "thalweg status 1 ";
/// The magic, two numbers of eight hexadecimal digits, a space between them and a newline.
const HEADER_BYTES: usize = MAGIC.len() + 18;
/// The greatest length of the file's body. To keep it, keyspaces are left out, the last by name first.
const BYTES_MAX: usize = 1 << 20;

/// The least time between two writes.
const INTERVAL_NS: u64 = 1_000_000_000;
/// After this many intervals without a change nothing is written until a write is published.
const QUIET_INTERVALS: u32 = 3;
/// How often a reader looks again at a file that is being written.
const LOOKS_MAX: u32 = 100;

/// The last status that the owner of a database wrote. The modification time of the file `STATUS` says how old it is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunningStatus {
    /// The process that had the database open.
    pub process: u32,
    /// Its statistics, without `health`. Counters of reads may be older than the rest.
    pub statistics: Statistics,
    /// The failures of background work, and why writes are refused, in words; empty if nothing failed.
    pub failures: Vec<String>,
    /// Keyspaces that the file had no room for.
    pub keyspaces_left_out: u64,
}

/// Writes the file until the log's coroutines are to end.
pub(super) async fn keep(storage: Arc<dyn Storage>, root: PathBuf, log: Arc<Log>, source: StatisticsSource) {
    let path = root.join(NAME);
    let mut said = String::new();
    let mut say = || {
        let text = encode(std::process::id(), source.statistics());
        // A status that cannot be written now is written with the next change.
        let is_news = text != said && write(&*storage, &path, &text).is_ok();
        if is_news {
            said = text;
        }
        is_news
    };
    loop {
        let seen = log.visible();
        let mut quiet = 0;
        while quiet < QUIET_INTERVALS {
            yield_now().await;
            quiet = if say() { 0 } else { quiet + 1 };
            log.sleep_unless_ended(INTERVAL_NS).await;
            if log.is_ended() {
                say();
                return;
            }
        }
        if !log.until_published_behind(seen).await {
            say();
            return;
        }
    }
}

/// Reads the status of the database in `root`; `None` when there is no such file, or when it cannot be decoded.
pub(super) fn read(storage: &dyn Storage, root: &Path) -> Result<Option<RunningStatus>> {
    let path = root.join(NAME);
    for _ in 0..LOOKS_MAX {
        let file = match storage.open(&path, OpenMode::Read) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(status) = read_once(&*file)?.and_then(|text| decode(&text)) {
            return Ok(Some(status));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

fn write(storage: &dyn Storage, path: &Path, text: &str) -> Result<()> {
    let file = match storage.open(path, OpenMode::ReadWrite) {
        Ok(Some(file)) => file,
        Ok(None) => storage.create(path)?,
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => storage.create(path)?,
        Err(error) => return Err(error),
    };
    file.write_all_at(0, text.as_bytes())
}

/// The whole text of the file, header included; `None` when it is not whole.
fn read_once(file: &dyn File) -> Result<Option<String>> {
    let bytes = usize::try_from(file.bytes()?).unwrap_or(usize::MAX).min(HEADER_BYTES + BYTES_MAX);
    let mut text = vec![0; bytes];
    let mut done = 0;
    while let Some(rest) = text.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(done as u64, rest)? {
            0 => break,
            count => done += count,
        }
    }
    text.truncate(done);
    Ok(checked(&text).map(str::to_owned))
}

/// The body, when header and checksum fit.
fn checked(bytes: &[u8]) -> Option<&str> {
    let numbers = std::str::from_utf8(bytes.get(MAGIC.len()..HEADER_BYTES)?).ok()?;
    let (length, checksum) = numbers.trim_end().split_once(' ')?;
    let length = usize::from_str_radix(length, 16).ok()?;
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES.checked_add(length)?)?;
    let is_whole =
        bytes.starts_with(MAGIC.as_bytes()) && u32::from_str_radix(checksum, 16).ok()? == checksum::crc32c(body);
    if is_whole { std::str::from_utf8(body).ok() } else { None }
}

fn encode(process: u32, mut statistics: Statistics) -> String {
    // The number has a fixed length, so that a simulation writes as many bytes each time.
    let mut body = format!("process {process:010}\n");
    for (name, value) in scalars(&mut statistics) {
        let _ = writeln!(body, "{name} {value}");
    }
    let s = &statistics;
    let _ = writeln!(body, "io_uring {}\ndirect_io {}", u8::from(s.io_uring), u8::from(s.direct_io));
    let _ = writeln!(body, "chains {} {}", s.chains.bytes_mean, s.chains.stages_mean);
    for (mean, most) in &s.chains.stage_bytes {
        let _ = writeln!(body, "chain_stage {mean} {most}");
    }
    for stall in &s.stalls {
        let StallStatistics { cause, count, over_1ms, total_ns, longest_ns } = stall;
        let _ = writeln!(body, "stall {count} {over_1ms} {total_ns} {longest_ns} {cause}");
    }
    if let Some(tier) = &mut statistics.fast_tier {
        let numbers: Vec<String> = tier_numbers(tier).into_iter().map(|number| number.to_string()).collect();
        let _ = writeln!(body, "fast_tier {}", numbers.join(" "));
    }
    let s = &statistics;
    for note in &s.io_notes {
        let _ = writeln!(body, "note {}", on_one_line(note));
    }
    for failure in failures(&s.health) {
        let _ = writeln!(body, "failure {}", on_one_line(&failure));
    }
    let mut left_out = 0u64;
    for keyspace in &s.keyspaces {
        let mut lines = format!("keyspace {} {}\n", keyspace.partitions, on_one_line(&keyspace.name));
        let fast = Some(&keyspace.fast).filter(|fast| fast.tables > 0).map(|fast| ("fast", fast));
        for (name, level) in fast.into_iter().chain(keyspace.levels.iter().map(|level| ("level", level))) {
            let LevelStatistics { tables, bytes, entries, tombstones } = level;
            let _ = writeln!(lines, "{name} {tables} {bytes} {entries} {tombstones}");
        }
        if let Some(DirectoryStatistics { directories, spans, index_bytes, damage, .. }) = &keyspace.directories {
            let _ = writeln!(lines, "directories {directories} {spans} {index_bytes}");
            if let Some(damage) = damage {
                let _ = writeln!(lines, "damage {}", on_one_line(damage));
            }
        }
        if left_out == 0 && body.len() + lines.len() < BYTES_MAX - 64 {
            body.push_str(&lines);
        } else {
            left_out += 1;
        }
    }
    let _ = writeln!(body, "keyspaces_left_out {left_out}");
    format!("{MAGIC}{:08x} {:08x}\n{body}", body.len(), checksum::crc32c(body.as_bytes()))
}

/// The failures in words, without times that pass: the text of an idle database does not change.
fn failures(health: &Health) -> Vec<String> {
    let refused = health.writes_refused.iter().map(|error| format!("writes are refused: {error}"));
    let ended = health.last_failure.iter().filter(|_| health.failing.is_empty());
    let ended = ended.map(|failure| format!("the last failure, done since: {}", in_words(failure)));
    refused.chain(health.failing.iter().map(in_words)).chain(ended).collect()
}

fn in_words(failure: &BackgroundFailure) -> String {
    let BackgroundFailure { work, partition, error, times, .. } = failure;
    let place = partition.as_ref().map(|(keyspace, number)| format!(" in partition {number} of keyspace {keyspace:?}"));
    let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!("{work}{} failed {times}: {error}", place.unwrap_or_default())
}

/// Decodes the body. Ignores lines with an unknown name, which a later version has written; a missing number stays 0.
fn decode(body: &str) -> Option<RunningStatus> {
    let mut status = RunningStatus::default();
    for line in body.lines() {
        let (name, rest) = line.split_once(' ')?;
        decode_line(&mut status, name, rest)?;
    }
    Some(status)
}

fn decode_line(status: &mut RunningStatus, name: &str, rest: &str) -> Option<()> {
    let s = &mut status.statistics;
    match name {
        "process" => status.process = rest.parse().ok()?,
        "keyspaces_left_out" => status.keyspaces_left_out = rest.parse().ok()?,
        "io_uring" => s.io_uring = rest == "1",
        "direct_io" => s.direct_io = rest == "1",
        "chains" => {
            let (bytes, stages) = rest.split_once(' ')?;
            (s.chains.bytes_mean, s.chains.stages_mean) = (bytes.parse().ok()?, stages.parse().ok()?);
        }
        "chain_stage" => {
            let (mean, most) = rest.split_once(' ')?;
            s.chains.stage_bytes.push((mean.parse().ok()?, most.parse().ok()?));
        }
        "stall" => s.stalls.extend(stall(rest)?),
        "fast_tier" => {
            let tier = s.fast_tier.insert(FastTierStatistics::default());
            for (number, word) in tier_numbers(tier).into_iter().zip(rest.split(' ')) {
                *number = word.parse().ok()?;
            }
        }
        "failure" => status.failures.push(as_it_was(rest)),
        "note" => s.io_notes.push(as_it_was(rest)),
        "keyspace" => {
            let (partitions, name) = rest.split_once(' ')?;
            let partitions = partitions.parse().ok()?;
            s.keyspaces.push(KeyspaceStatistics { name: as_it_was(name), partitions, ..KeyspaceStatistics::default() });
        }
        "fast" | "level" => {
            let mut numbers = rest.split(' ').map(|number| number.parse().ok());
            let mut next = || numbers.next().flatten();
            let level = LevelStatistics { tables: next()?, bytes: next()?, entries: next()?, tombstones: next()? };
            let keyspace = s.keyspaces.last_mut()?;
            if name == "fast" { keyspace.fast = level } else { keyspace.levels.push(level) }
        }
        "directories" => {
            let mut numbers = rest.split(' ').map(|number| number.parse().ok());
            let mut next = || numbers.next().flatten();
            let directories = DirectoryStatistics {
                directories: next()?,
                spans: next()?,
                index_bytes: next()?,
                damage: None,
                #[cfg(feature = "experiments")]
                f_hashes: None,
            };
            s.keyspaces.last_mut()?.directories = Some(directories);
        }
        "damage" => s.keyspaces.last_mut()?.directories.as_mut()?.damage = Some(as_it_was(rest)),
        _ => {
            if let Some((_, value)) = scalars(s).into_iter().find(|(known, _)| *known == name) {
                *value = rest.parse().ok()?;
            }
        }
    }
    Some(())
}

/// The numbers of a fast tier, in the order of the file. A counter that is missing here does not compile.
#[rustfmt::skip]
fn tier_numbers(tier: &mut FastTierStatistics) -> [&mut u64; 13] {
    let FastTierStatistics {
        capacity_bytes, bytes, memory_bytes, log_bytes, log_bytes_max, minor_compactions, minor_written_bytes,
        internal_compactions, internal_written_bytes, evictions, evicted_bytes, file_written_bytes,
        groups_by_position, partitions: _,
    } = tier;
    [
        capacity_bytes, bytes, memory_bytes, log_bytes, log_bytes_max, minor_compactions, minor_written_bytes,
        internal_compactions, internal_written_bytes, evictions, evicted_bytes, file_written_bytes,
        groups_by_position,
    ]
}

/// Decodes a stall. `Some(None)`: this version does not know its cause.
fn stall(rest: &str) -> Option<Option<StallStatistics>> {
    let mut words = rest.splitn(5, ' ');
    let mut number = || words.next()?.parse().ok();
    let (count, over_1ms, total_ns, longest_ns) = (number()?, number()?, number()?, number()?);
    let named = words.next()?;
    let cause = super::statistics::STALL_CAUSES.into_iter().find(|cause| *cause == named);
    Some(cause.map(|cause| StallStatistics { cause, count, over_1ms, total_ns, longest_ns }))
}

/// Every number of the statistics with its name in the file. A counter that is missing here does not compile.
#[rustfmt::skip]
fn scalars(statistics: &mut Statistics) -> Vec<(&'static str, &mut u64)> {
    macro_rules! named {
        ($($field:ident),* $(,)?) => { vec![$((stringify!($field), $field)),*] };
    }
    let Statistics {
        user_written_bytes, log_written_bytes, log_prepared_bytes, flush_written_bytes, compaction_read_bytes,
        compaction_written_bytes, manifest_written_bytes, flushes, compactions, subtasks, trivial_moves, splits, merges,
        log_syncs, table_syncs, manifest_syncs, directory_syncs, syncs_ns, syncs_waited_for, cache_hits, cache_misses,
        mapped_reads, direct_reads, overlapped_reads, filter_checks, filter_negatives, retained_bytes, unsettled_edits,
        settle_lag_ms, settle_rounds, settle_rounds_for_space, log_backlog_bytes, memtable_bytes, gate_waits,
        memory_budget_bytes, memtable_memory_bytes, cached_bytes, index_memory_bytes, replay_flushes,
        replay_memory_bytes, write_queue_waits, tables_written_direct, tables_written_cached, tables_good, tables_poor,
        picks_poor, paced_while_idle_ns, compactions_rested_ns, tables_written_late, tables_never_written,
        chains: ChainStatistics {
            memtables, bytes_p50, bytes_p99, bytes_max, stages_max, bytes_mean: _, stages_mean: _, stage_bytes: _,
        },
        background_reads, background_writes, merge_slices,
        paced: PacingStatistics {
            memtables_ns, log_ns, replaced_tables_ns, level0_ns, fast_tier_ns, log_segments_ns,
        },
        io_uring: _, direct_io: _, io_notes: _, stalls: _, health: _, fast_tier: _, keyspaces: _,
    } = statistics;
    let mut all = named![
        user_written_bytes, log_written_bytes, log_prepared_bytes, flush_written_bytes, compaction_read_bytes,
        compaction_written_bytes, manifest_written_bytes, flushes, compactions, subtasks, trivial_moves, splits, merges,
        log_syncs, table_syncs, manifest_syncs, directory_syncs, syncs_ns, syncs_waited_for, cache_hits, cache_misses,
        mapped_reads, direct_reads, overlapped_reads, filter_checks, filter_negatives, retained_bytes, unsettled_edits,
        settle_lag_ms, settle_rounds, settle_rounds_for_space, log_backlog_bytes, memtable_bytes, gate_waits,
        memory_budget_bytes, memtable_memory_bytes, cached_bytes, index_memory_bytes, replay_flushes,
        replay_memory_bytes, write_queue_waits, tables_written_direct, tables_written_cached, tables_good, tables_poor,
        picks_poor, paced_while_idle_ns, compactions_rested_ns, tables_written_late, tables_never_written,
    ];
    all.extend([
        ("chain_memtables", memtables), ("chain_bytes_p50", bytes_p50), ("chain_bytes_p99", bytes_p99),
        ("chain_bytes_max", bytes_max), ("chain_stages_max", stages_max),
        ("paced_for_memtables_ns", memtables_ns), ("paced_for_log_ns", log_ns),
        ("paced_for_replaced_tables_ns", replaced_tables_ns), ("paced_for_level0_ns", level0_ns),
        ("paced_for_fast_tier_ns", fast_tier_ns), ("paced_for_log_segments_ns", log_segments_ns),
    ]);
    macro_rules! times {
        ($($field:ident),* $(,)?) => {
            $(let DurationStatistics { count, total_ns, p50_ns, p99_ns, max_ns } = $field;
            all.extend([
                (concat!(stringify!($field), "_count"), count), (concat!(stringify!($field), "_total_ns"), total_ns),
                (concat!(stringify!($field), "_p50_ns"), p50_ns), (concat!(stringify!($field), "_p99_ns"), p99_ns),
                (concat!(stringify!($field), "_max_ns"), max_ns),
            ]);)*
        };
    }
    times![background_reads, background_writes, merge_slices];
    all
}

/// Text without newlines.
fn on_one_line(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn as_it_was(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                other => text.extend(other),
            },
            (other, false) => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::LinuxStorage;

    fn statistics() -> Statistics {
        let mut statistics = Statistics::default();
        for (number, (_, value)) in scalars(&mut statistics).into_iter().enumerate() {
            *value = number as u64 + 1;
        }
        statistics.io_uring = true;
        statistics.io_notes = vec!["no\nring\\".into()];
        statistics.chains.bytes_mean = 0.1;
        statistics.chains.stages_mean = 2.5;
        statistics.chains.stage_bytes = vec![(1.5, 7), (0.0, 0)];
        let mut tier = FastTierStatistics::default();
        tier_numbers(&mut tier).into_iter().zip(1..).for_each(|(value, number)| *value = number);
        statistics.fast_tier = Some(tier);
        let stall = |cause| StallStatistics { cause, count: 1, over_1ms: 2, total_ns: 3, longest_ns: 4 };
        statistics.stalls = super::super::statistics::STALL_CAUSES.map(stall).into();
        let level = LevelStatistics { tables: 1, bytes: 2, entries: 3, tombstones: 4 };
        let keyspace = |name: &str| KeyspaceStatistics {
            name: name.into(),
            partitions: 2,
            levels: vec![level.clone()],
            ..KeyspaceStatistics::default()
        };
        statistics.keyspaces = vec![keyspace("a b\nc\\n"), keyspace("ü")];
        let mut index = DirectoryStatistics::default();
        (index.directories, index.spans, index.index_bytes) = (5, 6, 7);
        index.damage = Some("a\nb".into());
        statistics.keyspaces[0].fast = LevelStatistics { tables: 5, bytes: 6, entries: 7, tombstones: 8 };
        statistics.keyspaces[1].directories = Some(index);
        statistics
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = encode(42, statistics());
        let status = decode(checked(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(status.process, 42);
        assert_eq!(format!("{:?}", status.statistics), format!("{:?}", statistics()));
    }

    #[test]
    fn what_failed_is_told_in_words_that_do_not_change_by_themselves() {
        let mut failed = statistics();
        failed.health.writes_refused = Some(Error::Closed);
        let text = encode(42, failed.clone());
        assert_eq!(encode(42, failed), text);
        let status = decode(checked(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(status.failures, ["writes are refused: the database is closed"]);
    }

    #[test]
    fn no_bytes_but_whole_ones_are_believed() {
        let text = encode(42, statistics()).into_bytes();
        for length in 0..text.len() {
            assert_eq!(checked(&text[..length]), None, "cut to {length} bytes");
        }
        for place in 0..text.len() {
            let mut damaged = text.clone();
            damaged[place] ^= 0x10;
            // A hexadecimal digit may be written in capitals.
            let is_same = damaged.eq_ignore_ascii_case(&text) && checked(&damaged) == checked(&text);
            assert!(checked(&damaged).is_none() || is_same, "damaged at {place}");
        }
        let longer = [text.as_slice(), b"what a longer one left"].concat();
        assert_eq!(checked(&longer), checked(&text));
    }

    #[test]
    fn lines_of_a_later_version_are_passed_over() {
        let status = decode("process 1\nmood good\nflushes 3\n").unwrap();
        assert_eq!((status.process, status.statistics.flushes), (1, 3));
        assert!(decode("flushes many\n").is_none());
    }

    #[test]
    fn the_file_has_a_bound_and_says_what_it_left_out() {
        let mut many = statistics();
        let keyspace = KeyspaceStatistics { name: "k".repeat(255), partitions: 1, ..KeyspaceStatistics::default() };
        many.keyspaces = vec![keyspace; 5000];
        let text = encode(42, many);
        assert!(text.len() <= HEADER_BYTES + BYTES_MAX);
        let status = decode(checked(text.as_bytes()).unwrap()).unwrap();
        let kept = status.statistics.keyspaces.len() as u64;
        assert!(kept > 3000 && kept + status.keyspaces_left_out == 5000);
    }

    #[test]
    fn a_missing_or_a_damaged_file_says_nothing() {
        let root = std::env::temp_dir().join(format!("thalweg-status-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        assert!(read(&LinuxStorage, &root).unwrap().is_none());
        std::fs::write(root.join(NAME), "thalweg status 1 00000001 00000000\nx").unwrap();
        assert!(read(&LinuxStorage, &root).unwrap().is_none());
        write(&LinuxStorage, &root.join(NAME), &encode(7, statistics())).unwrap();
        assert_eq!(read(&LinuxStorage, &root).unwrap().unwrap().process, 7);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
