//! [`Syncs`]: the syncs that were issued, and the groups of callers that they cover. Pure.

use crate::format::LogPosition;
use crate::runtime::Event;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many syncs may be in flight, and how many handles a segment has.
pub(super) const IN_FLIGHT_MAX: usize = 2;

/// The syncs in the order of issue, from the first one that is not behind the frontier.
#[derive(Default)]
pub(super) struct Syncs {
    pub(super) issued: VecDeque<Issued>,
    pub(super) next_number: u64,
    /// The callers that the next sync will cover.
    pub(super) next_group: Group,
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

    /// Returns a handle for a next group of `members`, if it may be led.
    pub(super) fn free_handle(&self, members: usize) -> Option<usize> {
        let largest = self.in_flight().map(|issued| issued.group.members).max().unwrap_or(0);
        let is_free = |handle: &usize| !self.in_flight().any(|issued| issued.handle == *handle);
        (0..IN_FLIGHT_MAX).find(is_free).filter(|_| members >= largest)
    }
}
