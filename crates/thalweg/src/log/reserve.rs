//! [`Reservation`]: a record's place in the log and in the order of writes.
//!
//! Under the lock of the [`Tail`] there is only arithmetic: encoding and checksums come before it, the copy
//! ([`super::write`]) comes after it. A reservation may end segments; then the copy writes their seals, too. Sequence
//! numbers, places and tickets are given out together, so all three have one order.

use super::layout::{Part, place, plan};
use super::open::Log;
use super::record::Record;
use super::tail::Tail;
use crate::error::{Error, Result};
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::sync::MutexGuard;
use std::sync::Arc;

/// A record that needs more segments than this is refused.
const SEGMENTS_A_RECORD_MAX: u32 = 256;

/// After this many bytes of a segment the log checks whether callers still often wait for syncs.
const LOOK_BYTES: u32 = 64 << 10;

/// A place in the log and in the order of writes. It must be published: dropping it unpublished poisons the database.
pub(crate) struct Reservation<'a> {
    log: &'a Log,
    pub(super) ticket: u64,
    first_seq: SeqNo,
    pub(super) operations: u32,
    mark: LogMark,
    /// The boundary after the record.
    pub(super) end: LogMark,
    pub(super) synced: LogPosition,
    /// The first part. Nearly every record has only this one, which needs no allocation.
    pub(super) first: Part,
    pub(super) others: Vec<Part>,
    pub(super) is_published: bool,
}

impl Reservation<'_> {
    /// Returns the sequence number of the first operation; the others follow.
    pub(crate) fn first_seq(&self) -> SeqNo {
        self.first_seq
    }
    /// Returns where the record begins. The log is needed from here while an operation of the record is only in a
    /// memtable.
    pub(crate) fn mark(&self) -> LogMark {
        self.mark
    }
    /// Returns where the record ends. A `sync` up to here makes it durable.
    pub(crate) fn end(&self) -> LogPosition {
        self.end.position
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            // Later records would wait for this one without end, and a replay would stop here.
            self.log.count_given_up();
            self.log.health.poison(Error::internal("a write was given up after its log space was reserved"));
        }
    }
}

impl Log {
    /// Does what [`Log::reserve_and`] does, without `granted`.
    #[cfg(test)]
    pub(crate) fn reserve(&self, record: &Record) -> Result<Reservation<'_>> {
        self.reserve_and(record, |_, _| ())
    }

    /// Reserves space and sequence numbers. Waits for a free segment; returns `NoSpace` when none can be prepared.
    /// Calls `granted` with the record's beginning and its first number, before anything else can be reserved.
    /// `granted` must not call the log and must not wait.
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
        // One segment more than the body needs is allowed, for headers and for the rest of the tail.
        if body_bytes / segment_bytes >= SEGMENTS_A_RECORD_MAX {
            return Err(too_large());
        }
        self.health.check()?;
        let (reservation, is_due) = {
            let tail = &mut *self.lock_tail();
            let before = tail.offset;
            let reservation = self.reserve_in_tail(tail, record.count(), body_bytes, &mut granted)?;
            if before / LOOK_BYTES != tail.offset / LOOK_BYTES {
                self.look_at_demand(&mut tail.supply);
            }
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

    /// Reserves in the segment in use, the common case. `None`: the record does not fit there.
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

    /// Reserves a record that reaches into other segments, or begins in the next one.
    fn reserve_over_segments(
        &self,
        operations: u32,
        body_bytes: u32,
        granted: &mut impl FnMut(LogMark, SeqNo),
    ) -> Result<Reservation<'_>> {
        let mut parts = Vec::with_capacity(3 + (body_bytes / self.options.segment_bytes) as usize);
        let at_once = {
            let mut tail = self.lock_tail();
            // Writers that wait for spares come first.
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

    /// Waits for the preparer and the populater, in turn. A record of many segments needs them all at one instant, so
    /// smaller records that came later must not take them. If a preparation fails after this call began, the call
    /// returns that failure once it is its turn and no prepared segment is left.
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
                // The populater is about to give out those that are prepared.
                None if tail.supply.failures > failures && tail.supply.unpopulated.is_empty() => {
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

    /// Reserves with the spares that are ready. If more are needed, requests them and returns `None`.
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

    /// Gives out place, sequence numbers and ticket together.
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
            self.look_at_demand(&mut tail.supply);
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

    pub(super) fn lock_tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// Calls `seal` with the last reserved sequence number while no record can be reserved: a memtable is sealed there.
    /// `seal` must not call the log and must not wait.
    pub(crate) fn at_seal_point<T>(&self, seal: impl FnOnce(SeqNo) -> T) -> T {
        let tail = self.lock_tail();
        seal(tail.last_seq)
    }
}
