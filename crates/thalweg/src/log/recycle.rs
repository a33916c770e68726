//! Letting segments go, and the preparer that gives their slots a new identity (DESIGN 5, Letting go).
//!
//! A segment may go when it lies before the mark that was let go and before every pin; strictly oldest first. What was
//! let go is durable in tables, whether or not it ever was in the log, so the durable frontier moves there too. The
//! preparer, a coroutine, keeps spares ready and is the only one that prepares, so spares have ascending indexes. That
//! it finds no space is told to the writers who wait, and poisons nothing; any other failure poisons. Locks: the
//! tail's, never over I/O.

use super::Log;
use super::framing::{Header, SegmentId};
use super::reserve::Tail;
use super::segment::{Preparation, Segment, slot_path};
use crate::error::Error;
use crate::format::{EditId, LogMark};
use crate::planted::{Bug, planted};
use crate::runtime::yield_now;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Prepared segments that are kept ready.
const SPARES: usize = 2;

/// Slots that are kept, prepared or not, beyond those in use; more when the log was longer not long ago.
const SLOTS_KEPT: usize = 4;

/// The memory of how long the log was fades by one segment with every so many taken.
const PEAK_FADES_EVERY: u32 = 8;

/// Where new segments come from.
#[derive(Default)]
pub(super) struct Supply {
    /// Ready, in the order of their indexes.
    pub(super) spares: VecDeque<Arc<Segment>>,
    /// How many spares there should be.
    pub(super) wanted: usize,
    /// Writers who wait for spares.
    pub(super) waiters: usize,
    /// The last attempt failed (the disk was full, no file could be opened), and nobody has asked for another.
    pub(super) failed: bool,
    /// Attempts that failed so far, and how the last one did.
    pub(super) failures: u64,
    pub(super) last_failure: Option<Error>,
    /// Slots of the right size that may be reused, oldest first.
    pub(super) free: VecDeque<PathBuf>,
    /// Slots that cannot be reused.
    pub(super) useless: Vec<PathBuf>,
    /// The most segments in use at once, of late: flushes let many go at a time, and a slot that is removed then would
    /// have to be made and filled again.
    pub(super) peak: usize,
    /// Segments below this index are not needed.
    pub(super) let_go_before: u32,
    /// By the index of the first segment it holds: how many pins.
    pub(super) pins: BTreeMap<u32, usize>,
    pub(super) next_index: u32,
    pub(super) next_number: u32,
    /// The segment that the log began in, and from where its pages are still to be populated.
    pub(super) unpopulated: Option<(Arc<Segment>, u32)>,
}

impl Supply {
    pub(super) fn reset_wanted(&mut self) {
        self.wanted = SPARES;
    }
    fn fail(&mut self, error: Error) {
        self.failures += 1;
        self.failed = true;
        self.last_failure = Some(error);
    }
}

/// What the preparer does next.
enum Work {
    Prepare(Preparation),
    /// Of the segment that the log began in, from this offset on.
    Populate(Arc<Segment>, u32),
    /// A slot, and the spare that it held if it was prepared: to be unmapped outside the lock.
    Remove(PathBuf, Option<Arc<Segment>>),
    End,
}

/// Holds segments back from being recycled, until dropped.
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
    /// Records before `mark` are not needed any more, and the edit that says so is settled: recycles segments.
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

    /// Keeps every segment from `mark` on, until the pin is dropped. What was let go before is gone all the same.
    pub(crate) fn pin(self: &Arc<Self>, mark: LogMark) -> LogPin {
        let index = mark.position.segment();
        *self.lock_tail().supply.pins.entry(index).or_default() += 1;
        LogPin { log: Arc::clone(self), index }
    }

    /// The last settled edit, for the headers of new segments.
    pub(crate) fn set_settled(&self, edit: EditId) {
        self.settled.fetch_max(edit.0, Ordering::Relaxed);
    }

    /// Bytes of segments in use (not yet let go). Asked with every write, so it takes no lock.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Takes note of the backlog, after a change of the segments in use.
    pub(super) fn count_backlog(&self, tail: &Tail) {
        self.backlog.store(tail.backlog_bytes(), Ordering::Relaxed);
    }

    /// Bytes of the segments from index `segment` on.
    pub(crate) fn bytes_from(&self, segment: u32) -> u64 {
        self.lock_tail().chain.range(segment..).map(|(_, segment)| u64::from(segment.bytes)).sum()
    }

    pub(super) fn recycle_what_may_be(&self) {
        let released = {
            let mut tail = self.lock_tail();
            let released = tail.release(self.options.segment_bytes);
            self.count_backlog(&tail);
            released
        };
        if !released.is_empty() {
            self.wanted.notify_all();
        }
    }

    /// The preparer.
    pub(super) async fn prepare_segments(self: Arc<Self>) {
        loop {
            match self.environment.until(&self.wanted, || self.next_work()).await {
                Work::End => return,
                Work::Remove(path, spare) => {
                    yield_now().await;
                    drop(spare);
                    // A slot that stays holds nothing that counts, and the next open tries again.
                    drop(self.environment.storage.remove(&path));
                }
                Work::Populate(segment, from) => {
                    yield_now().await;
                    match segment.populate(from) {
                        Ok(next) => self.lock_tail().supply.unpopulated = next.map(|next| (segment, next)),
                        Err(error) => drop(self.health.poison(error)),
                    }
                }
                Work::Prepare(preparation) => {
                    if !self.prepare(preparation).await {
                        return;
                    }
                }
            }
        }
    }

    /// Runs a preparation and tells who waits; whether to go on.
    async fn prepare(&self, mut preparation: Preparation) -> bool {
        loop {
            yield_now().await;
            if self.is_ended() {
                // Half a segment is of no use to anybody.
                preparation.discard(&self.environment);
                return false;
            }
            let is_harmless = preparation.is_harmless();
            match preparation.step(&self.environment, &self.metrics) {
                Ok(None) => {}
                Ok(Some(segment)) => {
                    self.lock_tail().supply.spares.push_back(Arc::new(segment));
                    self.supplied.notify_all();
                    return true;
                }
                Err(error) => {
                    preparation.discard(&self.environment);
                    if !is_harmless && !matches!(error, Error::NoSpace { .. }) {
                        self.health.poison(error);
                        return false;
                    }
                    self.lock_tail().supply.fail(error);
                    self.supplied.notify_all();
                    return true;
                }
            }
        }
    }

    fn next_work(&self) -> Option<Work> {
        if self.is_ended() {
            return Some(Work::End);
        }
        let mut tail = self.lock_tail();
        let tail = &mut *tail;
        let supply = &mut tail.supply;
        if let Some((segment, from)) = supply.unpopulated.take() {
            return Some(Work::Populate(segment, from));
        }
        if let Some(path) = supply.useless.pop() {
            return Some(Work::Remove(path, None));
        }
        if supply.spares.len() < supply.wanted && !supply.failed {
            let header = self.next_header(supply);
            return Some(Work::Prepare(match supply.free.pop_front() {
                Some(path) => Preparation::recycle(path, header),
                None => Preparation::create(self.next_path(supply), header),
            }));
        }
        let kept = SLOTS_KEPT.max(supply.wanted).max((supply.peak + SPARES).saturating_sub(tail.chain.len()));
        if supply.free.len() + supply.spares.len() > kept {
            return match supply.free.pop_front() {
                Some(path) => Some(Work::Remove(path, None)),
                None => supply.spares.pop_back().map(|spare| Work::Remove(spare.path.clone(), Some(spare))),
            };
        }
        None
    }

    /// The identity of the next segment.
    pub(super) fn next_header(&self, supply: &mut Supply) -> Header {
        let id = SegmentId { index: supply.next_index, generation: self.environment.entropy.next_u64() };
        supply.next_index += 1;
        let settled = EditId(self.settled.load(Ordering::Relaxed));
        Header { id, bytes: self.options.segment_bytes, settled }
    }

    fn next_path(&self, supply: &mut Supply) -> PathBuf {
        supply.next_number += 1;
        slot_path(&self.directory, supply.next_number - 1)
    }
}

impl Tail {
    /// Takes the oldest spare as the segment to write.
    pub(super) fn take_spare(&mut self, taken: &Arc<Segment>) {
        let spare = self.supply.spares.pop_front();
        assert!(spare.is_some_and(|spare| spare.id == taken.id), "a record takes the oldest spares");
        self.chain.insert(taken.id.index, Arc::clone(taken));
        self.segment = Arc::clone(taken);
        let fading = usize::from(taken.id.index.is_multiple_of(PEAK_FADES_EVERY));
        self.supply.peak = self.supply.peak.saturating_sub(fading).max(self.chain.len());
    }

    /// Bytes of segments not yet let go.
    pub(super) fn backlog_bytes(&self) -> u64 {
        self.chain.range(self.supply.let_go_before..).map(|(_, segment)| u64::from(segment.bytes)).sum()
    }

    /// Moves segments that may go from the log to the supply. They are to be dropped, and so unmapped and closed, after
    /// the lock was given back.
    #[must_use]
    fn release(&mut self, segment_bytes: u32) -> Vec<Arc<Segment>> {
        let supply = &mut self.supply;
        let pinned = supply.pins.keys().next().copied().unwrap_or(u32::MAX);
        let before = supply.let_go_before.min(pinned).min(self.segment.id.index);
        let mut released = Vec::new();
        while let Some(entry) = self.chain.first_entry().filter(|entry| *entry.key() < before) {
            let segment = entry.remove();
            if segment.bytes == segment_bytes {
                supply.free.push_back(segment.path.clone());
            } else {
                supply.useless.push(segment.path.clone());
            }
            released.push(segment);
        }
        if !released.is_empty() {
            // There is room now that a full disk did not give.
            supply.failed = false;
        }
        released
    }
}
