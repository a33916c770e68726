//! [`Reservation`]: a record's place in the log and in the order of writes, and the copy into it.
//!
//! The reserve mutex ([`Tail`]) is held for arithmetic only: encoding and checksums are done before it, the copy after
//! (DESIGN 5). The copy goes through the segment's mapping, straight from the record: no system call, no buffer. Where
//! there is none, or a sync follows at once, it is one positional write for each segment. A reservation may end
//! segments: then its copy writes their seals too. Sequence numbers, places and tickets are given out together, so all
//! three have one order.
//!
//! Locks of the log, in the order in which they nest: syncs, published, tail. None is held over I/O or a wait.

use super::Log;
use super::framing::{
    HEADER_BYTES, Head, Piece, ROOM_BYTES, RecordHeader, SEAL_FRAGMENT_BYTES, Seal, SegmentId, settle,
};
use super::record::Record;
use super::recycle::Supply;
use super::segment::Segment;
use crate::error::{Error, Result};
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::Point;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

/// A record may reach over this many segments; more is refused.
const SEGMENTS_A_RECORD_MAX: u32 = 256;

/// What stands between a record and the end of its block, where no fragment fits.
const PADDING: [u8; ROOM_BYTES as usize] = [0; _];

/// Where the next record goes.
pub(super) struct Tail {
    pub(super) segment: Arc<Segment>,
    /// Settled: a fragment or a seal goes here.
    pub(super) offset: u32,
    pub(super) last_seq: SeqNo,
    pub(super) next_ticket: u64,
    /// Nothing may be reserved any more.
    pub(super) is_closed: bool,
    /// The segments of the log by index, those before the tail's included; from here `let_go` takes.
    pub(super) chain: BTreeMap<u32, Arc<Segment>>,
    pub(super) supply: Supply,
}

impl Tail {
    /// Takes note that the segment of `mark` is the one to write.
    pub(super) fn new(segment: Arc<Segment>, last_seq: SeqNo, supply: Supply) -> Self {
        let chain = BTreeMap::from([(segment.id.index, Arc::clone(&segment))]);
        Tail { segment, offset: HEADER_BYTES, last_seq, next_ticket: 0, is_closed: false, chain, supply }
    }
}

/// The part of a record in one segment: fragments, then padding or a seal.
struct Part {
    segment: Arc<Segment>,
    from: u32,
    to: u32,
    body_from: u32,
    body_to: u32,
    successor: Option<SegmentId>,
}

/// A place in the log and in the order of writes. Must be published; dropping it unpublished poisons the database.
pub(crate) struct Reservation<'a> {
    log: &'a Log,
    pub(super) ticket: u64,
    first_seq: SeqNo,
    pub(super) operations: u32,
    mark: LogMark,
    /// The boundary after the record.
    pub(super) end: LogMark,
    synced: LogPosition,
    /// Nearly every record has one part: no allocation for it.
    first: Part,
    others: Vec<Part>,
    pub(super) is_published: bool,
}

impl Reservation<'_> {
    /// The sequence number of the record's first operation; the others follow.
    pub(crate) fn first_seq(&self) -> SeqNo {
        self.first_seq
    }
    /// Where the record begins: the log is needed from here while an operation of it is only in a memtable.
    pub(crate) fn mark(&self) -> LogMark {
        self.mark
    }
    /// Where the record ends: `sync` to here makes it durable.
    pub(crate) fn end(&self) -> LogPosition {
        self.end.position
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            // Later records wait for this one for ever, and a replay would end here.
            self.log.count_given_up();
            self.log.health.poison(Error::internal("a write was given up after its log space was reserved"));
        }
    }
}

impl Log {
    /// As [`Log::reserve_and`].
    #[cfg(test)]
    pub(crate) fn reserve(&self, record: &Record) -> Result<Reservation<'_>> {
        self.reserve_and(record, |_, _| ())
    }

    /// Reserves space and sequence numbers. Waits for a free segment; `NoSpace` when none can be prepared. Runs
    /// `granted`, given where the record begins and its first number, before anything else can be reserved. `granted`
    /// must not call the log and must not wait.
    pub(crate) fn reserve_and(
        &self,
        record: &Record,
        mut granted: impl FnMut(LogMark, SeqNo),
    ) -> Result<Reservation<'_>> {
        let segment_bytes = self.options.segment_bytes;
        let too_large = || {
            let most = u64::from(segment_bytes) * u64::from(SEGMENTS_A_RECORD_MAX);
            Error::invalid_input(format!("a batch takes at most {} bytes", most.min(u64::from(u32::MAX))))
        };
        let body_bytes = u32::try_from(record.body().len()).map_err(|_| too_large())?;
        // At least one segment more than the body needs is allowed for headers and for what is left of the tail.
        if body_bytes / segment_bytes >= SEGMENTS_A_RECORD_MAX {
            return Err(too_large());
        }
        self.health.check()?;
        let (reservation, is_due) = {
            let tail = &mut *self.lock_tail();
            let reservation = self.reserve_in_tail(tail, record.count(), body_bytes, &mut granted)?;
            let is_due = reservation.is_some() && tail.supply.sizing.is_due_at(tail.offset);
            (reservation, is_due)
        };
        if is_due {
            self.wanted.notify_all();
        }
        if let Some(reservation) = reservation {
            return Ok(reservation);
        }
        let reservation = self.reserve_over_segments(record.count(), body_bytes, &mut granted);
        self.wanted.notify_all();
        reservation
    }

    /// The common case: the record fits what is left of the tail's segment. `None`: it does not.
    #[inline]
    fn reserve_in_tail(
        &self,
        tail: &mut Tail,
        operations: u32,
        body_bytes: u32,
        granted: &mut impl FnMut(LogMark, SeqNo),
    ) -> Result<Option<Reservation<'_>>> {
        let (segment, from) = (&tail.segment, tail.offset);
        let (mut done, mut begun) = (0, false);
        let (to, is_whole) = place(&mut done, &mut begun, from, body_bytes, segment.bytes);
        if !is_whole {
            return Ok(None);
        }
        let first = Part { segment: Arc::clone(segment), from, to, body_from: 0, body_to: body_bytes, successor: None };
        let begin = LogMark { position: LogPosition::new(segment.id.index, from), ..LogMark::default() };
        let begin = LogMark { generation: segment.id.generation, ..begin };
        self.grant(tail, operations, begin, first, Vec::new(), granted).map(Some)
    }

    /// The record goes on in other segments, or begins in the next.
    fn reserve_over_segments(
        &self,
        operations: u32,
        body_bytes: u32,
        granted: &mut impl FnMut(LogMark, SeqNo),
    ) -> Result<Reservation<'_>> {
        let mut parts = Vec::with_capacity(3 + (body_bytes / self.options.segment_bytes) as usize);
        let at_once = {
            let mut tail = self.lock_tail();
            // Nobody takes a spare past those who wait for one.
            if tail.supply.waiting.is_empty() {
                self.try_reserve(&mut tail, operations, body_bytes, &mut parts, granted)?
            } else {
                self.reserve_in_tail(&mut tail, operations, body_bytes, granted)?
            }
        };
        if let Some(reservation) = at_once {
            return Ok(reservation);
        }
        let started_ns = self.environment.clock.now_ns();
        let reservation = self.reserve_when_supplied(operations, body_bytes, &mut parts, granted);
        self.metrics.stalls_log.record(self.environment.clock.now_ns().saturating_sub(started_ns));
        reservation
    }

    /// Waits for the preparer, in turn: a record of many segments needs them all at one instant, so what is prepared
    /// for it must not go to smaller ones that came later. The failure of an attempt that ended after this call began
    /// is this call's, too, once it is its turn.
    fn reserve_when_supplied(
        &self,
        operations: u32,
        body_bytes: u32,
        parts: &mut Vec<Part>,
        granted: &mut impl FnMut(LogMark, SeqNo),
    ) -> Result<Reservation<'_>> {
        let (turn, failures) = {
            let supply = &mut self.lock_tail().supply;
            supply.failed = false;
            (supply.join_waiting(), supply.failures)
        };
        self.wanted.notify_all();
        let result = self.environment.wait_until(&self.supplied, || {
            if self.is_ended() {
                return Some(Err(self.health.check().err().unwrap_or(Error::Closed)));
            }
            let mut tail = self.lock_tail();
            if tail.supply.waiting.front() != Some(&turn) {
                return self.reserve_in_tail(&mut tail, operations, body_bytes, granted).transpose();
            }
            match self.try_reserve(&mut tail, operations, body_bytes, parts, granted).transpose() {
                Some(done) => return Some(done),
                None if tail.supply.failures > failures => {
                    return Some(Err(tail.supply.last_failure.clone().unwrap_or(Error::Closed)));
                }
                None => {}
            }
            drop(tail);
            self.wanted.notify_all();
            None
        });
        let others_wait = self.lock_tail().supply.leave_waiting(turn);
        if others_wait {
            self.supplied.notify_all();
        }
        result
    }

    /// `None`: more segments are needed, and asked for.
    fn try_reserve(
        &self,
        tail: &mut Tail,
        operations: u32,
        body_bytes: u32,
        parts: &mut Vec<Part>,
        granted: &mut impl FnMut(LogMark, SeqNo),
    ) -> Result<Option<Reservation<'_>>> {
        let supply = &mut tail.supply;
        let begin = match plan(&tail.segment, tail.offset, body_bytes, supply, parts) {
            Ok(begin) => begin,
            Err(needed) => {
                if tail.is_closed {
                    return Err(Error::Closed);
                }
                supply.wanted = supply.wanted.max(needed);
                return Ok(None);
            }
        };
        let mut parts = std::mem::take(parts).into_iter();
        let Some(first) = parts.next() else { unreachable!("a plan has a part") };
        self.grant(tail, operations, begin, first, parts.collect(), granted).map(Some)
    }

    /// Gives out what was planned: place, sequence numbers and ticket at once.
    #[inline]
    fn grant(
        &self,
        tail: &mut Tail,
        operations: u32,
        begin: LogMark,
        first: Part,
        others: Vec<Part>,
        granted: &mut impl FnMut(LogMark, SeqNo),
    ) -> Result<Reservation<'_>> {
        if tail.is_closed {
            return Err(Error::Closed);
        }
        let last_seq = SeqNo(tail.last_seq.0.saturating_add(u64::from(operations)));
        if last_seq > SeqNo::MAX {
            return Err(Error::invalid_input("all sequence numbers are used"));
        }
        let first_seq = SeqNo(tail.last_seq.0 + 1);
        let mark = LogMark { seq: tail.last_seq, ..begin };
        for part in &others {
            tail.take_spare(&part.segment, self.environment.clock.now_ns());
        }
        if !others.is_empty() {
            self.count_backlog(tail);
        }
        tail.offset = others.last().map_or(first.to, |last| last.to);
        tail.last_seq = last_seq;
        let ticket = tail.next_ticket;
        tail.next_ticket += 1;
        let id = tail.segment.id;
        let end =
            LogMark { position: LogPosition::new(id.index, tail.offset), generation: id.generation, seq: last_seq };
        let synced = if planted(Bug::SyncedOffsetFromPublished) { self.published_before(mark) } else { self.durable() };
        debug_assert!(synced <= mark.position, "the frontier is behind what is reserved");
        let is_published = false;
        granted(mark, first_seq);
        Ok(Reservation { log: self, ticket, first_seq, operations, mark, end, synced, first, others, is_published })
    }

    /// Copies the record into its place; `is_synced`: a sync of it follows at once. An error, where the copy is no
    /// store to a mapping, poisons the database.
    pub(crate) fn copy_in(&self, reservation: &Reservation<'_>, record: &Record, is_synced: bool) -> Result<()> {
        self.environment.point(Point::Reserved);
        assert_eq!(record.count(), reservation.operations, "a reservation is for one record");
        let header = RecordHeader {
            first_seq: reservation.first_seq,
            operations: record.count(),
            synced: reservation.synced,
            body_bytes: record.body().len() as u32,
            body_crc: record.body_crc(),
        };
        self.copy_part(&reservation.first, &header, record.body(), is_synced)?;
        for part in &reservation.others {
            self.copy_part(part, &header, record.body(), is_synced)?;
        }
        self.environment.point(Point::Copied);
        Ok(())
    }

    fn copy_part(&self, part: &Part, header: &RecordHeader, body: &[u8], is_synced: bool) -> Result<()> {
        // The sync before this one has write-protected the page, so a store would fault: more work than a system call
        // (`docs/log.md` has what was measured).
        if let Some(mapping) = part.segment.mapping().filter(|_| !is_synced) {
            let mut offset = part.from;
            part.lay_out(header, body, |bytes| {
                mapping.write(u64::from(offset), bytes);
                if offset == part.from {
                    self.environment.point(Point::Copying);
                }
                offset += bytes.len() as u32;
            });
        } else {
            let mut bytes = Vec::with_capacity((part.to - part.from) as usize);
            part.lay_out(header, body, |piece| bytes.extend_from_slice(piece));
            part.segment.write(part.from, &bytes).map_err(|error| self.health.poison(error))?;
        }
        self.metrics.log_written_bytes.add(u64::from(part.to - part.from));
        Ok(())
    }

    pub(super) fn lock_tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `seal` with the last sequence number reserved so far, while nothing can be reserved. `seal` must not call
    /// the log and must not wait.
    pub(crate) fn at_seal_point<T>(&self, seal: impl FnOnce(SeqNo) -> T) -> T {
        let tail = self.lock_tail();
        seal(tail.last_seq)
    }
}

/// Lays a record out from `offset` of `segment` on, over as many spares as it needs; the mark of its first fragment
/// (without the sequence number), or how many spares it needs when there are too few.
fn plan(
    segment: &Arc<Segment>,
    offset: u32,
    body_bytes: u32,
    supply: &mut Supply,
    parts: &mut Vec<Part>,
) -> std::result::Result<LogMark, usize> {
    parts.clear();
    let (mut segment, mut from, mut done, mut begun) = (segment, offset, 0, false);
    let mut mark = LogMark::default();
    for next in supply.spares.iter().map(Some).chain([None]) {
        let first_done = done;
        let (to, is_whole) = place(&mut done, &mut begun, from, body_bytes, segment.bytes);
        if begun && mark.position == LogPosition::default() {
            let position = LogPosition::new(segment.id.index, from);
            mark = LogMark { position, generation: segment.id.generation, seq: SeqNo(0) };
        }
        let successor = if is_whole { None } else { next };
        parts.push(Part {
            segment: Arc::clone(segment),
            from,
            to: if is_whole { to } else { to + SEAL_FRAGMENT_BYTES },
            body_from: first_done,
            body_to: done,
            successor: successor.map(|next| next.id),
        });
        match successor {
            _ if is_whole => return Ok(mark),
            Some(next) => (segment, from) = (next, HEADER_BYTES),
            None => break,
        }
    }
    supply.sizing.asked_for(body_bytes - done);
    let mut needed = supply.spares.len();
    loop {
        needed += 1;
        if place(&mut done, &mut begun, HEADER_BYTES, body_bytes, supply.sizing.next()).1 {
            return Err(needed);
        }
    }
}

/// Goes through the fragments that fit a segment from `offset` on; where they end, and whether the record does.
fn place(done: &mut u32, begun: &mut bool, mut offset: u32, body_bytes: u32, segment_bytes: u32) -> (u32, bool) {
    while let Some(piece) = Piece::at(offset, body_bytes - *done, *begun, segment_bytes) {
        offset = settle(offset + piece.bytes());
        *done += piece.body_bytes;
        *begun = true;
        if piece.is_end() {
            return (offset, true);
        }
    }
    (offset, false)
}

impl Part {
    /// Gives the bytes of this part to `put`, piece after piece, without gaps.
    #[inline]
    fn lay_out(&self, header: &RecordHeader, body: &[u8], mut put: impl FnMut(&[u8])) {
        let id = self.segment.id;
        let (mut offset, mut done) = (self.from, self.body_from);
        // A part in which the record does not begin or go on is only a seal.
        let mut begun = done > 0;
        while done < self.body_to {
            let Some(piece) = Piece::at(offset, header.body_bytes - done, begun, self.segment.bytes) else {
                break;
            };
            let end = done + piece.body_bytes;
            put(Head::of_piece(id, offset, piece, header).as_slice());
            put(body.get(done as usize..end as usize).unwrap_or(&[]));
            let written = offset + piece.bytes();
            let settled = settle(written);
            if settled > written {
                // A recycled segment holds other bytes here.
                put(PADDING.get(..(settled - written) as usize).unwrap_or(&PADDING));
            }
            (offset, done, begun) = (settled, end, true);
        }
        if let Some(successor) = self.successor {
            let seal = Seal { successor, next_seq: header.first_seq, synced: header.synced };
            put(seal.encode(id, offset).as_slice());
            offset += SEAL_FRAGMENT_BYTES;
        }
        assert_eq!(offset, self.to, "a part fills what was reserved for it");
        assert_eq!(done, self.body_to, "a part holds its share of the body");
    }
}
