//! [`Syncs`]: the syncs that were issued, and the groups of callers that they cover. Pure.

use crate::format::LogPosition;
use crate::runtime::Event;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many syncs may be in flight, and how many handles a segment has.
pub(super) const IN_FLIGHT_MAX: usize = 2;

/// The syncs in the order of issue, from the first one that the frontier has not passed.
#[derive(Default)]
pub(super) struct Syncs {
    pub(super) issued: VecDeque<Issued>,
    pub(super) next_number: u64,
    /// The callers that the next sync will cover.
    pub(super) next_group: Group,
    /// The last sync that a coroutine ran, whichever it was.
    pub(super) last_in_background: Option<RunSync>,
}

/// A sync that a coroutine ran or waited for. Without a ring it kept the worker of the log busy.
#[derive(Clone, Copy)]
pub(super) struct RunSync {
    pub(super) issued_ns: u64,
    /// Whether there were newer records at its end.
    pub(super) was_outrun: bool,
}

impl RunSync {
    /// Returns how long a record may have waited at `now_ns`, if the log's worker sees only then that it is not
    /// durable.
    ///
    /// The record may have been published right after this sync was issued, while the worker was busy. But if a whole
    /// interval has passed and no record came during the sync, the record is new: the worker was free, and the first
    /// record woke it.
    pub(super) fn waited_ns(self, now_ns: u64, interval_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.issued_ns);
        if self.was_outrun || passed_ns < interval_ns { passed_ns } else { 0 }
    }
}

/// The callers that one sync covers.
#[derive(Clone, Default)]
pub(super) struct Group {
    pub(super) woken: Arc<Event>,
    /// How many threads and coroutines have joined. Once the sync is issued this includes the leader and the callbacks.
    pub(super) members: usize,
}

/// A sync that was issued.
pub(super) struct Issued {
    pub(super) number: u64,
    pub(super) to: LogPosition,
    pub(super) handle: usize,
    pub(super) is_done: bool,
    pub(super) group: Group,
}

impl Syncs {
    /// Returns the syncs that have not ended.
    fn in_flight(&self) -> impl Iterator<Item = &Issued> {
        self.issued.iter().filter(|issued| !issued.is_done)
    }

    /// Returns a free handle for the sync of a next group of `members`, if one of them may lead it.
    pub(super) fn free_handle(&self, members: usize) -> Option<usize> {
        let largest = self.in_flight().map(|issued| issued.group.members).max().unwrap_or(0);
        let is_free = |handle: &usize| !self.in_flight().any(|issued| issued.handle == *handle);
        (0..IN_FLIGHT_MAX).find(is_free).filter(|_| members >= largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No reads of the clock lie between: intervals of 100.
    #[test]
    fn a_record_has_waited_since_the_last_sync_at_most() {
        let waited = |was_outrun, now_ns| RunSync { issued_ns: 1_000, was_outrun }.waited_ns(now_ns, 100);
        assert_eq!(waited(false, 1_060), 60, "it may have come right after the issue");
        assert_eq!(waited(false, 1_100), 0, "the worker was free when it came");
        assert_eq!(waited(true, 1_060), 60);
        assert_eq!(waited(true, 1_160), 160, "it came while the sync was in flight");
    }
}
