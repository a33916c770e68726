//! [`Scan`]: what recovery finds in the log (`docs/format/log.md`, Reading a log).
//!
//! A scan changes nothing but durability. It syncs every file first, so that what it reads cannot be lost later. It
//! reads past the page cache, because bytes that only the cache holds prove nothing about the medium. If the file
//! system refuses such reads, the scan writes the bytes that it read again in place, and syncs them.
//!
//! Let S be the largest synced offset in anything valid. S was a durable frontier. So a gap before S is damage, and a
//! gap at or after S is what a crash leaves. Locks: none.

use super::framing::is_aligned;
use super::header::{BLOCK_BYTES, HEADER_BYTES, SegmentId};
use super::options::DamagePolicy;
use super::reader::{LogReader, walk_from};
use super::search::{Evidence, search};
use super::segment::{open_file, slot_number};
use super::slots::{SlotFile, Slots, open_for_reading};
use super::walk::{Library, Stop, WalkStep};
use crate::error::{Error, Result};
use crate::format::{EditId, LogMark, LogPosition, SeqNo};
use crate::runtime::Environment;
use crate::storage::OpenMode;
#[cfg(feature = "simulation")]
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogEnd {
    /// There is no log yet.
    Missing,
    /// A clean-close seal follows the last record.
    Closed,
    /// No part of the log follows the last record.
    Clean,
    /// Part of what was being written at a crash follows the last record.
    Torn,
    /// With `PointInTime`: the log is damaged here, and what follows is dropped.
    Damaged,
}

/// The records that recovery found in the log, from the manifest's start mark on.
pub(crate) struct Scan {
    /// Where the last complete record ends.
    pub(crate) end: LogMark,
    /// The last settled edit in any segment header (0: none).
    pub(crate) settled: EditId,
    /// `Some((manifest number, manifest bytes))` if a clean-close seal ends the log.
    pub(crate) closed: Option<(u64, u64)>,
    /// The changes that `PointInTime` dropped, in words.
    pub(crate) dropped: Vec<String>,
    /// How the log ends.
    pub(crate) ending: LogEnd,
    /// The number of records from the start to the end.
    pub(crate) records: u64,
    /// Padding below the synced offset that is not zeros, for `check`. Padding carries no data.
    pub(crate) padding: Vec<Error>,
    /// Where the scan began; `None` if there is no log.
    pub(super) start: Option<LogMark>,
    pub(super) slots: Slots,
    /// The segments of the log from start to end, in order.
    pub(super) segments: Vec<SegmentId>,
    /// The bytes of each segment that belong to the log.
    #[cfg(feature = "simulation")]
    used: Vec<(SegmentId, Range<u32>)>,
    /// The segments that any seal names. None of them may be reused before the end is sealed.
    pub(super) named: Vec<SegmentId>,
    environment: Environment,
    directory: PathBuf,
    mode: OpenMode,
}

impl Scan {
    /// Makes every segment file durable; an error refuses the open. Then reads the log from `start`, past the page
    /// cache, up to the last complete record. With `read_only` it syncs nothing and reads through the cache. Damage
    /// below the last recorded synced offset is corruption, or with `PointInTime` the end of the log.
    pub(crate) fn run(
        environment: &Environment,
        directory: &Path,
        start: LogMark,
        policy: DamagePolicy,
        read_only: bool,
    ) -> Result<Scan> {
        if !read_only {
            sync_all(environment, directory)?;
        }
        let mode = if read_only { OpenMode::Read } else { OpenMode::ReadMedium };
        let slots = Slots::load(environment, directory, mode)?;
        let mut scan = Scan {
            end: start,
            settled: EditId(0),
            closed: None,
            dropped: Vec::new(),
            ending: LogEnd::Missing,
            records: 0,
            padding: Vec::new(),
            start: None,
            slots,
            segments: Vec::new(),
            #[cfg(feature = "simulation")]
            used: Vec::new(),
            named: Vec::new(),
            environment: environment.clone(),
            directory: directory.to_path_buf(),
            mode,
        };
        match scan.root(start) {
            Ok(None) => {}
            Ok(Some(root)) => scan.read(root, policy, read_only)?,
            Err(error) if policy == DamagePolicy::Strict => return Err(error),
            Err(error) => scan.begin_lost(start, &error),
        }
        Ok(scan)
    }

    /// Returns the last settled edit in any segment header (0: none). Each such edit was durable in a manifest before
    /// the header was written.
    pub(crate) fn settled_edit(environment: &Environment, directory: &Path) -> Result<EditId> {
        let slots = Slots::load(environment, directory, OpenMode::Read)?;
        Ok(slots.settled_max())
    }

    /// Returns the mark to begin at, if there is a log.
    fn root(&self, start: LogMark) -> Result<Option<LogMark>> {
        if start.position == LogPosition::default() {
            let first = self.slots.slots.iter().filter_map(|slot| slot.id()).find(|id| id.index == 1);
            if let Some(id) = first {
                let position = LogPosition::new(1, HEADER_BYTES);
                return Ok(Some(LogMark { position, generation: id.generation, seq: SeqNo(0) }));
            }
            // The first segment is durable before any other is prepared or a record is written. A crash during its
            // creation may leave a damaged header in a segment that holds nothing.
            for slot in &self.slots.slots {
                if slot.header.is_some() || (slot.header_is_damaged && self.holds_something(slot)?) {
                    return Err(Error::corruption(&slot.path, 0, "the header of log segment 1", "another"));
                }
            }
            return Ok(None);
        }
        let id = SegmentId { index: start.position.segment(), generation: start.generation };
        let Some((slot, header)) = self.slots.find(id) else {
            let path = self.slots.suspect().map_or(&self.directory, |slot| &slot.path);
            let expected = format!("the header of log segment {} of generation {:016x}", id.index, id.generation);
            return Err(Error::corruption(path, 0, expected, "none"));
        };
        let offset = start.position.offset();
        if is_aligned(offset, header.bytes) {
            return Ok(Some(start));
        }
        Err(Error::corruption(&slot.path, u64::from(offset), "a boundary between records", "a place where none can be"))
    }

    /// Returns whether any byte after the header is not zero.
    fn holds_something(&self, slot: &SlotFile) -> Result<bool> {
        let (file, _) = open_for_reading(&self.environment, &slot.path, self.mode)?;
        let mut block = vec![0; BLOCK_BYTES as usize];
        let mut at = 0;
        loop {
            let count = file.read_at(at, &mut block)?;
            let read = block.iter().take(count).zip(at..);
            if read.skip_while(|(_, offset)| *offset < u64::from(HEADER_BYTES)).any(|(byte, _)| *byte != 0) {
                return Ok(true);
            }
            if count == 0 {
                return Ok(false);
            }
            at += count as u64;
        }
    }

    /// Begins an empty log at `start`, because `PointInTime` found not even the start.
    fn begin_lost(&mut self, start: LogMark, error: &Error) {
        self.dropped.push(format!("the whole log after sequence number {}: {error}", start.seq));
        // The remaining segments may name edits that the manifest has lost. New edits get larger numbers.
        self.settled = self.slots.settled_max();
        self.ending = LogEnd::Damaged;
        if start.position == LogPosition::default() {
            let generation = self.environment.entropy.next_u64();
            self.end = LogMark { position: LogPosition::new(1, HEADER_BYTES), generation, seq: SeqNo(0) };
        }
    }

    /// Reads the log from `root` and decides how it ends.
    fn read(&mut self, root: LogMark, policy: DamagePolicy, read_only: bool) -> Result<()> {
        let mut walk = walk_from(self.library(), &self.directory, root)?;
        let mut records = 0;
        let (closed, stop) = loop {
            match walk.step()? {
                WalkStep::Record { .. } => records += 1,
                WalkStep::Closed(close) => break (Some(close), None),
                WalkStep::Stop(stop) => break (None, Some(stop)),
            }
        };
        let (end, entered, padding) = (walk.mark, walk.entered, walk.padding);
        let (mut named, mut synced) = (walk.named, walk.synced);
        let (mut ending, mut dropped) = (LogEnd::Closed, Vec::new());
        if let Some(stop) = stop {
            let evidence = search(&self.library(), end, stop.position)?;
            synced = synced.max(evidence.synced);
            ending = judge(&stop, end, synced, &evidence, policy)?;
            if ending == LogEnd::Damaged {
                dropped.push(describe(&stop, end, &evidence));
            }
            named.extend(evidence.named);
        }
        let last = end.position.segment();
        let used: Vec<_> = entered.into_iter().filter(|(id, _)| id.index <= last).collect();
        if !read_only {
            self.rewrite_what_was_cached(&used, end)?;
        }
        self.segments = used.iter().map(|(id, _)| *id).collect();
        #[cfg(feature = "simulation")]
        {
            self.used = used_ranges(&used, root, end, closed.is_some());
        }
        self.settled = self.slots.settled_max();
        let padding = padding.into_iter().filter(|(position, _)| *position < synced);
        self.padding = padding
            .map(|(at, path)| Error::corruption(&path, u64::from(at.offset()), "padding of zeros", "other bytes"))
            .collect();
        self.closed = closed.map(|close| (close.manifest_number, close.manifest_end));
        (self.start, self.end, self.ending, self.named) = (Some(root), end, ending, named);
        (self.records, self.dropped) = (records, dropped);
        Ok(())
    }

    /// Returns the bytes of each file that this scan relies on: the header of each segment of the log, and the bytes
    /// that it read there, including the seals. All other bytes may be damaged.
    #[cfg(feature = "simulation")]
    pub(crate) fn used_ranges(&self) -> Vec<(PathBuf, Range<u64>)> {
        let place = |(id, range): &(SegmentId, Range<u32>)| {
            let path = self.slots.find(*id)?.0.path.clone();
            let header = (path.clone(), 0..u64::from(HEADER_BYTES));
            Some([header, (path, u64::from(range.start)..u64::from(range.end))])
        };
        self.used.iter().filter_map(place).flatten().collect()
    }

    fn library(&self) -> Library<'_> {
        Library { environment: Some(&self.environment), slots: &self.slots, mode: self.mode }
    }

    /// Writes again, and syncs, the bytes that were read through the cache. After a failed sync, pages may be clean but
    /// not on the medium, and no later sync writes such pages.
    fn rewrite_what_was_cached(&self, used: &[(SegmentId, u32)], end: LogMark) -> Result<()> {
        for (id, read) in used {
            let Some((slot, _)) = self.slots.find(*id) else {
                continue;
            };
            if open_for_reading(&self.environment, &slot.path, OpenMode::ReadMedium)?.1 {
                continue;
            }
            let to = if id.index == end.position.segment() { end.position.offset() } else { *read };
            let file = open_file(&self.environment, &slot.path)?;
            let mut buffer = vec![0; 8 * BLOCK_BYTES as usize];
            let mut at = 0;
            while at < u64::from(to) {
                let count = buffer.len().min((u64::from(to) - at) as usize);
                if let Some(part) = buffer.get_mut(..count) {
                    file.read_exact_at(at, part)?;
                    file.write_all_at(at, part)?;
                }
                at += count as u64;
            }
            file.sync()?;
        }
        Ok(())
    }

    /// Returns a reader that reads the records again. The log may have begun meanwhile.
    pub(crate) fn reader(&self) -> LogReader {
        LogReader {
            environment: self.environment.clone(),
            directory: self.directory.clone(),
            slots: self.slots.clone(),
            mode: self.mode,
            start: self.start,
            end: self.end,
        }
    }

    /// Returns the bytes of the segments from the start to the end.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().filter_map(|id| self.slots.find(*id)).map(|(_, header)| u64::from(header.bytes)).sum()
    }

    /// Returns the file in which the log ends. If no file has that header, returns the one that most likely had it.
    pub(crate) fn end_path(&self) -> PathBuf {
        let id = SegmentId { index: self.end.position.segment(), generation: self.end.generation };
        let slot = self.slots.find(id).map(|(slot, _)| slot).or_else(|| self.slots.suspect());
        slot.map_or_else(|| self.directory.clone(), |slot| slot.path.clone())
    }

    /// Returns the faults that recovery tolerates: padding that is not zeros; and a missing clean-close seal, if the
    /// manifest says that the database was closed with the log ending at `closed`.
    pub(crate) fn check(&self, closed: Option<LogMark>) -> Vec<Error> {
        let mut faults = self.padding.clone();
        let Some(closed) = closed else { return faults };
        if let Err(error) = self.expect_at_least(closed) {
            faults.push(error);
        } else if self.closed.is_none() && self.end == closed {
            let path = self.end_path();
            let offset = u64::from(self.end.position.offset());
            let found = "none: it is damaged, or power was cut during the close; no data is lost, and opening the \
                         database for writing mends it";
            faults.push(Error::corruption(&path, offset, "the seal of a clean close", found));
        }
        faults
    }

    /// Returns corruption if the log ends before `mark`, a boundary that was durable.
    pub(crate) fn expect_at_least(&self, mark: LogMark) -> Result<()> {
        if self.end.seq >= mark.seq {
            return Ok(());
        }
        Err(Error::corruption(
            &self.end_path(),
            u64::from(self.end.position.offset()),
            format!("records up to sequence number {}", mark.seq),
            format!("the end of the log at sequence number {}", self.end.seq),
        ))
    }
}

/// Returns the bytes of each entered segment that belong to the log. They begin at the start mark, or after the header.
/// They end where reading ended, and not after the end of the log, except for its clean-close seal.
#[cfg(feature = "simulation")]
fn used_ranges(
    entered: &[(SegmentId, u32)],
    root: LogMark,
    end: LogMark,
    is_closed: bool,
) -> Vec<(SegmentId, Range<u32>)> {
    let range = |(id, read): &(SegmentId, u32)| {
        let is_first = id.index == root.position.segment();
        let is_last = id.index == end.position.segment();
        let from = if is_first { root.position.offset() } else { HEADER_BYTES };
        (*id, from..if is_last && !is_closed { end.position.offset() } else { *read })
    };
    entered.iter().map(range).collect()
}

/// Decides how the log ends if it stops without a clean-close seal.
fn judge(stop: &Stop, end: LogMark, synced: LogPosition, evidence: &Evidence, policy: DamagePolicy) -> Result<LogEnd> {
    let is_damage = stop.is_damage || synced > end.position;
    match (is_damage, policy) {
        (true, DamagePolicy::Strict) => {
            let expected = format!("{}, because the log was durable to {synced}", stop.expected);
            let expected = if stop.is_damage { stop.expected.clone() } else { expected };
            Err(Error::corruption(&stop.path, u64::from(stop.position.offset()), expected, &*stop.found))
        }
        (true, DamagePolicy::PointInTime) => Ok(LogEnd::Damaged),
        (false, _) if stop.is_torn || evidence.records > 0 => Ok(LogEnd::Torn),
        (false, _) => Ok(LogEnd::Clean),
    }
}

/// Returns what `PointInTime` drops, in words.
fn describe(stop: &Stop, end: LogMark, evidence: &Evidence) -> String {
    let last = if evidence.last_seq > end.seq { format!(" to at least {}", evidence.last_seq) } else { String::new() };
    let from = end.seq.0 + 1;
    format!("log records from sequence number {from}{last} (at least {} records): {}", evidence.records, stop.error())
}

/// Makes every file of the log and their names durable.
fn sync_all(environment: &Environment, directory: &Path) -> Result<()> {
    let Some(entries) = environment.storage.list(directory)? else {
        return Ok(());
    };
    for entry in entries.iter().filter(|entry| slot_number(&entry.name).is_some()) {
        open_file(environment, &directory.join(&entry.name))?.sync()?;
    }
    environment.storage.sync_directory(directory)
}
