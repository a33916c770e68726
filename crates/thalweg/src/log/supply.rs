//! [`Supply`]: the segments and slots from which new segments come.

use super::demand::Demand;
use super::forgetting::Forgetting;
use super::header::SegmentId;
use super::segment::Segment;
use super::sizing::Sizing;
use crate::error::Error;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

/// A slot that may be used again.
pub(super) struct Idle {
    pub(super) path: PathBuf,
    pub(super) bytes: u32,
}

/// Spare segments, idle slots, and the state that decides how many there are.
pub(super) struct Supply {
    pub(super) sizing: Sizing,
    pub(super) demand: Demand,
    pub(super) forgetting: Forgetting,
    /// Segments that are ready, in the order of their indexes.
    pub(super) spares: VecDeque<Arc<Segment>>,
    /// Segments that are durable, but whose pages are not ready for stores yet. Their indexes follow those of `spares`.
    /// The populater makes them ready, one after the other.
    pub(super) unpopulated: VecDeque<Arc<Segment>>,
    /// How many spares the first waiting record needs.
    pub(super) wanted: usize,
    /// The turns of the writers that wait for spares. Only the first one takes any.
    pub(super) waiting: VecDeque<u64>,
    pub(super) next_turn: u64,
    /// The last preparation failed (full disk, no descriptor), and no writer has requested another since.
    pub(super) failed: bool,
    /// There was no room for the smallest new segment: any idle slot is used.
    pub(super) takes_any: bool,
    /// How many preparations have failed.
    pub(super) failures: u64,
    /// Why the last one failed.
    pub(super) last_failure: Option<Error>,
    /// Slots that may be used again, oldest first.
    pub(super) free: VecDeque<Idle>,
    /// Slots to be removed, with the prepared segments that some of them hold.
    pub(super) useless: Vec<(PathBuf, Option<Arc<Segment>>)>,
    /// The recent peak of the bytes in use. Flushes release many segments at a time; a slot removed then would have to
    /// be created again.
    pub(super) peak_bytes: u64,
    /// Segments below this index are not needed any more.
    pub(super) let_go_before: u32,
    /// The number of pins by the index of the first segment that each holds.
    pub(super) pins: BTreeMap<u32, usize>,
    pub(super) next_index: u32,
    pub(super) next_number: u32,
    /// The segment that the log began in, until the populater takes it.
    pub(super) begun_in: Option<Arc<Segment>>,
}

impl Supply {
    /// An empty supply. `next_index` is the index of the next segment, `next_number` that of the next new slot.
    pub(super) fn new(sizing: Sizing, next_index: u32, next_number: u32) -> Supply {
        Supply {
            sizing,
            demand: Demand::default(),
            forgetting: Forgetting::default(),
            spares: VecDeque::new(),
            unpopulated: VecDeque::new(),
            wanted: 0,
            waiting: VecDeque::new(),
            next_turn: 0,
            failed: false,
            takes_any: false,
            failures: 0,
            last_failure: None,
            free: VecDeque::new(),
            useless: Vec::new(),
            peak_bytes: 0,
            let_go_before: 0,
            pins: BTreeMap::new(),
            next_index,
            next_number,
            begun_in: None,
        }
    }

    /// Returns the prepared segments, ready or not, in the order of their indexes.
    pub(super) fn prepared(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.spares.iter().chain(&self.unpopulated)
    }

    /// Returns the number of prepared segments.
    pub(super) fn prepared_count(&self) -> usize {
        self.spares.len() + self.unpopulated.len()
    }

    /// Returns whether `id` is the first prepared segment that is not ready.
    pub(super) fn is_first_unpopulated(&self, id: SegmentId) -> bool {
        self.unpopulated.front().is_some_and(|first| first.id == id)
    }

    /// Removes the first prepared segment that is not ready, if it is `id`.
    pub(super) fn take_first_unpopulated(&mut self, id: SegmentId) -> Option<Arc<Segment>> {
        if self.is_first_unpopulated(id) { self.unpopulated.pop_front() } else { None }
    }

    /// Returns the bytes of idle slots, prepared or not.
    pub(super) fn idle_bytes(&self) -> u64 {
        let prepared = self.prepared().map(|segment| u64::from(segment.bytes));
        prepared.chain(self.free.iter().map(|idle| u64::from(idle.bytes))).sum()
    }

    /// Takes a turn behind all waiting writers.
    pub(super) fn join_waiting(&mut self) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting.push_back(turn);
        turn
    }
    /// Ends a turn. Returns whether others wait. The next one sets how many spares it needs.
    pub(super) fn leave_waiting(&mut self, turn: u64) -> bool {
        self.waiting.retain(|other| *other != turn);
        self.wanted = 0;
        !self.waiting.is_empty()
    }

    /// Notes a failed preparation.
    pub(super) fn fail(&mut self, error: Error) {
        self.failures += 1;
        self.failed = true;
        self.last_failure = Some(error);
    }
}
