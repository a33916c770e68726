//! [`Timers`]: wakers and the virtual times at which they are due.

use std::collections::BTreeMap;
use std::task::Waker;

/// The timers of a world. A timer is identified by its time and a number.
#[derive(Default)]
pub(crate) struct Timers {
    wakers: BTreeMap<(u64, u64), Waker>,
    next: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, deadline_ns: u64, waker: Waker) -> (u64, u64) {
        let key = (deadline_ns, self.next);
        self.next += 1;
        self.wakers.insert(key, waker);
        key
    }

    pub(crate) fn cancel(&mut self, key: (u64, u64)) -> Option<Waker> {
        self.wakers.remove(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }

    /// Takes the timers that are due at `now_ns`; with `jump` at least the earliest.
    pub(crate) fn take_due(&mut self, now_ns: u64, jump: bool) -> BTreeMap<(u64, u64), Waker> {
        let earliest = self.wakers.keys().next().map(|key| key.0).filter(|_| jump);
        let until_ns = earliest.map_or(now_ns, |deadline| deadline.max(now_ns));
        let later = self.wakers.split_off(&(until_ns.saturating_add(1), 0));
        std::mem::replace(&mut self.wakers, later)
    }
}
