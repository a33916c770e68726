//! [`Tail`]: where the next record goes, and the segments of the log. The lock of the log guards it.

use super::header::HEADER_BYTES;
use super::segment::Segment;
use super::supply::{Idle, Supply};
use crate::format::SeqNo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The remembered peak of the log's length shrinks by one segment each time this many segments are taken.
const PEAK_FADES_EVERY: u32 = 8;

/// The end of the log: where the next record goes.
pub(super) struct Tail {
    pub(super) segment: Arc<Segment>,
    /// The aligned offset in `segment` where the next fragment or seal goes.
    pub(super) offset: u32,
    pub(super) last_seq: SeqNo,
    pub(super) next_ticket: u64,
    /// No space may be reserved any more.
    pub(super) is_closed: bool,
    /// The segments of the log by index, up to the one in use.
    pub(super) segments: BTreeMap<u32, Arc<Segment>>,
    pub(super) supply: Supply,
}

impl Tail {
    /// A log whose only segment is `segment`.
    pub(super) fn new(segment: Arc<Segment>, last_seq: SeqNo, supply: Supply) -> Self {
        let segments = BTreeMap::from([(segment.id.index, Arc::clone(&segment))]);
        Tail { segment, offset: HEADER_BYTES, last_seq, next_ticket: 0, is_closed: false, segments, supply }
    }

    /// Closes the segments before index `durable`, which are not written or synced any more. Returns those that were
    /// open, to be dropped outside the lock.
    #[must_use]
    pub(super) fn close_before(&mut self, durable: u32) -> Vec<Arc<Segment>> {
        let durable = self.segments.range_mut(..durable.min(self.segment.id.index));
        durable.rev().map_while(|(_, segment)| close(segment)).collect()
    }

    /// Makes the oldest spare, `taken`, the segment in use.
    pub(super) fn take_spare(&mut self, taken: &Arc<Segment>, now_ns: u64) {
        let spare = self.supply.spares.pop_front();
        assert!(spare.is_some_and(|spare| spare.id == taken.id), "a record takes the oldest spares");
        self.segments.insert(taken.id.index, Arc::clone(taken));
        self.segment = Arc::clone(taken);
        self.supply.sizing.took(taken.bytes, now_ns);
        let fading = if taken.id.index.is_multiple_of(PEAK_FADES_EVERY) { u64::from(taken.bytes) } else { 0 };
        let in_use = self.segments.values().map(|segment| u64::from(segment.bytes)).sum();
        self.supply.peak_bytes = self.supply.peak_bytes.saturating_sub(fading).max(in_use);
    }

    /// Returns the bytes of the segments from the first one that flushes still need.
    pub(super) fn backlog_bytes(&self) -> u64 {
        self.segments.range(self.supply.let_go_before..).map(|(_, segment)| u64::from(segment.bytes)).sum()
    }

    /// Moves the segments that may be released to the supply. Returns them, to be dropped outside the lock. The drop
    /// unmaps and closes them.
    #[must_use]
    pub(super) fn release(&mut self) -> Vec<Arc<Segment>> {
        let supply = &mut self.supply;
        let pinned = supply.pins.keys().next().copied().unwrap_or(u32::MAX);
        let before = supply.let_go_before.min(pinned).min(self.segment.id.index);
        let mut released = Vec::new();
        while let Some(entry) = self.segments.first_entry().filter(|entry| *entry.key() < before) {
            let segment = entry.remove();
            let idle = Idle { path: segment.path.clone(), bytes: segment.bytes };
            if supply.sizing.is_too_small(idle.bytes) {
                supply.useless.push((idle.path, None));
            } else {
                supply.free.push_back(idle);
            }
            released.push(segment);
        }
        if !released.is_empty() {
            // The released slots are room for new segments, even on a full disk.
            supply.failed = false;
        }
        released
    }
}

/// Replaces an open segment by a closed one. Returns the open one, to be dropped outside the lock.
fn close(segment: &mut Arc<Segment>) -> Option<Arc<Segment>> {
    let closed = || Arc::new(Segment::closed(segment.path.clone(), segment.id, segment.bytes));
    (!segment.is_closed()).then(closed).map(|closed| std::mem::replace(segment, closed))
}
