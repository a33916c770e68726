//! The durable frontier, and the group commit that moves it.
//!
//! **Syncs.** A sync covers what was published before it was issued, from the end of the previous sync's range on. At
//! most two are in flight, each with its own handle of each segment. They may end in any order, but the frontier moves
//! only over a prefix *in the order of issue*: the end of one sync says nothing about an earlier one that is still in
//! flight or failed. A failed sync poisons the database and stays at the head of that order; nothing is synced again. A
//! settled edit also moves the frontier, to the position from which the log is still needed: earlier records are
//! durable in tables, and no recovery reads them.
//!
//! **Groups.** A caller that needs a position to be durable leads if it may: it issues a sync at once, and does not
//! wait for others to join. Otherwise it joins a *group*: the group of a sync in flight that covers its position, or
//! the group of the next sync. A group is woken once, when the frontier has passed its sync. When a sync ends, one
//! member of the next group is woken, to lead if it may.
//!
//! **Leaders.** With no sync in flight any caller may lead. While one sync is in flight, a caller may lead only if the
//! next group is at least as large as the group of that sync. So groups become equally large: n writers that always
//! sync form two groups of n / 2. One group waits for the device while the other gathers. Without this rule the first
//! writer of a woken group to return would lead a sync alone, and the others would wait for two syncs. A callback also
//! counts as a caller; coroutines lead for it (`answer.rs`).
//!
//! A thread syncs several segments one after the other; a coroutine with a ring syncs them at the same time. So where
//! there is a ring, a thread leads only syncs of a single segment. It leaves other syncs to a coroutine, and waits for
//! them by a callback.
//!
//! Invariant: while a caller waits in the next group, a sync is in flight, or a woken leader is about to issue one. (Or
//! the database is poisoned and all callers were woken.) A sync whose leader panics or whose coroutine is dropped
//! counts as failed.
//!
//! Locks: `syncs`, never over a sync. `published` and the tail's are taken under it for a few instructions.

use super::header::HEADER_BYTES;
use super::open::Log;
use super::segment::Segment;
use super::syncs::{Group, Issued, RunSync, Syncs};
use crate::error::{Error, Result};
use crate::format::{LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::{Event, Point, Ticket, join_bounded};
use crate::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// How many segments a coroutine's sync writes at the same time, so that they take no longer than one segment.
const SEGMENTS_SYNCED_AT_ONCE: usize = 16;

/// How many bytes at the end of a range a planted bug leaves out.
const PAGE_BYTES: u32 = 4096;

/// The group that counts a waiting caller, so that a caller that looks again is counted only once.
type Membership = Option<Arc<Event>>;

/// A sync to be run by its leader. It must be finished: dropping it unfinished poisons the database.
pub(super) struct SyncJob<'a> {
    log: &'a Log,
    number: u64,
    to: LogPosition,
    handle: usize,
    parts: Vec<SyncPart>,
    is_finished: bool,
}

/// The range of one segment that a sync makes durable.
struct SyncPart {
    segment: Arc<Segment>,
    from: u32,
    to: u32,
}

/// The next step of a caller that needs the frontier at a position.
enum Attempt<'a> {
    Durable,
    Failed(Error),
    Run(SyncJob<'a>),
    /// Wait in a group, then look again.
    Join(Arc<Event>, Ticket),
    /// Leave the sync to a coroutine: it goes over several segments.
    Delegate,
}

/// The kind of caller that needs the frontier at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Thread,
    Coroutine,
}

impl Log {
    /// Returns the durable frontier: everything before it survives a power cut.
    pub(crate) fn durable(&self) -> LogPosition {
        LogPosition::from_raw(self.durable.load(Ordering::Acquire))
    }

    /// Returns the error that poisoned the database. A close in progress is no such error.
    pub(super) fn failure(&self) -> Option<Error> {
        self.health.check().err().filter(|error| !matches!(error, Error::Closed))
    }

    /// Makes everything before `end` durable, by group commit. `end` must be published.
    pub(crate) fn sync(&self, end: LogPosition) -> Result<()> {
        if self.durable() >= end {
            return Ok(());
        }
        self.metrics.syncs_waited_for.increment();
        self.callers_in.fetch_max(end.segment(), Ordering::Relaxed);
        let mut membership = None;
        loop {
            match self.attempt(Caller::Thread, end, &mut membership) {
                Attempt::Durable => return Ok(()),
                Attempt::Failed(error) => return Err(self.fail_with_all(error)),
                Attempt::Join(group, ticket) => self.environment.scheduler.wait(&group, ticket, None),
                Attempt::Delegate => match self.wait_by_callback(end) {
                    // The coroutines have ended, so this caller syncs itself.
                    Err(Error::Closed) => {}
                    Err(error) => return Err(self.fail_with_all(error)),
                    Ok(()) => return Ok(()),
                },
                Attempt::Run(job) => {
                    self.environment.point(Point::Syncing);
                    let result = job.run();
                    self.environment.point(Point::Syncing);
                    self.finish_sync(job, result)?;
                }
            }
        }
    }

    /// Makes everything up to a sequence number durable, for a coroutine.
    pub(crate) async fn sync_to_seq(&self, seq: SeqNo) -> Result<()> {
        self.until_visible(seq).await?;
        self.sync_in_background(self.published().position).await
    }

    /// Makes everything before `end` durable, for a coroutine.
    pub(super) async fn sync_in_background(&self, end: LogPosition) -> Result<()> {
        let mut membership = None;
        loop {
            match self.attempt(Caller::Coroutine, end, &mut membership) {
                Attempt::Durable => return Ok(()),
                Attempt::Failed(error) => return Err(self.fail_with_all(error)),
                Attempt::Delegate => unreachable!("only a thread leaves its sync to a coroutine"),
                Attempt::Join(group, ticket) => group.listen(ticket).await,
                Attempt::Run(job) => {
                    let result = job.run_in_background().await;
                    self.finish_sync(job, result)?;
                }
            }
        }
    }

    /// Decides what a caller must do next, and issues a sync if the caller leads.
    fn attempt(&self, caller: Caller, end: LogPosition, membership: &mut Membership) -> Attempt<'_> {
        if self.durable() >= end {
            return Attempt::Durable;
        }
        let mut syncs = self.lock_syncs();
        if self.durable() >= end {
            return Attempt::Durable;
        }
        if let Some(error) = self.failure() {
            return Attempt::Failed(error);
        }
        let join = |group: &Group| Attempt::Join(Arc::clone(&group.woken), group.woken.ticket());
        if let Some(covering) = syncs.issued.iter().find(|issued| issued.to >= end) {
            return join(&covering.group);
        }
        let next_woken = Arc::clone(&syncs.next_group.woken);
        let is_member = membership.as_ref().is_some_and(|group| Arc::ptr_eq(group, &next_woken));
        if caller == Caller::Thread && self.is_better_delegated(&syncs) {
            // The callback of this caller becomes the member.
            syncs.next_group.members -= usize::from(is_member);
            *membership = None;
            return Attempt::Delegate;
        }
        let next = &mut syncs.next_group;
        if !is_member {
            next.members += 1;
            *membership = Some(next_woken);
        }
        match self.lead(&mut syncs) {
            Some(job) => {
                assert!(job.to >= end, "only what is published can be made durable");
                Attempt::Run(job)
            }
            None => join(&syncs.next_group),
        }
    }

    /// Whether the next sync goes over several segments, and a coroutine can sync them at the same time.
    fn is_better_delegated(&self, syncs: &Syncs) -> bool {
        self.issued_up_to(syncs).segment() < self.published().position.segment()
            && self.environment.scheduler.ring_refused().is_none()
            && self.callbacks.are_answered()
    }

    /// Returns the end of the range of the last sync that was issued.
    fn issued_up_to(&self, syncs: &Syncs) -> LogPosition {
        syncs.issued.back().map_or(self.durable(), |last| last.to.max(self.durable()))
    }

    /// Waits until the coroutines have made everything before `end` durable. `Closed`: they have ended.
    fn wait_by_callback(&self, end: LogPosition) -> Result<()> {
        let (answer, answered) = (Arc::new(OnceLock::new()), Arc::new(Event::default()));
        let (to, wake) = (Arc::clone(&answer), Arc::clone(&answered));
        self.callbacks.when_durable(
            end,
            Box::new(move |outcome| {
                let _ = to.set(outcome);
                wake.notify_all();
            }),
        );
        self.environment.wait_until(&answered, || answer.get().cloned())
    }

    /// Issues a sync for the callbacks that no sync covers, if there are any and a sync may be issued.
    pub(super) fn lead_for_callbacks(&self) -> Option<SyncJob<'_>> {
        let mut syncs = self.lock_syncs();
        if self.callbacks.uncovered() == 0 {
            return None;
        }
        self.callers_in.fetch_max(self.published().position.segment(), Ordering::Relaxed);
        self.lead(&mut syncs)
    }

    /// Issues a sync for the next group and the callbacks, if one may be issued.
    fn lead(&self, syncs: &mut Syncs) -> Option<SyncJob<'_>> {
        let handle = syncs.free_handle(syncs.next_group.members + self.callbacks.uncovered())?;
        // Read under the lock of the syncs, so the order of issue is the order of positions.
        let to = self.published().position;
        // The range of an earlier sync is left out: the frontier waits for that sync anyway.
        let from = self.issued_up_to(syncs);
        let parts = self.sync_parts(from, to);
        let number = syncs.next_number;
        syncs.next_number += 1;
        let mut group = std::mem::take(&mut syncs.next_group);
        group.members += self.callbacks.cover(to);
        syncs.issued.push_back(Issued { number, to, handle, is_done: false, group });
        Some(SyncJob { log: self, number, to, handle, parts, is_finished: false })
    }

    /// Returns the ranges of the segments between two positions.
    fn sync_parts(&self, from: LogPosition, to: LogPosition) -> Vec<SyncPart> {
        let tail = self.lock_tail();
        let part = |(index, segment): (&u32, &Arc<Segment>)| {
            let first = if *index == from.segment() { from.offset() } else { HEADER_BYTES };
            let end = if *index == to.segment() { to.offset() } else { segment.bytes };
            let end = if planted(Bug::RangeSyncTooShort) { end.saturating_sub(PAGE_BYTES).max(first) } else { end };
            SyncPart { segment: Arc::clone(segment), from: first, to: end }
        };
        tail.segments.range(from.segment()..=to.segment()).map(part).collect()
    }

    /// Records the end of a sync, moves the frontier, and wakes waiting callers.
    pub(super) fn finish_sync(&self, mut job: SyncJob<'_>, result: Result<()>) -> Result<()> {
        job.is_finished = true;
        let result = result.map_err(|error| self.health.poison(error));
        let behind = if result.is_ok() { self.advance_frontier(job.number) } else { Vec::new() };
        for group in behind {
            group.woken.notify_all();
        }
        if result.is_err() || self.failure().is_some() {
            self.wake_all_groups();
            return result;
        }
        self.wake_next_leader();
        Ok(())
    }

    /// Wakes all callers, because no sync will succeed any more.
    pub(super) fn wake_all_groups(&self) {
        let groups: Vec<_> = {
            let syncs = self.lock_syncs();
            let issued = syncs.issued.iter().map(|issued| &issued.group);
            issued.chain([&syncs.next_group]).cloned().collect()
        };
        for group in groups {
            group.woken.notify_all();
        }
    }

    /// Wakes all callers, because this caller found the database poisoned. Returns `error`. The end of a failed sync
    /// wakes all callers. But the poison may have another cause, and then only this caller may have been woken, as a
    /// leader.
    fn fail_with_all(&self, error: Error) -> Error {
        self.wake_all_groups();
        error
    }

    /// Wakes one member of the next group to lead, if it may. Otherwise another sync is in flight, and this is called
    /// again at its end.
    fn wake_next_leader(&self) {
        let next = {
            let syncs = self.lock_syncs();
            let members = syncs.next_group.members + self.callbacks.uncovered();
            let may_lead = syncs.free_handle(members).is_some();
            may_lead.then(|| Arc::clone(&syncs.next_group.woken))
        };
        if let Some(next) = next {
            next.notify_one();
        }
        // The frontier may have passed positions of callbacks. And a group of callbacks without a thread may lead.
        self.callbacks.look_again();
    }

    /// Notes that a sync is done. Returns the groups that the frontier has passed now.
    fn advance_frontier(&self, number: u64) -> Vec<Group> {
        let mut syncs = self.lock_syncs();
        let mut frontier = self.durable();
        for issued in syncs.issued.iter_mut().filter(|issued| issued.number == number) {
            issued.is_done = true;
            if planted(Bug::SyncClaimsTooMuch) {
                issued.to = issued.to.max(self.published().position);
            }
        }
        let mut behind = Vec::new();
        while syncs.issued.front().is_some_and(|first| first.is_done)
            && let Some(first) = syncs.issued.pop_front()
        {
            frontier = frontier.max(first.to);
            behind.push(first.group);
        }
        self.durable.store(frontier.raw(), Ordering::Release);
        behind
    }

    /// Moves the frontier to `position`, because everything before it is durable in tables.
    pub(super) fn advance_frontier_to(&self, position: LogPosition) {
        let next = {
            let syncs = self.lock_syncs();
            self.durable.fetch_max(position.raw(), Ordering::AcqRel);
            Arc::clone(&syncs.next_group.woken)
        };
        // A member that was woken to lead may leave now without a sync. So all members must look again.
        next.notify_all();
        self.callbacks.look_again();
    }

    /// Returns how many callers are in the next group.
    #[cfg(test)]
    pub(super) fn waiting_for_tests(&self) -> usize {
        self.lock_syncs().next_group.members
    }

    /// Returns how many syncs were issued.
    #[cfg(test)]
    pub(super) fn issued_syncs_for_tests(&self) -> u64 {
        self.lock_syncs().next_number
    }

    /// Issues a sync if the caller may lead.
    #[cfg(test)]
    pub(super) fn issue_for_tests(&self, end: LogPosition) -> Option<SyncJob<'_>> {
        if let Attempt::Run(job) = self.attempt(Caller::Coroutine, end, &mut None) { Some(job) } else { None }
    }

    /// The last sync that a coroutine ran.
    pub(super) fn last_in_background(&self) -> Option<RunSync> {
        self.lock_syncs().last_in_background
    }

    fn lock_syncs(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock()
    }
}

impl SyncJob<'_> {
    /// Runs the sync, part after part.
    fn run(&self) -> Result<()> {
        if planted(Bug::LogSyncDropped) {
            return Ok(());
        }
        self.parts.iter().try_for_each(|part| {
            self.release(&part.segment, part.from, part.to);
            part.segment.handle(self.handle)?.sync(part.from, part.to)
        })
    }

    /// Takes pages that were stored to out of the mapping, before they are synced.
    fn release(&self, segment: &Segment, from: u32, to: u32) {
        if !self.log.is_by_position(segment) {
            segment.release(from, to);
        }
    }

    /// Runs the sync for a coroutine.
    pub(super) async fn run_in_background(&self) -> Result<()> {
        let issued_ns = self.log.environment.clock.now_ns();
        let result = self.sync_parts_at_once().await;
        let was_outrun = self.log.published().position > self.to;
        self.log.lock_syncs().last_in_background = Some(RunSync { issued_ns, was_outrun });
        result
    }

    /// Syncs the parts at the same time.
    async fn sync_parts_at_once(&self) -> Result<()> {
        if planted(Bug::LogSyncDropped) {
            return Ok(());
        }
        let sync = |part: &SyncPart| {
            let (segment, from, to) = (Arc::clone(&part.segment), part.from, part.to);
            async move {
                self.release(&segment, from, to);
                segment.handle(self.handle)?.sync_in_background(from, to).await
            }
        };
        join_bounded(self.parts.iter().map(sync), SEGMENTS_SYNCED_AT_ONCE).await
    }
}

impl Drop for SyncJob<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // The callers that this sync covers, and later callers, would wait forever.
            self.log.health.poison(Error::internal("a sync was given up while it was in flight"));
            self.log.wake_all_groups();
        }
    }
}
