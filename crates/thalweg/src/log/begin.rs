//! Begins a log, new or recovered; starts its coroutines; closes it.
//!
//! A recovered log never continues after a torn tail. First a new segment is prepared. Then a seal that names it is
//! written over the end that was found, and synced. Only then are slots outside of the log reused or removed. A crash
//! between any two of these writes leaves the same records (`docs/format/log.md`, Going on after recovery). Locks: none
//! over I/O.

use super::callbacks::Callbacks;
use super::framing::{Close, SEAL_FRAGMENT_BYTES, Seal};
use super::header::{BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentHeader, SegmentId};
use super::lost;
use super::open::Log;
use super::options::LogOptions;
use super::preparation::{NewBlocks, Preparation};
use super::published::Published;
use super::scan::Scan;
use super::search::search;
use super::segment::{Segment, slot_path};
use super::sizing::Sizing;
use super::slots::{SlotFile, Slots};
use super::supply::{Idle, Supply};
use super::tail::Tail;
use super::walk::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{EditId, LogMark, LogPosition, SeqNo};
use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{Environment, Health, Lane, Task};
use crate::storage::OpenMode;
use crate::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

/// How many segments may always be open: the tail, two prepared ones, and one that is being synced.
const SEGMENTS_OPEN_MIN: usize = 4;

impl Log {
    /// Begins a new log in an empty `directory`, or continues a recovered one after its end (see [`Scan`]): prepares a
    /// new segment and seals the valid end of the old ones. Before the call, the recovered state must be durable in a
    /// new manifest.
    pub(crate) fn begin(
        environment: Environment,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        directory: PathBuf,
        options: LogOptions,
        recovered: Option<Scan>,
    ) -> Result<Arc<Self>> {
        let bytes = options.segment_bytes;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(Error::invalid_input(format!(
                "a log segment takes {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes, in multiples of {BLOCK_BYTES}"
            )));
        }
        ensure_directory(&environment, &directory)?;
        let start = Start { environment: &environment, metrics: &metrics, directory: &directory, options: &options };
        let (mut tail, settled) = match recovered {
            None => start.fresh()?,
            Some(scan) => start.recovered(scan)?,
        };
        tail.supply.begun_in = Some(Arc::clone(&tail.segment));
        let id = tail.segment.id;
        let position = LogPosition::new(id.index, tail.offset);
        let mark = LogMark { position, generation: id.generation, seq: tail.last_seq };
        let durable = Arc::new(AtomicU64::new(position.raw()));
        let callbacks = Callbacks::new(&durable, &health);
        Ok(Arc::new(Log {
            advanced: health.watched_event(),
            supplied: health.watched_event(),
            wanted: health.watched_event(),
            ended: health.watched_event(),
            segments_open_max: segments_open_max(&environment),
            environment,
            health,
            metrics,
            directory: Arc::from(directory),
            options,
            visible: AtomicU64::new(mark.seq.0),
            published: Mutex::new(Published::new(mark)),
            durable,
            callbacks,
            syncs: Mutex::default(),
            settled: AtomicU64::new(settled.0),
            callers_in: AtomicU32::new(0),
            callers_are_frequent: AtomicBool::new(false),
            quiet_at: AtomicU64::new(0),
            when_quiet: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
            backlog: AtomicU64::new(tail.backlog_bytes()),
            tail: Mutex::new(tail),
        }))
    }

    /// Returns the background coroutines (preparer, populater, sync at intervals, callbacks), each with its lane. They
    /// end after [`Log::close`] or [`Log::stop`], or when the database is poisoned.
    ///
    /// Without a ring a sync blocks its worker. Then the preparer runs on another worker than the syncs at intervals,
    /// because a new segment takes three syncs, one of them of the whole segment.
    pub(crate) fn tasks(self: &Arc<Self>) -> Vec<(Lane, Task)> {
        let has_ring = self.environment.scheduler.ring_refused().is_none();
        let preparer = match has_ring {
            _ if planted(Bug::IntervalBehindPreparation) => Lane::Log,
            true => Lane::LogSegments,
            false => Lane::Flush,
        };
        let mut tasks: Vec<(Lane, Task)> = vec![
            (preparer, Box::pin(Arc::clone(self).prepare_segments())),
            (preparer, Box::pin(Arc::clone(self).populate_segments())),
            (Lane::Log, Box::pin(Arc::clone(self).sync_at_intervals())),
        ];
        tasks.extend(self.answer_callbacks().map(|task| (Lane::Log, Box::pin(task) as Task)));
        tasks
    }

    /// Refuses new reservations, waits for writers that have one, and makes the log durable. Returns the end of the
    /// log. When this returns, even with an error, no writer stores into the log.
    pub(crate) fn finish_writes(&self) -> Result<LogMark> {
        let next_ticket = {
            let mut tail = self.lock_tail();
            tail.is_closed = true;
            tail.next_ticket
        };
        // Writers that wait for a segment look again and find the log closed.
        self.supplied.notify_all();
        self.wait_for_writers(next_ticket)?;
        let mark = self.published();
        self.sync(mark.position)?;
        self.failure().map_or(Ok(mark), Err)
    }

    /// Writes the clean-close seal naming the manifest's end. Requires [`Log::finish_writes`].
    pub(crate) fn close(&self, manifest_number: u64, manifest_end: u64) -> Result<()> {
        let mark = self.finish_writes()?;
        let segment = Arc::clone(&self.lock_tail().segment);
        let offset = mark.position.offset();
        assert_eq!(segment.id.index, mark.position.segment(), "the log ends in the tail's segment");
        let close = Close { manifest_number, manifest_end, synced: self.durable(), last_seq: mark.seq };
        let head = close.encode(segment.id, offset);
        let written = segment.write(offset, head.as_slice());
        let end = offset + head.as_slice().len() as u32;
        let synced = written.and_then(|()| segment.handle(0)?.sync(offset, end));
        synced.map_err(|error| self.health.poison(error))?;
        self.stop();
        Ok(())
    }
}

/// Returns how many segments may be open for writing: they take a quarter of all descriptors.
fn segments_open_max(environment: &Environment) -> usize {
    let most = environment.storage.open_files_max().unwrap_or(u64::MAX) / 8;
    usize::try_from(most).unwrap_or(usize::MAX).max(SEGMENTS_OPEN_MIN)
}

/// Creates the directory if it is missing, with a durable name.
fn ensure_directory(environment: &Environment, directory: &Path) -> Result<()> {
    if environment.storage.list(directory)?.is_some() {
        return Ok(());
    }
    environment.storage.create_directory(directory)?;
    if let Some(parent) = directory.parent() {
        environment.storage.sync_directory(parent)?;
    }
    Ok(())
}

/// The parts that a log needs to begin.
struct Start<'a> {
    environment: &'a Environment,
    metrics: &'a Metrics,
    directory: &'a Path,
    options: &'a LogOptions,
}

impl Start<'_> {
    /// Begins a new log. First removes, durably, the files of an interrupted open that had no manifest yet, because the
    /// first segment of a log is found by its index alone.
    fn fresh(&self) -> Result<(Tail, EditId)> {
        let slots = Slots::load(self.environment, self.directory, OpenMode::Read)?;
        let library = Library { environment: Some(self.environment), slots: &slots, mode: OpenMode::Read };
        if search(&library, LogMark::default(), LogPosition::default())?.records > 0 {
            // A manifest is durable before the first record is written. So the manifest of these records is lost.
            return Err(Error::corruption(self.directory, 0, "a manifest for the records in this log", "none"));
        }
        for slot in &slots.slots {
            self.environment.storage.remove(&slot.path)?;
        }
        if !slots.slots.is_empty() {
            self.environment.storage.sync_directory(self.directory)?;
        }
        let sizing = self.sizing();
        let segment = self.create(0, self.header(1, sizing.next(), EditId(0)))?;
        Ok((Tail::new(Arc::new(segment), SeqNo(0), Supply::new(sizing, 2, 1)), EditId(0)))
    }

    /// Continues a recovered log.
    fn recovered(&self, mut scan: Scan) -> Result<(Tail, EditId)> {
        if !scan.dropped.is_empty() {
            lost::copy_lost(self.environment, self.directory, &scan)?;
            self.restore_start(&mut scan)?;
        }
        let index_max = scan.slots.index_max().max(scan.end.position.segment());
        let Some(next_index) = index_max.checked_add(2) else {
            return Err(Error::corruption(self.directory, 0, "log segment indexes below 2^32 - 1", "a larger one"));
        };
        let sizing = self.sizing();
        let header = self.header(index_max + 1, sizing.next(), scan.settled);
        let (segment, next_number) = self.first_segment(&mut scan, header)?;
        self.seal_end(&scan, segment.id)?;

        let mut supply = Supply::new(sizing, next_index, next_number);
        let mut sealed = Vec::new();
        let mut slots = scan.slots.slots;
        slots.sort_by_key(|slot| slot.id());
        for slot in slots {
            match slot.header {
                Some(header) if scan.segments.contains(&header.id) => {
                    // Recovery made this segment durable, and its seal was synced above.
                    sealed.push(Segment::closed(slot.path, header.id, header.bytes));
                }
                Some(header) if header.bytes <= self.options.segment_bytes => {
                    supply.free.push_back(Idle { path: slot.path, bytes: header.bytes });
                }
                _ => supply.useless.push((slot.path, None)),
            }
        }
        let mut tail = Tail::new(Arc::new(segment), scan.end.seq, supply);
        tail.segments.extend(sealed.into_iter().map(|segment| (segment.id.index, Arc::new(segment))));
        Ok((tail, scan.settled))
    }

    /// Makes an empty segment with the identity of the log's start, if `PointInTime` found no such segment. So the mark
    /// in the manifest still leads to a segment.
    fn restore_start(&self, scan: &mut Scan) -> Result<()> {
        let end = scan.end;
        let id = SegmentId { index: end.position.segment(), generation: end.generation };
        if scan.slots.find(id).is_some() {
            if !scan.segments.contains(&id) {
                scan.segments.push(id);
            }
            return Ok(());
        }
        let bytes = (end.position.offset() / BLOCK_BYTES + 2).saturating_mul(BLOCK_BYTES);
        let bytes = bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let header = SegmentHeader { id, bytes, settled: EditId(0) };
        self.create(scan.slots.next_number(), header)?;
        scan.slots = Slots::load(self.environment, self.directory, OpenMode::Read)?;
        scan.segments.push(id);
        Ok(())
    }

    /// Makes the segment that the log continues in. Returns it and the next slot number. Uses a slot that no seal
    /// names, or else a new file. If there is no room for a new file, uses such a slot of any size.
    fn first_segment(&self, scan: &mut Scan, header: SegmentHeader) -> Result<(Segment, u32)> {
        let next_number = scan.slots.next_number();
        if let Some(segment) = self.reuse(scan, header, header.bytes.saturating_mul(2))? {
            return Ok((segment, next_number));
        }
        match self.create(next_number, header) {
            Ok(segment) => Ok((segment, next_number.saturating_add(1))),
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                if let Some(segment) = self.reuse(scan, header, SEGMENT_BYTES_MAX)? {
                    return Ok((segment, next_number));
                }
                if !self.options.space.give_up_reserve() {
                    return Err(error);
                }
                Ok((self.create(next_number, header)?, next_number.saturating_add(1)))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the segment of `header` in the smallest slot of at most `bytes_max` bytes that no seal names.
    fn reuse(&self, scan: &mut Scan, header: SegmentHeader, bytes_max: u32) -> Result<Option<Segment>> {
        let bytes_of = |slot: &SlotFile| {
            let unused = |id| !scan.segments.contains(&id) && !scan.named.contains(&id);
            slot.header.filter(|header| header.bytes <= bytes_max && unused(header.id)).map(|header| header.bytes)
        };
        let slots = scan.slots.slots.iter().enumerate();
        let smallest = slots.filter_map(|(index, slot)| Some((bytes_of(slot)?, index))).min();
        let Some((bytes, index)) = smallest else { return Ok(None) };
        let path = scan.slots.slots.remove(index).path;
        let preparation = Preparation::recycle(path, SegmentHeader { bytes, ..header });
        preparation.run(self.environment, self.metrics).map(Some)
    }

    /// Writes the seal at the end of the recovered records, and makes it durable.
    fn seal_end(&self, scan: &Scan, successor: SegmentId) -> Result<()> {
        let id = SegmentId { index: scan.end.position.segment(), generation: scan.end.generation };
        let Some((slot, header)) = scan.slots.find(id) else {
            assert!(scan.start.is_none() && scan.dropped.is_empty(), "a log that has a start has an end");
            return Ok(());
        };
        if planted(Bug::AppendAfterTornTail) {
            return Ok(());
        }
        let segment = Segment::open(self.environment, slot.path.clone(), id, header.bytes)?;
        let next_seq = SeqNo(scan.end.seq.0 + 1);
        let seal = Seal { successor, next_seq, synced: scan.end.position };
        let offset = scan.end.position.offset();
        segment.write(offset, seal.encode(id, offset).as_slice())?;
        segment.handle(0)?.sync(offset, offset + SEAL_FRAGMENT_BYTES)
    }

    /// Returns the header of a new segment.
    fn header(&self, index: u32, bytes: u32, settled: EditId) -> SegmentHeader {
        let id = SegmentId { index, generation: self.environment.entropy.next_u64() };
        SegmentHeader { id, bytes, settled }
    }

    fn sizing(&self) -> Sizing {
        Sizing::new(self.options.segment_bytes, self.environment.clock.now_ns())
    }

    /// Creates a segment in slot `number`.
    fn create(&self, number: u32, header: SegmentHeader) -> Result<Segment> {
        let path = slot_path(self.directory, number);
        Preparation::create(path, header, NewBlocks::Filled).run(self.environment, self.metrics)
    }
}
