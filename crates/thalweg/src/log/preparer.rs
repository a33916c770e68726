//! The preparer: the background coroutine that makes new segments durable, ahead of their use.
//!
//! It alone prepares segments, so they have ascending indexes. [`super::sizing`] decides how many and how large they
//! are. [`super::populater`] makes their pages ready for stores.
//! If there is no room for a new segment, the preparer makes a smaller one, or uses any idle slot. If there is no idle
//! slot either, waiting writers get the error, and the database is not poisoned. Nor is it by the failure of a step
//! that changes no bytes, or by a lack of descriptors. Any other failure poisons it. Locks: the tail's, never over I/O.

use super::forgetting::Pages;
use super::header::{BLOCK_BYTES, SEGMENT_BYTES_MIN, SegmentHeader, SegmentId};
use super::open::Log;
use super::preparation::{NewBlocks, Preparation};
use super::segment::{Segment, slot_path};
use super::sizing::{AHEAD_MAX, PAUSE_NS, QUIET_NS, READY_BUSY};
use super::supply::{Idle, Supply};
use crate::error::{Error, Result};
use crate::format::EditId;
use crate::planted::{Bug, planted};
use crate::runtime::{Ticket, join_bounded, yield_now};
use crate::storage::OpenMode;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A log in use keeps idle slots for this number of segments of the present size, or more if it was longer recently.
const SLOTS_KEPT: u64 = 4;

/// How many segments are prepared at the same time: as many as may be prepared ahead.
const TOGETHER_MAX: usize = AHEAD_MAX;

/// The next work of the preparer.
enum Work {
    /// Prepare segments together, because the syncs of several new files take hardly longer than those of one: the
    /// first sync commits the file system's journal for all of them.
    Prepare(Vec<Preparation>),
    /// Remove a slot, and drop the prepared segment that it held outside the lock.
    Remove(PathBuf, Option<Arc<Segment>>),
    /// Make the page cache forget pages of a durable segment.
    Forget(Pages),
    End,
}

/// The failure of a step of a preparation.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) is_harmless: bool,
}

impl Failure {
    /// Whether the failure poisons the database. Otherwise only this preparation is lost: there was no room, or the
    /// directory could not be opened to sync it.
    fn is_final(&self) -> bool {
        let is_shortage = self.error.is_shortage() && !planted(Bug::DescriptorsPoison);
        !self.is_harmless && !is_shortage && !matches!(self.error, Error::NoSpace { .. })
    }
}

impl Log {
    /// Runs until the log ends.
    pub(super) async fn prepare_segments(self: Arc<Self>) {
        let mut paused_at = None;
        loop {
            let ticket = self.wanted.ticket();
            let Some(work) = self.next_work() else {
                self.wait_for_work(ticket, &mut paused_at).await;
                continue;
            };
            match work {
                Work::End => return,
                Work::Remove(path, segment) => {
                    yield_now().await;
                    drop(segment);
                    // A slot that cannot be removed does no harm, and the next open tries again.
                    drop(self.environment.storage.remove(&path));
                    self.health.room_came();
                }
                Work::Forget(pages) => {
                    yield_now().await;
                    self.forget(&pages);
                }
                Work::Prepare(preparations) => {
                    self.leave_descriptors().await;
                    if !self.prepare(preparations).await {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until there may be work. If no record comes meanwhile, the log gives back unused space: after a pause the
    /// idle slots that it kept because of its peak, and all of them once it is quiet. `paused_at` is where the last
    /// pause began. If there is nothing to give back, the preparer sleeps until it is notified.
    async fn wait_for_work(&self, ticket: Ticket, paused_at: &mut Option<(u32, u32)>) {
        let before = {
            let tail = self.lock_tail();
            let supply = &tail.supply;
            let has_idle = supply.idle_bytes() > 0 || supply.sizing.is_grown();
            has_idle.then(|| (tail.segment.id.index, tail.offset))
        };
        let Some(before) = before else {
            return self.wanted.listen(ticket).await;
        };
        let is_paused = *paused_at == Some(before);
        let wait_ns = if is_paused { QUIET_NS - PAUSE_NS } else { PAUSE_NS };
        let until_ns = self.environment.clock.now_ns().saturating_add(wait_ns);
        self.environment.sleep_or(wait_ns, &self.wanted, ticket).await;
        if self.environment.clock.now_ns() < until_ns {
            return;
        }
        if is_paused {
            return self.give_back_idle(before);
        }
        let tail = &mut *self.lock_tail();
        if (tail.segment.id.index, tail.offset) == before {
            tail.supply.peak_bytes = 0;
            tail.supply.sizing.paused();
            *paused_at = Some(before);
        }
    }

    /// Frees descriptors before one more segment is opened. Closes the segments that are durable; syncs the log if too
    /// many others are open. Writers that wait for the segment then wait for that sync, too.
    async fn leave_descriptors(&self) {
        let close = || {
            let direct_reads = self.metrics.all_reads(|reads| &reads.direct_reads);
            let closed = {
                let tail = &mut *self.lock_tail();
                let closed = tail.close_before(self.durable().segment());
                tail.supply.forgetting.look(&closed, tail.supply.let_go_before, direct_reads);
                closed
            };
            // Segments are unmapped outside the lock.
            drop(closed);
        };
        close();
        let is_too_much = || {
            let tail = self.lock_tail();
            let open = tail.segments.values().filter(|segment| !segment.is_closed()).count();
            open + tail.supply.prepared_count() >= self.segments_open_max
        };
        if is_too_much() {
            // A failed sync has poisoned the database, and waiting writers get its error.
            let _ = self.sync_in_background(self.published().position).await;
            close();
        }
    }

    /// Makes the page cache forget pages. Does nothing where the kernel does not say which pages are cached, because
    /// there the missing pages would be read when the file is used again.
    fn forget(&self, pages: &Pages) {
        let (from, bytes) = (u64::from(pages.from), u64::from(pages.to - pages.from));
        // Only a hint: a file that cannot be opened keeps its pages.
        let Ok(Some(file)) = self.environment.storage.open(&pages.path, OpenMode::Read) else { return };
        if file.is_cached(from, bytes).is_some() {
            file.forget_cached(from, bytes);
        }
    }

    /// Runs preparations side by side, and gives out each segment once it and all earlier ones are durable. If a
    /// preparation fails, later ones end with it, because prepared segments have ascending indexes. Earlier ones are
    /// finished first, unless the failure poisons the database. Returns whether the preparer continues.
    async fn prepare(&self, preparations: Vec<Preparation>) -> bool {
        self.lock_tail().supply.sizing.begin_to_make(self.environment.clock.now_ns());
        let mut preparations = VecDeque::from(preparations);
        let (mut bytes, mut first_failure) = (0, None);
        while let Some(first) = preparations.front_mut() {
            yield_now().await;
            if self.is_ended() {
                // Half a segment is of no use.
                self.discard(preparations);
                return false;
            }
            let failed = if first.is_durable() {
                match self.step(first).await {
                    Ok(None) => None,
                    Ok(Some(segment)) => {
                        preparations.pop_front();
                        bytes += u64::from(segment.bytes);
                        self.add_prepared(segment);
                        None
                    }
                    Err(error) => Some((0, Failure { error, is_harmless: false })),
                }
            } else {
                self.advance(preparations.make_contiguous()).await
            };
            if let Some((at, failure)) = failed {
                self.discard(preparations.split_off(at));
                if failure.is_final() {
                    self.discard(preparations);
                    return self.fail(failure);
                }
                first_failure = Some(failure);
            }
        }
        self.lock_tail().supply.sizing.made(bytes, self.environment.clock.now_ns());
        first_failure.is_none_or(|failure| self.fail(failure))
    }

    /// Takes a step of each preparation that is not durable, or of only some if the log has ended. Steps that wait for
    /// the device run together. If any failed, returns the index of the first one, with the worst failure.
    async fn advance(&self, preparations: &mut [Preparation]) -> Option<(usize, Failure)> {
        let mut failures: Vec<Option<Failure>> = preparations.iter().map(|_| None).collect();
        let mut waiting = Vec::new();
        for (preparation, failure) in preparations.iter_mut().zip(&mut failures) {
            if preparation.waits_for_device() {
                waiting.push(self.step_noted(preparation, failure));
            } else if !preparation.is_durable() {
                yield_now().await;
                if self.is_ended() {
                    return None;
                }
                self.step_noted(preparation, failure).await.ok()?;
            }
        }
        join_bounded(waiting, TOGETHER_MAX).await.ok()?;
        let mut failed = failures.into_iter().enumerate().filter_map(|(at, failure)| Some((at, failure?))).peekable();
        let first_at = failed.peek().map(|(at, _)| *at);
        // A failure that poisons is not hidden by one that does not.
        let worst = failed.max_by_key(|(at, failure)| (failure.is_final(), std::cmp::Reverse(*at)));
        first_at.zip(worst.map(|(_, failure)| failure))
    }

    /// Takes a step of a preparation, and notes its failure. Always returns `Ok`, so that other preparations continue.
    async fn step_noted(&self, preparation: &mut Preparation, failure: &mut Option<Failure>) -> Result<()> {
        let is_harmless = preparation.is_harmless();
        *failure = self.step(preparation).await.err().map(|error| Failure { error, is_harmless });
        Ok(())
    }

    async fn step(&self, preparation: &mut Preparation) -> Result<Option<Segment>> {
        match planted(Bug::IntervalBehindPreparation) {
            true => preparation.step(&self.environment, &self.metrics),
            false => preparation.step_in_background(&self.environment, &self.metrics).await,
        }
    }

    /// Returns how many segments should be prepared ahead: at most as many as room and descriptors allow.
    fn ahead_wanted(&self, supply: &Supply) -> usize {
        let next = u64::from(supply.sizing.next()).max(1);
        let room = usize::try_from(self.options.space.log_ahead_bytes() / next).unwrap_or(AHEAD_MAX);
        // One open segment is in use, and one is being synced.
        let descriptors = self.segments_open_max.saturating_sub(2).max(1);
        supply.sizing.ahead().min(room.max(READY_BUSY)).min(descriptors)
    }

    /// Returns how scarce segments are, 0 to 1, and the rate at which they are made, in bytes a second. `None`: they
    /// are not scarce.
    pub(crate) fn scarcity(&self) -> Option<(f64, f64)> {
        let now_ns = self.environment.clock.now_ns();
        let supply = &self.lock_tail().supply;
        let wanted = if supply.failed { 0 } else { self.ahead_wanted(supply) };
        supply.sizing.scarcity(supply.prepared_count(), wanted, now_ns)
    }

    fn discard(&self, preparations: impl IntoIterator<Item = Preparation>) {
        preparations.into_iter().for_each(|preparation| preparation.discard(&self.environment));
    }

    /// Gives a durable segment to the populater.
    fn add_prepared(&self, segment: Segment) {
        {
            let supply = &mut self.lock_tail().supply;
            supply.unpopulated.push_back(Arc::new(segment));
            supply.takes_any = false;
        }
        self.health.segments.clear();
        self.wanted.notify_all();
    }

    /// Handles the failure of a step. Returns whether the coroutine continues.
    pub(super) fn fail(&self, failure: Failure) -> bool {
        let is_final = failure.is_final();
        match is_final {
            true => drop(self.health.poison(failure.error)),
            false => self.fall_back(failure.error),
        }
        !is_final
    }

    /// Handles a failed preparation. If there is no room, the next attempt makes a smaller segment or uses any idle
    /// slot. Otherwise waiting writers get the error.
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

    /// Returns the next work, if there is any.
    fn next_work(&self) -> Option<Work> {
        if self.is_ended() {
            return Some(Work::End);
        }
        let mut tail = self.lock_tail();
        let tail = &mut *tail;
        let supply = &mut tail.supply;
        if let Some((path, segment)) = supply.useless.pop() {
            return Some(Work::Remove(path, segment));
        }
        let wanted = supply.wanted.max(self.ahead_wanted(supply));
        let prepared = supply.prepared_count();
        if prepared < wanted && !supply.failed {
            let open = tail.segments.values().filter(|segment| !segment.is_closed()).count() + prepared;
            let may_open = self.segments_open_max.saturating_sub(open).max(1);
            // A caller waited for a sync of this segment or the one before.
            let last = self.callers_in.load(Ordering::Relaxed);
            let has_callers = last > 0 && last.saturating_add(1) >= tail.segment.id.index;
            let blocks = if has_callers { NewBlocks::Filled } else { NewBlocks::Allocated };
            let most = match blocks {
                // If the disk is short of space, segments are made ready one after the other.
                _ if self.options.space.is_short() || supply.takes_any => 1,
                // Filling one segment keeps the device busy, and callers would wait until all are filled.
                NewBlocks::Filled => 1,
                // Writers may wait for the first already; and without a ring the worker itself waits for each sync.
                _ if prepared == 0 || self.environment.scheduler.ring_refused().is_some() => READY_BUSY,
                NewBlocks::Allocated => TOGETHER_MAX,
            };
            let is_for_callers = self.look_at_demand(supply) && has_callers;
            let preparations = (prepared..wanted).take(most.min(may_open)).map(|_| {
                let fitting = supply.free.iter().position(|idle| supply.takes_any || supply.sizing.fits(idle.bytes));
                let idle = fitting.and_then(|index| supply.free.remove(index));
                let preparation = self.preparation(supply, idle, blocks);
                if is_for_callers { preparation.for_callers() } else { preparation }
            });
            return Some(Work::Prepare(preparations.collect()));
        }
        let next = u64::from(supply.sizing.next());
        let in_use: u64 = tail.segments.values().map(|segment| u64::from(segment.bytes)).sum();
        let ready = wanted.max(READY_BUSY) as u64 * next;
        let peak = (supply.peak_bytes + ready).saturating_sub(in_use);
        // If the disk is short of space, tables need the space of idle slots more.
        let kept = if self.options.space.is_short() { 0 } else { (SLOTS_KEPT * next).max(peak) };
        // A log that is filled more slowly for a while soon needs the others again.
        let count = if supply.sizing.is_fast() && !self.options.space.is_short() { usize::MAX } else { wanted };
        let kept = kept.max(supply.prepared().take(count).map(|segment| u64::from(segment.bytes)).sum());
        if supply.idle_bytes() > kept {
            return match supply.free.pop_front() {
                Some(idle) => Some(Work::Remove(idle.path, None)),
                None => {
                    let last = supply.unpopulated.pop_back().or_else(|| supply.spares.pop_back());
                    last.map(|segment| Work::Remove(segment.path.clone(), Some(segment)))
                }
            };
        }
        supply.forgetting.next(|index| tail.segments.contains_key(&index)).map(Work::Forget)
    }

    /// Returns whether callers often wait for syncs now.
    pub(super) fn look_at_demand(&self, supply: &mut Supply) -> bool {
        let callers = self.metrics.syncs_waited_for.get() + self.callbacks.begun();
        let is_frequent = supply.demand.look(callers, self.metrics.log_written_bytes.get());
        self.callers_are_frequent.store(is_frequent, Ordering::Relaxed);
        is_frequent
    }

    /// Returns the preparation of the next segment, in an idle slot or in a new one.
    fn preparation(&self, supply: &mut Supply, idle: Option<Idle>, blocks: NewBlocks) -> Preparation {
        let new = || self.options.space.segment_bytes(supply.sizing.next()) / BLOCK_BYTES * BLOCK_BYTES;
        let bytes = idle.as_ref().map_or_else(|| new().max(SEGMENT_BYTES_MIN), |idle| idle.bytes);
        let header = self.next_header(supply, bytes);
        match idle {
            Some(idle) => Preparation::recycle(idle.path, header),
            None => Preparation::create(self.next_path(supply), header, blocks),
        }
    }

    /// Returns the header of the next segment, with a new identity.
    fn next_header(&self, supply: &mut Supply, bytes: u32) -> SegmentHeader {
        let id = SegmentId { index: supply.next_index, generation: self.environment.entropy.next_u64() };
        supply.next_index += 1;
        let settled = EditId(self.settled.load(Ordering::Relaxed));
        SegmentHeader { id, bytes, settled }
    }

    /// Returns the path of a new slot.
    fn next_path(&self, supply: &mut Supply) -> PathBuf {
        supply.next_number += 1;
        slot_path(&self.directory, supply.next_number - 1)
    }
}
