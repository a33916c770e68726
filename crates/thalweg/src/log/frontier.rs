//! The durable frontier, and the group commit that moves it (DESIGN 5, Frontier).
//!
//! A sync covers what was published before it was issued, from where the one issued before it ends. At most two are in
//! flight, each with its own handle of each segment. Completions are recorded in any order, but the frontier moves only
//! over a prefix *in the order of issue*: a sync that returned says nothing about what an earlier one, still in flight
//! or failed, was to write. A failure poisons, stays at the head of the order for ever, and nothing is synced again.
//! Beside the syncs, a settled edit moves the frontier to where the log is needed from: what comes before is durable in
//! tables, and no recovery reads it.
//!
//! Who wants a position durable leads, that is, issues a sync itself, if it may; it waits for nobody to join. Else it
//! joins a *group*: of the sync in flight that covers it, or of the next one. A group is woken once, when its sync is
//! behind the frontier. When a sync ends, one of the next group is woken to lead, if it may.
//!
//! Who may lead: with no sync in flight, everybody; beside one, only when the next group has become as large as the
//! one that it covers. So groups grow equal: n writers that always sync end up in two of n / 2, of which one is at the
//! device while the other comes together. Without it the first of a group to come back would take the free place for
//! itself alone, and the others would wait for it and for one more (`docs/log.md` has what was measured).
//!
//! Invariant: while somebody waits in the next group, a sync is in flight, or one who was woken to lead is on its way
//! (or the database is poisoned, and everyone was woken). A sync that is given up, because its leader panics or its
//! coroutine is dropped, has failed.
//!
//! Locks: `syncs`, never over a sync; `published` and the tail's are taken under it for a few instructions.

use super::Log;
use super::framing::HEADER_BYTES;
use super::segment::Segment;
use crate::error::{Error, Result};
use crate::format::{LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::{Event, Point, Ticket, join_bounded};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

/// Syncs that may be in flight, and handles a segment has.
const IN_FLIGHT_MAX: usize = 2;

/// Segments that a sync of a coroutine has written at the same time, so that it takes no longer than one.
const SEGMENTS_SYNCED_AT_ONCE: usize = 16;

/// What the planted bug leaves out at the end of a range.
const PAGE_BYTES: u32 = 4096;

/// Syncs in the order of their issue, from the first that is not behind the frontier.
#[derive(Default)]
pub(super) struct Syncs {
    issued: VecDeque<Issued>,
    next_number: u64,
    /// Those whom the next sync to be issued will cover.
    next_group: Group,
}

/// Those whom one sync covers.
#[derive(Clone, Default)]
struct Group {
    woken: Arc<Event>,
    /// How many have joined, and with the leader how many are covered.
    members: usize,
}

/// In which group one who waits was counted: once, however often it looks.
type Membership = Option<Arc<Event>>;

struct Issued {
    number: u64,
    to: LogPosition,
    handle: usize,
    is_done: bool,
    group: Group,
}

impl Syncs {
    fn in_flight(&self) -> impl Iterator<Item = &Issued> {
        self.issued.iter().filter(|issued| !issued.is_done)
    }

    /// A handle for a next group of so many, if it may be led.
    fn free_handle(&self, members: usize) -> Option<usize> {
        let largest = self.in_flight().map(|issued| issued.group.members).max().unwrap_or(0);
        let is_free = |handle: &usize| !self.in_flight().any(|issued| issued.handle == *handle);
        (0..IN_FLIGHT_MAX).find(is_free).filter(|_| members >= largest)
    }
}

/// A sync that was issued. Must be finished; dropping it unfinished poisons the database.
pub(super) struct SyncJob<'a> {
    log: &'a Log,
    number: u64,
    handle: usize,
    parts: Vec<SyncPart>,
    is_finished: bool,
}

/// What a sync is to make durable of one segment.
struct SyncPart {
    segment: Arc<Segment>,
    from: u32,
    to: u32,
}

/// What somebody who wants the frontier at a position is to do.
enum Attempt<'a> {
    Durable,
    Failed(Error),
    Run(SyncJob<'a>),
    /// Wait in a group, and then look again.
    Join(Arc<Event>, Ticket),
}

impl Log {
    /// Everything before this position survives a power cut.
    pub(crate) fn durable(&self) -> LogPosition {
        LogPosition::from_raw(self.durable.load(Ordering::Acquire))
    }

    /// The error that poisoned the database. That it is closing does not hinder what was begun before.
    pub(super) fn failure(&self) -> Option<Error> {
        self.health.check().err().filter(|error| !matches!(error, Error::Closed))
    }

    /// Makes everything before `end` durable (`end` must be published): group commit, at most two syncs in flight.
    pub(crate) fn sync(&self, end: LogPosition) -> Result<()> {
        if self.durable() >= end {
            return Ok(());
        }
        self.metrics.syncs_waited_for.increment();
        let mut membership = None;
        loop {
            match self.attempt(end, &mut membership) {
                Attempt::Durable => return Ok(()),
                Attempt::Failed(error) => return Err(self.fail_with_all(error)),
                Attempt::Join(group, ticket) => self.environment.scheduler.wait(&group, ticket, None),
                Attempt::Run(job) => {
                    self.environment.point(Point::Syncing);
                    let result = job.run();
                    self.environment.point(Point::Syncing);
                    self.finish_sync(job, result)?;
                }
            }
        }
    }

    /// The same for a coroutine, up to a sequence number.
    pub(crate) async fn sync_to_seq(&self, seq: SeqNo) -> Result<()> {
        self.until_visible(seq).await?;
        self.sync_in_background(self.published().position).await
    }

    /// The same for a coroutine.
    pub(super) async fn sync_in_background(&self, end: LogPosition) -> Result<()> {
        let mut membership = None;
        loop {
            match self.attempt(end, &mut membership) {
                Attempt::Durable => return Ok(()),
                Attempt::Failed(error) => return Err(self.fail_with_all(error)),
                Attempt::Join(group, ticket) => group.listen(ticket).await,
                Attempt::Run(job) => {
                    let result = job.run_in_background().await;
                    self.finish_sync(job, result)?;
                }
            }
        }
    }

    fn attempt(&self, end: LogPosition, membership: &mut Membership) -> Attempt<'_> {
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
        let next = &mut syncs.next_group;
        if !membership.as_ref().is_some_and(|group| Arc::ptr_eq(group, &next.woken)) {
            next.members += 1;
            *membership = Some(Arc::clone(&next.woken));
        }
        let Some(handle) = syncs.free_handle(syncs.next_group.members) else {
            return join(&syncs.next_group);
        };
        // Read under the lock of the syncs: the order of issue is the order of positions.
        let to = self.published().position;
        assert!(to >= end, "only what is published can be made durable");
        // What an earlier sync was issued for is its affair: the frontier waits for it.
        let from = syncs.issued.back().map_or(self.durable(), |last| last.to.max(self.durable()));
        let parts = self.sync_parts(from, to);
        let number = syncs.next_number;
        syncs.next_number += 1;
        let group = std::mem::take(&mut syncs.next_group);
        syncs.issued.push_back(Issued { number, to, handle, is_done: false, group });
        Attempt::Run(SyncJob { log: self, number, handle, parts, is_finished: false })
    }

    /// The segments between two positions, and what of each lies between them.
    fn sync_parts(&self, from: LogPosition, to: LogPosition) -> Vec<SyncPart> {
        let tail = self.lock_tail();
        let part = |(index, segment): (&u32, &Arc<Segment>)| {
            let first = if *index == from.segment() { from.offset() } else { HEADER_BYTES };
            let end = if *index == to.segment() { to.offset() } else { segment.bytes };
            let end = if planted(Bug::RangeSyncTooShort) { end.saturating_sub(PAGE_BYTES).max(first) } else { end };
            SyncPart { segment: Arc::clone(segment), from: first, to: end }
        };
        tail.chain.range(from.segment()..=to.segment()).map(part).collect()
    }

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

    /// Nothing will be durable any more: everyone is to hear why.
    fn wake_all_groups(&self) {
        let groups: Vec<_> = {
            let syncs = self.lock_syncs();
            let issued = syncs.issued.iter().map(|issued| &issued.group);
            issued.chain([&syncs.next_group]).cloned().collect()
        };
        for group in groups {
            group.woken.notify_all();
        }
    }

    /// One who waited found the database poisoned. It may have been the only one who was woken, to lead the others:
    /// what poisoned it need not have been a sync, whose end wakes all.
    fn fail_with_all(&self, error: Error) -> Error {
        self.wake_all_groups();
        error
    }

    /// After the end of a sync: has one of the next group lead, if it may. Where it may not, another sync is in flight,
    /// whose end comes here.
    fn wake_next_leader(&self) {
        let next = {
            let syncs = self.lock_syncs();
            let may_lead = syncs.free_handle(syncs.next_group.members).is_some();
            may_lead.then(|| Arc::clone(&syncs.next_group.woken))
        };
        if let Some(next) = next {
            next.notify_one();
        }
    }

    /// Takes note that a sync is done; the groups that are behind the frontier now.
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

    /// Everything before `position` is durable in tables.
    pub(super) fn advance_frontier_to(&self, position: LogPosition) {
        let next = {
            let syncs = self.lock_syncs();
            self.durable.fetch_max(position.raw(), Ordering::AcqRel);
            Arc::clone(&syncs.next_group.woken)
        };
        // One of them may have been woken to lead, and leaves now that it need not: the others must look themselves.
        next.notify_all();
    }

    /// How many are in the next group.
    #[cfg(test)]
    pub(super) fn waiting_for_tests(&self) -> usize {
        self.lock_syncs().next_group.members
    }

    #[cfg(test)]
    pub(super) fn issue_for_tests(&self, end: LogPosition) -> Option<SyncJob<'_>> {
        if let Attempt::Run(job) = self.attempt(end, &mut None) { Some(job) } else { None }
    }

    fn lock_syncs(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interval syncer: from the publication of a record on, at most the interval passes until a sync that covers
    /// it is issued, or one is in flight that no other may be issued beside.
    pub(super) async fn sync_at_intervals(self: Arc<Self>) {
        let Some(interval) = self.options.sync_interval else {
            return;
        };
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let is_behind = || self.published().position > self.durable();
        // When the last sync was issued, and whether there were later records by its end.
        let mut last: Option<(u64, bool)> = None;
        loop {
            let condition = || (self.is_ended() || is_behind()).then_some(());
            self.environment.until(&self.advanced, condition).await;
            let (ticket, now_ns) = (self.ended.ticket(), self.environment.clock.now_ns());
            if self.is_ended() {
                return;
            }
            // A record that is seen now may have been published right after the last look, while this worker was held
            // up. After a longer rest it was not: this coroutine is woken by the first one.
            let passed_ns = match last {
                Some((issued_ns, true)) => now_ns.saturating_sub(issued_ns),
                Some((issued_ns, false)) if now_ns.saturating_sub(issued_ns) < interval_ns => now_ns - issued_ns,
                _ => 0,
            };
            if passed_ns < interval_ns {
                self.environment.sleep_or(interval_ns - passed_ns, &self.ended, ticket).await;
            }
            if self.is_ended() {
                return;
            }
            let issued_ns = self.environment.clock.now_ns();
            if self.sync_in_background(self.published().position).await.is_err() {
                return;
            }
            // What came while the sync was in flight has waited for as long.
            last = Some((issued_ns, is_behind()));
        }
    }
}

impl SyncJob<'_> {
    fn run(&self) -> Result<()> {
        if planted(Bug::LogSyncDropped) {
            return Ok(());
        }
        self.parts.iter().try_for_each(|part| {
            part.segment.release(part.from, part.to);
            part.segment.handle(self.handle)?.sync(part.from, part.to)
        })
    }

    async fn run_in_background(&self) -> Result<()> {
        if planted(Bug::LogSyncDropped) {
            return Ok(());
        }
        let sync = |part: &SyncPart| {
            let (segment, from, to) = (Arc::clone(&part.segment), part.from, part.to);
            async move {
                segment.release(from, to);
                segment.handle(self.handle)?.sync_in_background(from, to).await
            }
        };
        join_bounded(self.parts.iter().map(sync), SEGMENTS_SYNCED_AT_ONCE).await
    }
}

impl Drop for SyncJob<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // Those whom it covers, and those who come after it, would wait for ever.
            self.log.health.poison(Error::internal("a sync was given up while it was in flight"));
            self.log.wake_all_groups();
        }
    }
}
