//! Publishing: records become visible in the order in which they were reserved, each in one step.
//!
//! Invariant: everything before [`Published::mark`] was copied to the log and inserted by its writer. `visible` is the
//! mark's sequence number, readable without a lock. Locks: `published`, for a few instructions.
//!
//! A close waits until nobody is between a reservation and its end, whatever the health: such a writer stores into the
//! log's segments, and the database's lock must not be free for another process to open them. Nothing between a
//! reservation and its end waits or calls the user's code, so that wait is short, and the closing thread holds no
//! reservation itself.

use super::Log;
use super::reserve::Reservation;
use crate::error::Result;
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::Point;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// How often a writer looks whether the one before it is done before it falls asleep: some microseconds.
const TURNS_SPUN: usize = 200;

/// The contiguous prefix of published records.
pub(super) struct Published {
    /// The first ticket that is not published.
    next_ticket: u64,
    /// The boundary after the prefix.
    mark: LogMark,
    /// The ends of the records after that one, in the order of their tickets: of those that are done.
    done: VecDeque<Option<LogMark>>,
    /// Records that were given up after they were reserved.
    given_up: u64,
    /// A close waits for every record to be done or given up.
    is_awaited: bool,
}

impl Published {
    pub(super) fn new(mark: LogMark) -> Self {
        Published { next_ticket: 0, mark, done: VecDeque::new(), given_up: 0, is_awaited: false }
    }
    pub(super) fn position(&self) -> LogPosition {
        self.mark.position
    }
}

impl Log {
    pub(super) fn lock_published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the record visible, in sequence order: returns once it and all earlier records are.
    pub(crate) fn publish(&self, mut reservation: Reservation<'_>) -> Result<()> {
        self.environment.point(Point::Inserted);
        if planted(Bug::BatchSplit) {
            self.publish_half(&reservation);
        }
        reservation.is_published = true;
        let end = reservation.end;
        let (is_next, is_awaited) = {
            let mut published = self.lock_published();
            let is_next = published.take(reservation.ticket, end);
            if is_next {
                self.visible.store(published.mark.seq.0, Ordering::Release);
            }
            (is_next, published.is_awaited)
        };
        if is_next || is_awaited {
            self.advanced.notify_all();
        }
        if !is_next {
            self.wait_for_turn(end.seq)?;
        }
        self.environment.point(Point::Published);
        Ok(())
    }

    /// Returns once the record that ends at `seq` is visible: an earlier writer makes it so.
    fn wait_for_turn(&self, seq: SeqNo) -> Result<()> {
        // Mostly that writer runs right now on another core, and needs less time than it takes to fall asleep.
        for _ in 0..TURNS_SPUN {
            if self.visible() >= seq {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.environment
            .wait_until(&self.advanced, || if self.visible() >= seq { Some(Ok(())) } else { self.failure().map(Err) })
    }

    /// The planted bug: half of a batch is visible before the other half.
    fn publish_half(&self, reservation: &Reservation<'_>) {
        if self.lock_published().next_ticket != reservation.ticket || reservation.operations < 2 {
            return;
        }
        let half = reservation.first_seq().0 + u64::from(reservation.operations) / 2 - 1;
        self.visible.store(half, Ordering::Release);
        self.advanced.notify_all();
        self.environment.point(Point::Published);
    }

    /// The last sequence number up to which every record is published.
    pub(crate) fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// The boundary after the last record of the contiguous published prefix.
    pub(crate) fn published(&self) -> LogMark {
        self.lock_published().mark
    }

    /// Ends once everything up to `seq` is published.
    pub(crate) async fn until_visible(&self, seq: SeqNo) -> Result<()> {
        let condition = || if self.visible() >= seq { Some(Ok(())) } else { self.failure().map(Err) };
        self.environment.until(&self.advanced, condition).await
    }

    /// Waits until something behind `seq` is published; `false` when the log's coroutines are to end.
    pub(crate) async fn until_published_behind(&self, seq: SeqNo) -> bool {
        let condition = || (self.is_ended() || self.visible() > seq).then_some(());
        self.environment.until(&self.advanced, condition).await;
        !self.is_ended()
    }

    /// Sleeps, or ends sooner when the log's coroutines are to end.
    pub(crate) async fn sleep_unless_ended(&self, duration_ns: u64) {
        let ticket = self.ended.ticket();
        if !self.is_ended() {
            self.environment.sleep_or(duration_ns, &self.ended, ticket).await;
        }
    }

    /// Blocks until all records before `next_ticket` are published or given up; an error when not all are published.
    pub(super) fn wait_for_writers(&self, next_ticket: u64) -> Result<()> {
        self.lock_published().is_awaited = true;
        self.environment.wait_until(&self.advanced, || {
            if planted(Bug::LockFreedEarly)
                && let Some(error) = self.failure()
            {
                return Some(Err(error));
            }
            let (is_published, is_ended) = {
                let published = self.lock_published();
                (published.next_ticket >= next_ticket, published.ended() >= next_ticket)
            };
            match self.failure() {
                _ if is_published => Some(Ok(())),
                Some(error) if is_ended => Some(Err(error)),
                _ => None,
            }
        })
    }

    /// A record will never be published. To be told before the database is poisoned for it, which wakes a close.
    pub(super) fn count_given_up(&self) {
        self.lock_published().given_up += 1;
    }

    /// The published position, which for the planted bug stands in for the frontier.
    pub(super) fn published_before(&self, mark: LogMark) -> LogPosition {
        // The order of locks is published before tail, so only try: this runs under the tail's.
        self.published.try_lock().map_or(self.durable(), |published| published.position().min(mark.position))
    }
}

impl Published {
    /// Takes note that a record is done; whether it was the next, and so it and what waited for it are published.
    fn take(&mut self, ticket: u64, end: LogMark) -> bool {
        let Some(behind) = ticket.checked_sub(self.next_ticket) else {
            unreachable!("a record is published once");
        };
        if let Some(behind) = behind.checked_sub(1) {
            let behind = behind as usize;
            if self.done.len() <= behind {
                self.done.resize(behind + 1, None);
            }
            if let Some(done) = self.done.get_mut(behind) {
                *done = Some(end);
            }
            return false;
        }
        self.advance(end);
        // The first of `done` is the record after the next one, so each step shifts it by one.
        while let Some(done) = self.done.pop_front() {
            let Some(end) = done else { break };
            self.advance(end);
        }
        true
    }

    /// Records whose writers are done with the log: published, behind one that is not published, or given up.
    fn ended(&self) -> u64 {
        let behind = self.done.iter().filter(|done| done.is_some()).count() as u64;
        self.next_ticket + behind + self.given_up
    }

    fn advance(&mut self, end: LogMark) {
        self.next_ticket += 1;
        self.mark = end;
    }
}
