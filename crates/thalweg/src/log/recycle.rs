//! Letting segments go, and the preparer that gives their slots a new identity (DESIGN 5, Letting go).
//!
//! A segment may go when it lies before the mark that was let go and before every pin; strictly oldest first. What was
//! let go is durable in tables, whether or not it ever was in the log, so the durable frontier moves there too. The
//! preparer, a coroutine, keeps spares ready and is the only one that prepares, so spares have ascending indexes. How
//! many and how large is [`super::sizing`]'s. Where there is no room for a new segment it makes a smaller one, or uses
//! any idle slot. That there is none is told to the writers who wait, and poisons nothing; any other failure poisons.
//! It removes what a log that has become quiet does not use. Locks: the tail's, never over I/O.

use super::Log;
use super::framing::{BLOCK_BYTES, Header, SEGMENT_BYTES_MIN, SegmentId};
use super::reserve::Tail;
use super::segment::{Preparation, Segment, slot_path};
use super::sizing::{QUIET_NS, Sizing};
use crate::error::Error;
use crate::format::{EditId, LogMark};
use crate::planted::{Bug, planted};
use crate::runtime::{Event, Ticket, yield_now};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Idle slots of a log in use, in segments of the size it makes; more when the log was longer not long ago.
const SLOTS_KEPT: u64 = 4;

/// Segments that are made ready while the log's length has peaked: they are kept too.
const SLOTS_READY: u64 = 2;

/// The memory of how long the log was fades by a segment with every this many taken.
const PEAK_FADES_EVERY: u32 = 8;

/// An idle slot of at most this many bytes is left by a close, so that the next open needs no space.
const LEFT_BYTES_MAX: u32 = 128 << 10;

/// A slot that may be used again.
pub(super) struct Idle {
    pub(super) path: PathBuf,
    pub(super) bytes: u32,
}

/// Where new segments come from.
pub(super) struct Supply {
    pub(super) sizing: Sizing,
    /// Ready, in the order of their indexes.
    pub(super) spares: VecDeque<Arc<Segment>>,
    /// How many spares a record that waits needs.
    pub(super) wanted: usize,
    /// Writers who wait for spares, by the numbers of their turns: only the first takes any.
    pub(super) waiting: VecDeque<u64>,
    pub(super) next_turn: u64,
    /// The last attempt failed (the disk was full, no file could be opened), and nobody has asked for another.
    pub(super) failed: bool,
    /// There was no room for the smallest new segment: any idle slot will do.
    pub(super) takes_any: bool,
    /// Attempts that failed so far, and how the last one did.
    pub(super) failures: u64,
    pub(super) last_failure: Option<Error>,
    /// Slots that may be used again, oldest first.
    pub(super) free: VecDeque<Idle>,
    /// Slots to be removed, with the spares that some of them hold.
    pub(super) useless: Vec<(PathBuf, Option<Arc<Segment>>)>,
    /// The most bytes of segments in use at once, lately: flushes let many go at a time, and a slot that is removed
    /// then would have to be made and filled again.
    pub(super) peak_bytes: u64,
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
    /// Of a log whose next segment has this index, and whose next new slot this number.
    pub(super) fn new(sizing: Sizing, next_index: u32, next_number: u32) -> Supply {
        Supply {
            sizing,
            spares: VecDeque::new(),
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
            unpopulated: None,
        }
    }

    /// Bytes of idle slots, prepared or not.
    fn idle_bytes(&self) -> u64 {
        let spares = self.spares.iter().map(|spare| u64::from(spare.bytes));
        spares.chain(self.free.iter().map(|idle| u64::from(idle.bytes))).sum()
    }

    /// A turn behind all who wait.
    pub(super) fn join_waiting(&mut self) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting.push_back(turn);
        turn
    }
    /// Gives up a turn; whether others wait. The next in turn says itself how many spares it needs.
    pub(super) fn leave_waiting(&mut self, turn: u64) -> bool {
        self.waiting.retain(|other| *other != turn);
        self.wanted = 0;
        !self.waiting.is_empty()
    }

    fn fail(&mut self, error: Error) {
        self.failures += 1;
        self.failed = true;
        self.last_failure = Some(error);
    }
}

/// What the preparer does next.
enum Work {
    Prepare(Box<Preparation>),
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

    /// Segments that are not let go yet, the one in use included.
    pub(crate) fn segments(&self) -> usize {
        self.lock_tail().chain.len()
    }

    /// Bytes of the segments from index `segment` on.
    pub(crate) fn bytes_from(&self, segment: u32) -> u64 {
        self.lock_tail().chain.range(segment..).map(|(_, segment)| u64::from(segment.bytes)).sum()
    }

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

    /// The preparer.
    pub(super) async fn prepare_segments(self: Arc<Self>) {
        loop {
            let ticket = self.wanted.ticket();
            let Some(work) = self.next_work() else {
                self.wait_for_work(ticket).await;
                continue;
            };
            match work {
                Work::End => return,
                Work::Remove(path, spare) => {
                    yield_now().await;
                    drop(spare);
                    // A slot that stays holds nothing that counts, and the next open tries again.
                    drop(self.environment.storage.remove(&path));
                    self.health.room_came();
                }
                Work::Populate(segment, from) => {
                    yield_now().await;
                    match segment.populate(from) {
                        Ok(next) => self.lock_tail().supply.unpopulated = next.map(|next| (segment, next)),
                        Err(error) => drop(self.health.poison(error)),
                    }
                }
                Work::Prepare(preparation) => {
                    self.leave_descriptors().await;
                    if !self.prepare(preparation).await {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until there may be work. A log that becomes quiet meanwhile gives back what it does not use; one that has
    /// nothing to give back is not looked at again.
    async fn wait_for_work(&self, ticket: Ticket) {
        let before = {
            let tail = self.lock_tail();
            let supply = &tail.supply;
            let has_idle = supply.idle_bytes() > 0 || supply.sizing.is_grown();
            has_idle.then(|| (tail.segment.id.index, tail.offset))
        };
        let Some(before) = before else {
            return self.wanted.listen(ticket).await;
        };
        let until_ns = self.environment.clock.now_ns().saturating_add(QUIET_NS);
        self.environment.sleep_or(QUIET_NS, &self.wanted, ticket).await;
        if self.environment.clock.now_ns() < until_ns {
            return;
        }
        self.give_back_idle(before);
    }

    /// If the log still ends `at` this index and offset.
    fn give_back_idle(&self, at: (u32, u32)) {
        let published = self.published().position;
        {
            let tail = &mut *self.lock_tail();
            if (tail.segment.id.index, tail.offset) != at || !tail.supply.waiting.is_empty() {
                return;
            }
            let supply = &mut tail.supply;
            supply.sizing.quiet(tail.offset, tail.segment.bytes);
            supply.peak_bytes = 0;
            supply.useless.extend(supply.free.drain(..).map(|idle| (idle.path, None)));
            supply.useless.extend(supply.spares.drain(..).map(|spare| (spare.path.clone(), Some(spare))));
        }
        self.quiet_at.store(published.raw(), Ordering::Relaxed);
        if let Some(event) = self.when_quiet.get() {
            event.notify_all();
        }
    }

    /// Has an event notified whenever the log has become quiet.
    pub(crate) fn tell_when_quiet(&self, event: Arc<Event>) {
        let is_first = self.when_quiet.set(event).is_ok();
        assert!(is_first, "one is told");
    }

    /// Whether nobody has written since the log became quiet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet_at.load(Ordering::Relaxed) == self.published().position.raw()
    }

    /// After the end of the coroutines: removes the idle slots of a log that was closed, but for a small one.
    pub(crate) fn remove_idle(&self) {
        let idle: Vec<Idle> = {
            let supply = &mut self.lock_tail().supply;
            let useless = supply.useless.drain(..).map(|(path, _)| Idle { path, bytes: u32::MAX });
            let spares = supply.spares.drain(..).map(|spare| Idle { path: spare.path.clone(), bytes: spare.bytes });
            useless.chain(spares).chain(supply.free.drain(..)).collect()
        };
        let left = idle.iter().position(|idle| idle.bytes <= LEFT_BYTES_MAX);
        for (_, idle) in idle.iter().enumerate().filter(|(index, _)| Some(*index) != left) {
            // The next open removes it or uses it.
            drop(self.environment.storage.remove(&idle.path));
        }
    }

    /// Before one more segment is opened: closes those that are durable, and has the log durable where too many are
    /// open that are not. Writers who wait for the segment wait for that sync.
    async fn leave_descriptors(&self) {
        let close = || {
            // What is unmapped by that is unmapped outside the lock.
            let closed = self.lock_tail().close_before(self.durable().segment());
            drop(closed);
        };
        close();
        let is_too_much = || {
            let tail = self.lock_tail();
            let open = tail.chain.values().filter(|segment| !segment.is_closed()).count();
            open + tail.supply.spares.len() >= self.segments_open_max
        };
        if is_too_much() {
            // A failure has poisoned, and who waits hears of that.
            let _ = self.sync_in_background(self.published().position).await;
            close();
        }
    }

    /// Runs a preparation and tells who waits; whether to go on.
    async fn prepare(&self, mut preparation: Box<Preparation>) -> bool {
        loop {
            yield_now().await;
            if self.is_ended() {
                // Half a segment is of no use to anybody.
                preparation.discard(&self.environment);
                return false;
            }
            let is_harmless = preparation.is_harmless();
            let step = match planted(Bug::IntervalBehindPreparation) {
                true => preparation.step(&self.environment, &self.metrics),
                false => preparation.step_in_background(&self.environment, &self.metrics).await,
            };
            match step {
                Ok(None) => {}
                Ok(Some(segment)) => {
                    {
                        let supply = &mut self.lock_tail().supply;
                        supply.spares.push_back(Arc::new(segment));
                        supply.takes_any = false;
                    }
                    self.health.segments.clear();
                    self.supplied.notify_all();
                    return true;
                }
                Err(error) => {
                    preparation.discard(&self.environment);
                    // Its directory could not be opened to sync it: nothing is lost but this preparation.
                    let is_shortage = error.is_shortage() && !planted(Bug::DescriptorsPoison);
                    if !is_harmless && !is_shortage && !matches!(error, Error::NoSpace { .. }) {
                        self.health.poison(error);
                        return false;
                    }
                    self.fall_back(error);
                    return true;
                }
            }
        }
    }

    /// A segment could not be made. Where there is no room a smaller one may do, or any slot that is there; else those
    /// who wait are told.
    fn fall_back(&self, error: Error) {
        {
            let supply = &mut self.lock_tail().supply;
            let is_full = matches!(error, Error::NoSpace { .. });
            if is_full && (supply.sizing.shrink() || !supply.free.is_empty()) {
                supply.takes_any = !supply.sizing.is_grown();
                return;
            }
            let now_ns = self.environment.clock.now_ns();
            self.health.report(self.health.segments.record_until_requested(error.clone(), now_ns));
            supply.fail(error);
        }
        self.supplied.notify_all();
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
        if let Some((path, spare)) = supply.useless.pop() {
            return Some(Work::Remove(path, spare));
        }
        let wanted = supply.wanted.max(supply.sizing.spares());
        if supply.spares.len() < wanted && !supply.failed {
            let fitting = supply.free.iter().position(|idle| supply.takes_any || supply.sizing.fits(idle.bytes));
            let idle = fitting.and_then(|index| supply.free.remove(index));
            return Some(Work::Prepare(Box::new(self.preparation(supply, idle))));
        }
        let next = u64::from(supply.sizing.next());
        let in_use: u64 = tail.chain.values().map(|segment| u64::from(segment.bytes)).sum();
        let peak = (supply.peak_bytes + SLOTS_READY * next).saturating_sub(in_use);
        // Where room is short tables need it more.
        let kept = if self.options.space.is_short() { 0 } else { (SLOTS_KEPT * next).max(peak) };
        let kept = kept.max(supply.spares.iter().take(wanted).map(|spare| u64::from(spare.bytes)).sum());
        if supply.idle_bytes() > kept {
            return match supply.free.pop_front() {
                Some(idle) => Some(Work::Remove(idle.path, None)),
                None => supply.spares.pop_back().map(|spare| Work::Remove(spare.path.clone(), Some(spare))),
            };
        }
        None
    }

    /// The next segment, in an idle slot or in a new one.
    fn preparation(&self, supply: &mut Supply, idle: Option<Idle>) -> Preparation {
        let new = || self.options.space.segment_bytes(supply.sizing.next()) / BLOCK_BYTES * BLOCK_BYTES;
        let bytes = idle.as_ref().map_or_else(|| new().max(SEGMENT_BYTES_MIN), |idle| idle.bytes);
        let header = self.next_header(supply, bytes);
        match idle {
            Some(idle) => Preparation::recycle(idle.path, header),
            None => Preparation::create(self.next_path(supply), header),
        }
    }

    /// The identity of the next segment.
    fn next_header(&self, supply: &mut Supply, bytes: u32) -> Header {
        let id = SegmentId { index: supply.next_index, generation: self.environment.entropy.next_u64() };
        supply.next_index += 1;
        let settled = EditId(self.settled.load(Ordering::Relaxed));
        Header { id, bytes, settled }
    }

    fn next_path(&self, supply: &mut Supply) -> PathBuf {
        supply.next_number += 1;
        slot_path(&self.directory, supply.next_number - 1)
    }
}

/// Puts a closed segment in the place of one that is not. What was open is to be dropped outside the lock.
fn close(segment: &mut Arc<Segment>) -> Option<Arc<Segment>> {
    let closed = || Arc::new(Segment::closed(segment.path.clone(), segment.id, segment.bytes));
    (!segment.is_closed()).then(closed).map(|closed| std::mem::replace(segment, closed))
}

impl Tail {
    /// Closes the segments before index `durable`, which nobody writes or syncs any more. What was open is to be
    /// dropped after the lock was given back.
    #[must_use]
    fn close_before(&mut self, durable: u32) -> Vec<Arc<Segment>> {
        let durable = self.chain.range_mut(..durable.min(self.segment.id.index));
        durable.rev().map_while(|(_, segment)| close(segment)).collect()
    }

    /// Takes the oldest spare as the segment to write.
    pub(super) fn take_spare(&mut self, taken: &Arc<Segment>, now_ns: u64) {
        let spare = self.supply.spares.pop_front();
        assert!(spare.is_some_and(|spare| spare.id == taken.id), "a record takes the oldest spares");
        self.chain.insert(taken.id.index, Arc::clone(taken));
        self.segment = Arc::clone(taken);
        self.supply.sizing.took(taken.bytes, now_ns);
        let fading = if taken.id.index.is_multiple_of(PEAK_FADES_EVERY) { u64::from(taken.bytes) } else { 0 };
        let in_use = self.chain.values().map(|segment| u64::from(segment.bytes)).sum();
        self.supply.peak_bytes = self.supply.peak_bytes.saturating_sub(fading).max(in_use);
    }

    /// Bytes of segments not yet let go.
    pub(super) fn backlog_bytes(&self) -> u64 {
        self.chain.range(self.supply.let_go_before..).map(|(_, segment)| u64::from(segment.bytes)).sum()
    }

    /// Moves segments that may go from the log to the supply. They are to be dropped, and so unmapped and closed, after
    /// the lock was given back.
    #[must_use]
    fn release(&mut self) -> Vec<Arc<Segment>> {
        let supply = &mut self.supply;
        let pinned = supply.pins.keys().next().copied().unwrap_or(u32::MAX);
        let before = supply.let_go_before.min(pinned).min(self.segment.id.index);
        let mut released = Vec::new();
        while let Some(entry) = self.chain.first_entry().filter(|entry| *entry.key() < before) {
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
            // There is room now that a full disk did not give.
            supply.failed = false;
        }
        released
    }
}
