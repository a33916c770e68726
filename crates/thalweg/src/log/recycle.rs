//! Releases segments that are not needed any more: their slots go to the supply.
//!
//! A segment may be released when it lies before the mark of [`Log::let_go`] and before every pin, strictly oldest
//! first. Records before that mark are durable in tables, even if they never were durable in the log. So the durable
//! frontier also moves to the mark. Locks: the tail's, never over I/O.

use super::open::Log;
use super::tail::Tail;
use crate::format::{EditId, LogMark, LogPosition};
use crate::planted::{Bug, planted};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Keeps segments from being recycled, until it is dropped.
pub(crate) struct LogPin {
    log: Arc<Log>,
    index: u32,
}

impl Drop for LogPin {
    fn drop(&mut self) {
        {
            let pins = &mut self.log.lock_tail().supply.pins;
            if let Some(count) = pins.get_mut(&self.index) {
                *count -= 1;
            }
            pins.retain(|_, count| *count > 0);
        }
        self.log.recycle_what_may_be();
    }
}

impl Log {
    /// Releases the records before `mark`, and recycles segments. The edit with this start of the log must be settled.
    pub(crate) fn let_go(&self, mark: LogMark) {
        self.advance_frontier_to(mark.position);
        {
            let published = self.published().position.segment();
            let mut tail = self.lock_tail();
            tail.supply.let_go_before = tail.supply.let_go_before.max(mark.position.segment());
            if planted(Bug::SegmentRecycledEarly) {
                tail.supply.let_go_before = published;
            }
            self.count_backlog(&tail);
        }
        self.recycle_what_may_be();
    }

    /// Keeps every segment from `mark` on until the pin is dropped. Segments released before are not brought back.
    pub(crate) fn pin(self: &Arc<Self>, mark: LogMark) -> LogPin {
        let index = mark.position.segment();
        *self.lock_tail().supply.pins.entry(index).or_default() += 1;
        LogPin { log: Arc::clone(self), index }
    }

    /// Sets the last settled edit, for the headers of new segments.
    pub(crate) fn set_settled(&self, edit: EditId) {
        self.settled.fetch_max(edit.0, Ordering::Relaxed);
    }

    /// Returns the bytes of segments that are not let go. Every write calls this, so it takes no lock.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Stores the backlog after a change of the segments in use.
    pub(super) fn count_backlog(&self, tail: &Tail) {
        self.backlog.store(tail.backlog_bytes(), Ordering::Relaxed);
    }

    /// Returns the number of segments that are not released, including the one in use.
    pub(crate) fn segments(&self) -> usize {
        self.lock_tail().segments.len()
    }

    /// Returns the bytes of the segments from index `segment` on.
    pub(crate) fn bytes_from(&self, segment: u32) -> u64 {
        self.lock_tail().segments.range(segment..).map(|(_, segment)| u64::from(segment.bytes)).sum()
    }

    /// Returns the bytes of the log from `position` on.
    pub(crate) fn bytes_since(&self, position: LogPosition) -> u64 {
        let tail = self.lock_tail();
        let segments: u64 = tail.segments.range(position.segment()..).map(|(_, it)| u64::from(it.bytes)).sum();
        let unused = tail.segment.bytes.saturating_sub(tail.offset);
        segments.saturating_sub(u64::from(unused)).saturating_sub(u64::from(position.offset()))
    }

    /// Moves all segments that may be released to the supply.
    pub(super) fn recycle_what_may_be(&self) {
        let released = {
            let mut tail = self.lock_tail();
            let released = tail.release();
            self.count_backlog(&tail);
            released
        };
        if !released.is_empty() {
            self.wanted.notify_all();
        }
    }
}
