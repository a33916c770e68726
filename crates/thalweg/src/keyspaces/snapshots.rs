//! [`SnapshotRegistry`]: the sequence numbers that readers have pinned, which flushes and compactions keep readable.
//!
//! A reader registers the visible number under the registry's lock. A compaction reads the visible number and the list
//! under the same lock. So every later snapshot is at or above the visible number that the compaction kept, numbers are
//! pinned in ascending order, and a queue is enough.
//!
//! Invariants of the queue: numbers ascend; the first and the last are pinned; at most half of the others are not.

use crate::format::SeqNo;
use crate::runtime::Event;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    pinned: Mutex<Pinned>,
    /// Whether the return of a snapshot notifies `returned`.
    is_awaited: AtomicBool,
    events: OnceLock<ReturnEvents>,
}

/// The events that the return of a snapshot notifies.
#[derive(Debug)]
struct ReturnEvents {
    /// Notified when any snapshot returns, if that is turned on.
    returned: Arc<Event>,
    /// Notified when the last snapshot returns that does not see a number which [`SnapshotRegistry::all_see`] denied.
    passed: Arc<Event>,
}

#[derive(Debug, Default)]
struct Pinned {
    /// Numbers, and how many snapshots each has: 0 for some whose snapshots were all given back.
    counts: VecDeque<(SeqNo, usize)>,
    /// How many of them are 0.
    given_back: usize,
    /// The least number that [`SnapshotRegistry::all_see`] has denied.
    awaited: Option<SeqNo>,
}

impl Pinned {
    /// Whether no pinned number is below `seq`.
    fn all_see(&self, seq: SeqNo) -> bool {
        self.counts.front().is_none_or(|(oldest, _)| seq <= *oldest)
    }

    fn pin(&mut self, seq: SeqNo) {
        match self.counts.back_mut() {
            Some((last, count)) if *last == seq => *count += 1,
            last => {
                assert!(last.is_none_or(|(last, _)| *last < seq), "what is visible does not go back");
                self.counts.push_back((seq, 1));
            }
        }
    }

    fn give_back(&mut self, seq: SeqNo) {
        // Most snapshots are short-lived: their number is the last one, or near it.
        let Some(at) = self.counts.iter().rposition(|(other, _)| *other <= seq) else { return };
        let Some((_, count)) = self.counts.get_mut(at).filter(|(other, count)| *other == seq && *count > 0) else {
            return;
        };
        *count -= 1;
        self.given_back += usize::from(*count == 0);
        while self.counts.front().is_some_and(|(_, count)| *count == 0) {
            self.counts.pop_front();
            self.given_back -= 1;
        }
        while self.counts.back().is_some_and(|(_, count)| *count == 0) {
            self.counts.pop_back();
            self.given_back -= 1;
        }
        if self.given_back > self.counts.len() / 2 {
            self.counts.retain(|(_, count)| *count > 0);
            self.given_back = 0;
        }
    }
}

/// A registered snapshot, until dropped.
#[derive(Debug)]
pub(crate) struct SnapshotSeq {
    registry: Arc<SnapshotRegistry>,
    seq: SeqNo,
}

impl SnapshotRegistry {
    /// Pins the number that is visible now.
    pub(crate) fn pin(self: &Arc<Self>, visible: impl FnOnce() -> SeqNo) -> SnapshotSeq {
        let mut pinned = self.pinned.lock();
        let seq = visible();
        pinned.pin(seq);
        SnapshotSeq { registry: Arc::clone(self), seq }
    }

    /// Sets the events that the return of a snapshot notifies. `returned`: the return of any snapshot, if that is
    /// turned on. `passed`: a return after which all snapshots see a number that [`SnapshotRegistry::all_see`] denied.
    pub(crate) fn notify_on_return(&self, returned: Arc<Event>, passed: Arc<Event>) {
        let _ = self.events.set(ReturnEvents { returned, passed });
    }

    /// Turns the notifications of `returned` on or off. Turned on before [`SnapshotRegistry::boundaries`], they miss no
    /// return.
    pub(crate) fn notify_returns(&self, notify: bool) {
        self.is_awaited.store(notify, Ordering::SeqCst);
    }

    pub(crate) fn notifies_returns(&self) -> bool {
        self.is_awaited.load(Ordering::SeqCst)
    }

    /// Whether all snapshots, of now and later, see everything up to `seq`, which is visible. If not, the event
    /// `passed` is notified when they do.
    pub(crate) fn all_see(&self, seq: SeqNo) -> bool {
        let mut pinned = self.pinned.lock();
        let all_see = pinned.all_see(seq);
        if !all_see {
            pinned.awaited = Some(pinned.awaited.map_or(seq, |awaited| awaited.min(seq)));
        }
        all_see
    }

    /// The numbers that must stay readable: those pinned and, last, the visible one; ascending.
    pub(crate) fn boundaries(&self, visible: impl FnOnce() -> SeqNo) -> Vec<SeqNo> {
        let pinned = self.pinned.lock();
        let visible = visible();
        let counts = pinned.counts.iter().filter(|(seq, count)| *count > 0 && *seq < visible);
        let mut boundaries: Vec<SeqNo> = counts.map(|(seq, _)| *seq).collect();
        boundaries.push(visible);
        boundaries
    }
}

impl SnapshotSeq {
    pub(crate) fn seq(&self) -> SeqNo {
        self.seq
    }
}

impl Drop for SnapshotSeq {
    fn drop(&mut self) {
        let has_passed = {
            let mut pinned = self.registry.pinned.lock();
            pinned.give_back(self.seq);
            let has_passed = pinned.awaited.is_some_and(|awaited| pinned.all_see(awaited));
            if has_passed {
                pinned.awaited = None;
            }
            has_passed
        };
        let Some(events) = self.registry.events.get() else { return };
        if self.registry.notifies_returns() {
            events.returned.notify_all();
        }
        if has_passed {
            events.passed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_the_pinned_numbers_and_the_visible_one() {
        let registry = Arc::new(SnapshotRegistry::default());
        let first = registry.pin(|| SeqNo(3));
        let again = registry.pin(|| SeqNo(3));
        let second = registry.pin(|| SeqNo(7));
        assert_eq!(registry.boundaries(|| SeqNo(9)), [SeqNo(3), SeqNo(7), SeqNo(9)]);
        drop(first);
        assert_eq!(registry.boundaries(|| SeqNo(7)), [SeqNo(3), SeqNo(7)]);
        drop((again, second));
        assert_eq!(registry.boundaries(|| SeqNo(9)), [SeqNo(9)]);
    }

    #[test]
    fn numbers_given_back_in_any_order_take_no_room() {
        let registry = Arc::new(SnapshotRegistry::default());
        let oldest = registry.pin(|| SeqNo(1));
        let mut held = Vec::new();
        let mut state = 1u64;
        for seq in 2..5000 {
            held.push(registry.pin(|| SeqNo(seq)));
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            if held.len() > 20 {
                held.swap_remove((state >> 33) as usize % 20);
            }
            let mut expected: Vec<SeqNo> = held.iter().map(SnapshotSeq::seq).collect();
            expected.extend([SeqNo(1), SeqNo(seq + 1)]);
            expected.sort();
            assert_eq!(registry.boundaries(|| SeqNo(seq + 1)), expected);
            assert!(registry.pinned.lock().counts.len() <= 2 * held.len() + 2);
        }
        drop((oldest, held));
        assert!(registry.pinned.lock().counts.is_empty());
    }
}
