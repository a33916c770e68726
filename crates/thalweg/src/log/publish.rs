//! Publishing: records become visible in the order in which they were reserved, each in one step.
//!
//! Invariant: everything before [`Published::mark`] was copied to the log and inserted by its writer. `visible` is the
//! mark's sequence number, readable without a lock. Locks: `published`, for a few instructions.

use super::Log;
use super::reserve::Reservation;
use crate::error::Result;
use crate::format::{LogMark, LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::Point;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// The contiguous prefix of published records.
pub(super) struct Published {
    /// The first ticket that is not published.
    next_ticket: u64,
    /// The boundary after the prefix.
    mark: LogMark,
    /// Records that are done, behind one that is not.
    done: BTreeMap<u64, LogMark>,
}

impl Published {
    pub(super) fn new(mark: LogMark) -> Self {
        Published { next_ticket: 0, mark, done: BTreeMap::new() }
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
    pub(crate) fn publish(&self, mut reservation: Reservation) -> Result<()> {
        self.environment.point(Point::Inserted);
        if planted(Bug::BatchSplit) {
            self.publish_half(&reservation);
        }
        let ticket = reservation.ticket;
        reservation.is_published = true;
        let is_next = {
            let mut published = self.lock_published();
            assert!(published.next_ticket <= ticket, "a record is published once");
            let is_next = published.next_ticket == ticket;
            if is_next {
                published.advance(reservation.end);
                self.visible.store(published.mark.seq.0, Ordering::Release);
            } else {
                published.done.insert(ticket, reservation.end);
            }
            is_next
        };
        if is_next {
            self.advanced.notify_all();
        } else {
            self.environment.wait_until(&self.advanced, || {
                if self.lock_published().next_ticket > ticket {
                    return Some(Ok(()));
                }
                self.failure().map(Err)
            })?;
        }
        self.environment.point(Point::Published);
        Ok(())
    }

    /// The planted bug: half of a batch is visible before the other half.
    fn publish_half(&self, reservation: &Reservation) {
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

    /// Blocks until everything reserved is published.
    pub(super) fn wait_for_writers(&self, next_ticket: u64) -> Result<()> {
        self.environment.wait_until(&self.advanced, || {
            if self.lock_published().next_ticket >= next_ticket {
                return Some(Ok(()));
            }
            self.failure().map(Err)
        })
    }

    /// The published position, which for the planted bug stands in for the frontier.
    pub(super) fn published_before(&self, mark: LogMark) -> LogPosition {
        // The order of locks is published before tail, so only try: this runs under the tail's.
        self.published.try_lock().map_or(self.durable(), |published| published.position().min(mark.position))
    }
}

impl Published {
    /// Takes the next record, and all that were waiting for it.
    fn advance(&mut self, end: LogMark) {
        self.next_ticket += 1;
        self.mark = end;
        while let Some(end) = self.done.remove(&self.next_ticket) {
            self.next_ticket += 1;
            self.mark = end;
        }
    }
}
