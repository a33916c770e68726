//! [`SnapshotRegistry`]: the sequence numbers readers are pinned at, which compactions must keep readable.
//!
//! Registering reads the visible number under the registry's lock, and a compaction reads visible number and list
//! under the same lock: so every later snapshot is at or above the visible number the compaction kept.

use crate::format::SeqNo;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    pinned: Mutex<BTreeMap<SeqNo, usize>>,
}

/// A registered snapshot, until dropped.
#[derive(Debug)]
pub(crate) struct SnapshotSeq {
    registry: Arc<SnapshotRegistry>,
    seq: SeqNo,
}

impl SnapshotRegistry {
    /// Pins what is visible now.
    pub(crate) fn pin(self: &Arc<Self>, visible: impl FnOnce() -> SeqNo) -> SnapshotSeq {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = visible();
        *pinned.entry(seq).or_insert(0) += 1;
        SnapshotSeq { registry: Arc::clone(self), seq }
    }

    /// The numbers that must stay readable: those pinned and, last, the visible one; ascending.
    pub(crate) fn boundaries(&self, visible: impl FnOnce() -> SeqNo) -> Vec<SeqNo> {
        let pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let visible = visible();
        let mut boundaries: Vec<SeqNo> = pinned.keys().copied().filter(|seq| *seq < visible).collect();
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
        let mut pinned = self.registry.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = pinned.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                pinned.remove(&self.seq);
            }
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
}
