//! [`Scan`]: what recovery finds in the log, and replay of it (`docs/format/log.md`, Reading a log).
//!
//! A scan changes nothing but durability: it syncs every file first, so that what it reads cannot be lost later, and
//! reads past the page cache, because what a cache holds proves nothing about the medium (DESIGN 6, Recovery). Where
//! the file system refuses such reads, what was read is written again in place and synced.
//!
//! The rule for the end: S, the largest synced offset that anything valid tells of, was a durable frontier. A gap
//! before S is damage; a gap at or after S is what a crash leaves. Locks: none.

use super::DamagePolicy;
use super::framing::{BLOCK_BYTES, HEADER_BYTES, SegmentId, is_settled};
use super::record::Record;
use super::segment::open_file;
use super::slots::{Slot, Slots, open_for_reading};
use super::walk::{Evidence, Library, Step, Stop, Walk, search};
use crate::error::{Error, Result};
use crate::format::{EditId, LogMark, LogPosition, SeqNo};
use crate::runtime::Environment;
use crate::storage::OpenMode;
#[cfg(feature = "simulation")]
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// There is no log yet.
    Missing,
    /// A clean-close seal follows the last record.
    Closed,
    /// Nothing that belongs to the log follows the last record.
    Clean,
    /// A part of what was being written at a crash follows the last record.
    Torn,
    /// With `PointInTime`: the log is damaged here, and what follows is dropped.
    Damaged,
}

/// What recovery found in the log, from a mark that the manifest gave.
pub(crate) struct Scan {
    /// Where the last complete record ends.
    pub(crate) end: LogMark,
    /// The last settled edit that a segment header tells of (0: none).
    pub(crate) settled: EditId,
    /// `Some((manifest number, manifest bytes))` when a clean-close seal ends the log.
    pub(crate) closed: Option<(u64, u64)>,
    /// For `PointInTime`: what is dropped, in words.
    pub(crate) dropped: Vec<String>,
    /// How the log ends.
    pub(crate) tail: Tail,
    /// Records from the start to the end.
    pub(crate) records: u64,
    /// Padding below the synced offset that is not zeros: for `check`. It carries no data.
    pub(crate) padding: Vec<Error>,
    /// Where the scan began; `None` when there was nothing to begin with.
    pub(super) start: Option<LogMark>,
    pub(super) slots: Slots,
    /// Segments of the log from start to end, in order.
    pub(super) chain: Vec<SegmentId>,
    /// What was read in each segment of the log and belongs to it.
    #[cfg(feature = "simulation")]
    used: Vec<(SegmentId, Range<u32>)>,
    /// Segments that any seal names: none of these may be reused before the end is sealed.
    pub(super) named: Vec<SegmentId>,
    environment: Environment,
    directory: PathBuf,
    mode: OpenMode,
}

impl Scan {
    /// Makes every segment file durable (an error refuses the open), then reads the log from `start` past the page
    /// cache, up to the last complete record. Read-only: syncs nothing, reads through the cache. Damage below the last
    /// recorded synced offset is corruption, or with `PointInTime` the end.
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
            tail: Tail::Missing,
            records: 0,
            padding: Vec::new(),
            start: None,
            slots,
            chain: Vec::new(),
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

    /// The last settled edit that any segment header tells of (0: none). Every one of them was durable in a manifest
    /// before the header was written.
    pub(crate) fn settled_edit(environment: &Environment, directory: &Path) -> Result<EditId> {
        let slots = Slots::load(environment, directory, OpenMode::Read)?;
        Ok(slots.settled_max())
    }

    /// The mark to begin at, if there is a log.
    fn root(&self, start: LogMark) -> Result<Option<LogMark>> {
        if start.position == LogPosition::default() {
            let first = self.slots.slots.iter().filter_map(|slot| slot.id()).find(|id| id.index == 1);
            if let Some(id) = first {
                let position = LogPosition::new(1, HEADER_BYTES);
                return Ok(Some(LogMark { position, generation: id.generation, seq: SeqNo(0) }));
            }
            // The first segment is durable before any other is prepared or a record is written. A damaged header of a
            // segment that holds nothing is what a death in the middle of its creation leaves.
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
        if is_settled(offset, header.bytes) {
            return Ok(Some(start));
        }
        Err(Error::corruption(&slot.path, u64::from(offset), "a boundary between records", "a place where none can be"))
    }

    /// Whether any byte behind the header's place is not zero.
    fn holds_something(&self, slot: &Slot) -> Result<bool> {
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

    /// `PointInTime`, and not even the start is there: the log is empty from its start on.
    fn begin_lost(&mut self, start: LogMark, error: &Error) {
        self.dropped.push(format!("the whole log after sequence number {}: {error}", start.seq));
        self.tail = Tail::Damaged;
        if start.position == LogPosition::default() {
            let generation = self.environment.entropy.next_u64();
            self.end = LogMark { position: LogPosition::new(1, HEADER_BYTES), generation, seq: SeqNo(0) };
        }
    }

    fn read(&mut self, root: LogMark, policy: DamagePolicy, read_only: bool) -> Result<()> {
        let mut walk = self.walk(root)?;
        let mut records = 0;
        let (closed, stop) = loop {
            match walk.step()? {
                Step::Record { .. } => records += 1,
                Step::Closed(close) => break (Some(close), None),
                Step::Stop(stop) => break (None, Some(stop)),
            }
        };
        let (end, entered, padding) = (walk.mark, walk.entered, walk.padding);
        let (mut named, mut synced) = (walk.named, walk.synced);
        let (mut tail, mut dropped) = (Tail::Closed, Vec::new());
        if let Some(stop) = stop {
            let evidence = search(&self.library(), end, stop.position)?;
            synced = synced.max(evidence.synced);
            tail = judge(&stop, end, synced, &evidence, policy)?;
            if tail == Tail::Damaged {
                dropped.push(describe(&stop, end, &evidence));
            }
            named.extend(evidence.named);
        }
        let last = end.position.segment();
        let used: Vec<_> = entered.into_iter().filter(|(id, _)| id.index <= last).collect();
        if !read_only {
            self.rewrite_what_was_cached(&used, end)?;
        }
        self.chain = used.iter().map(|(id, _)| *id).collect();
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
        (self.start, self.end, self.tail, self.named) = (Some(root), end, tail, named);
        (self.records, self.dropped) = (records, dropped);
        Ok(())
    }

    /// The bytes of each file that this scan relies on: the header of each segment of the log, and what it read there,
    /// seals included. What is behind the end, and every other segment, may rot.
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

    fn walk(&self, root: LogMark) -> Result<Walk<'_>> {
        let id = SegmentId { index: root.position.segment(), generation: root.generation };
        let library = self.library();
        match library.open(id)? {
            Some(reader) => Ok(Walk::new(library, reader, root)),
            None => Err(Error::corruption(&self.directory, 0, format!("log segment {}", id.index), "none")),
        }
    }

    /// Pages that a failed sync left clean are in the cache and not on the medium, and no sync writes them: so make
    /// all pages that were trusted dirty again, and sync.
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

    /// Gives every record from `start` to the end, with the mark at which it begins and its first sequence number.
    pub(crate) fn replay(&self, each: &mut dyn FnMut(LogMark, SeqNo, &Record) -> Result<()>) -> Result<()> {
        let Some(root) = self.start else {
            return Ok(());
        };
        let mut walk = self.walk(root)?;
        loop {
            match walk.step()? {
                Step::Record { mark, first_seq, record } if mark.position < self.end.position => {
                    each(mark, first_seq, &record)?;
                }
                Step::Stop(stop) if walk.mark != self.end => return Err(stop.error()),
                Step::Record { .. } | Step::Closed(_) | Step::Stop(_) => return Ok(()),
            }
        }
    }

    /// Bytes of the segments from the start to the end.
    pub(crate) fn bytes(&self) -> u64 {
        self.chain.iter().filter_map(|id| self.slots.find(*id)).map(|(_, header)| u64::from(header.bytes)).sum()
    }

    /// The file in which the log ends; without its header, the one that most likely had it.
    pub(crate) fn end_path(&self) -> PathBuf {
        let id = SegmentId { index: self.end.position.segment(), generation: self.end.generation };
        let slot = self.slots.find(id).map(|(slot, _)| slot).or_else(|| self.slots.suspect());
        slot.map_or_else(|| self.directory.clone(), |slot| slot.path.clone())
    }

    /// The faults of a log that recovery can live with but nobody wrote: padding that is not zeros; and, when the
    /// manifest says that the database was closed with the log ending at `closed`, an end without its seal.
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

    /// Corruption when the log ends before a boundary that is known to have been durable.
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

/// What of each segment that was entered belongs to the log: from the start mark, or the header's end, to what was read
/// there, and not beyond the end of the log, unless that is its clean-close seal.
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

/// What the end is, when the log stops without a clean-close seal.
fn judge(stop: &Stop, end: LogMark, synced: LogPosition, evidence: &Evidence, policy: DamagePolicy) -> Result<Tail> {
    let is_damage = stop.is_damage || synced > end.position;
    match (is_damage, policy) {
        (true, DamagePolicy::Strict) => {
            let expected = format!("{}, because the log was durable to {synced}", stop.expected);
            let expected = if stop.is_damage { stop.expected.clone() } else { expected };
            Err(Error::corruption(&stop.path, u64::from(stop.position.offset()), expected, &*stop.found))
        }
        (true, DamagePolicy::PointInTime) => Ok(Tail::Damaged),
        (false, _) if stop.is_torn || evidence.records > 0 => Ok(Tail::Torn),
        (false, _) => Ok(Tail::Clean),
    }
}

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
    for entry in entries.iter().filter(|entry| super::segment::slot_number(&entry.name).is_some()) {
        open_file(environment, &directory.join(&entry.name))?.sync()?;
    }
    environment.storage.sync_directory(directory)
}
