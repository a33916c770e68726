//! Publishing: records become visible in the order in which they were reserved, each in one step.
//!
//! Invariant: everything before the mark of [`Published`] was copied to the log and inserted by its writer. `visible`
//! is the mark's sequence number, readable without a lock. Locks: `published`, for a few instructions.
//!
//! A close waits until no writer is between a reservation and its end, even if the database is poisoned, because such a
//! writer stores into the segments. If the database's lock were released earlier, another process could open the
//! segments. Between a reservation and its end no writer waits or calls the user's code, so the close waits only
//! briefly. The closing thread holds no reservation itself.

use super::open::Log;
use super::published::Published;
use super::reserve::Reservation;
use crate::error::Result;
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::Point;
use crate::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// How often a writer checks whether its predecessor is done before it sleeps. All checks take some microseconds.
const TURNS_SPUN: usize = 200;

impl Log {
    pub(super) fn lock_published(&self) -> MutexGuard<'_, Published> {
        self.published.lock()
    }

    /// Makes the record visible, in sequence order. Returns once it and all earlier records are visible.
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

    /// Waits until the record that ends at `seq` is visible. The writer of an earlier record makes it visible.
    fn wait_for_turn(&self, seq: SeqNo) -> Result<()> {
        // The other writer usually runs on another core, and is done before this one could fall asleep.
        for _ in 0..TURNS_SPUN {
            if self.visible() >= seq {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.environment
            .wait_until(&self.advanced, || if self.visible() >= seq { Some(Ok(())) } else { self.failure().map(Err) })
    }

    /// The planted bug: makes half of a batch visible before the other half.
    fn publish_half(&self, reservation: &Reservation<'_>) {
        if self.lock_published().next_ticket != reservation.ticket || reservation.operations < 2 {
            return;
        }
        let half = reservation.first_seq().0 + u64::from(reservation.operations) / 2 - 1;
        self.visible.store(half, Ordering::Release);
        self.advanced.notify_all();
        self.environment.point(Point::Published);
    }

    /// Returns the last sequence number up to which every record is published.
    pub(crate) fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Returns the boundary after the contiguous prefix of published records.
    pub(crate) fn published(&self) -> LogMark {
        self.lock_published().mark
    }

    /// Waits until everything up to `seq` is published.
    pub(crate) async fn until_visible(&self, seq: SeqNo) -> Result<()> {
        let condition = || if self.visible() >= seq { Some(Ok(())) } else { self.failure().map(Err) };
        self.environment.until(&self.advanced, condition).await
    }

    /// Waits until a record after `seq` is published. Returns `false` when the log's coroutines are to end.
    pub(crate) async fn until_published_behind(&self, seq: SeqNo) -> bool {
        let condition = || (self.is_ended() || self.visible() > seq).then_some(());
        self.environment.until(&self.advanced, condition).await;
        !self.is_ended()
    }

    /// Sleeps for `duration_ns`, or until the log's coroutines are to end.
    pub(crate) async fn sleep_unless_ended(&self, duration_ns: u64) {
        let ticket = self.ended.ticket();
        if !self.is_ended() {
            self.environment.sleep_or(duration_ns, &self.ended, ticket).await;
        }
    }

    /// Blocks until all records before `next_ticket` are published or given up. Returns an error if not all are
    /// published.
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

    /// Notes that a record will never be published. Must be called before the database is poisoned for this record,
    /// because the poisoning wakes a close.
    pub(super) fn count_given_up(&self) {
        self.lock_published().given_up += 1;
    }

    /// Returns the published position. A planted bug uses it as the durable frontier.
    pub(super) fn published_before(&self, mark: LogMark) -> LogPosition {
        // The caller holds the tail's lock, and the order is published before tail. So this only tries.
        self.published.try_lock().map_or(self.durable(), |published| published.position().min(mark.position))
    }
}
