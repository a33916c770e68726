//! The durable frontier, and the group commit that moves it (DESIGN 5, Frontier).
//!
//! A sync covers what was published before it was issued. At most two are in flight, each with its own handle of each
//! segment. Completions are recorded in any order, but the frontier moves only over a prefix *in the order of issue*:
//! a sync that returned says nothing about what an earlier one, still in flight or failed, was to write. A failure
//! poisons, stays at the head of the order for ever, and nothing is synced again.
//!
//! Locks: `syncs`, never over a sync; `published` and the tail's are taken under it for a few instructions.

use super::Log;
use super::segment::Segment;
use crate::error::{Error, Result};
use crate::format::{LogPosition, SeqNo};
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundFile, Point};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

/// Syncs that may be in flight, and handles a segment has.
const IN_FLIGHT_MAX: usize = 2;

/// Syncs in the order of their issue, from the first that is not done.
#[derive(Default)]
pub(super) struct Syncs {
    issued: VecDeque<Issued>,
    next_number: u64,
}

struct Issued {
    number: u64,
    to: LogPosition,
    handle: usize,
    is_done: bool,
}

/// A sync that was issued.
pub(super) struct SyncJob {
    number: u64,
    handle: usize,
    segments: Vec<Arc<Segment>>,
}

/// What somebody who wants the frontier at a position is to do.
enum Attempt {
    Durable,
    Failed(Error),
    Run(SyncJob),
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
        loop {
            match self.environment.wait_until(&self.synced, || self.attempt(end)) {
                Attempt::Durable => return Ok(()),
                Attempt::Failed(error) => return Err(error),
                Attempt::Run(job) => {
                    self.environment.point(Point::Syncing);
                    let result = job.run();
                    self.environment.point(Point::Syncing);
                    self.finish_sync(&job, result)?;
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
        loop {
            match self.environment.until(&self.synced, || self.attempt(end)).await {
                Attempt::Durable => return Ok(()),
                Attempt::Failed(error) => return Err(error),
                Attempt::Run(job) => {
                    let result = job.run_in_background().await;
                    self.finish_sync(&job, result)?;
                }
            }
        }
    }

    /// `None`: wait, a sync in flight covers `end`, or two are in flight.
    fn attempt(&self, end: LogPosition) -> Option<Attempt> {
        let mut syncs = self.lock_syncs();
        if self.durable() >= end {
            return Some(Attempt::Durable);
        }
        if let Some(error) = self.failure() {
            return Some(Attempt::Failed(error));
        }
        let busy: Vec<_> = syncs.issued.iter().filter(|issued| !issued.is_done).map(|issued| issued.handle).collect();
        let is_covered = syncs.issued.iter().any(|issued| issued.to >= end);
        if is_covered || busy.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let handle = (0..IN_FLIGHT_MAX).find(|handle| !busy.contains(handle))?;
        // Read under the lock of the syncs: the order of issue is the order of positions.
        let to = self.published().position;
        assert!(to >= end, "only what is published can be made durable");
        let from = self.durable().segment();
        let segments = self.lock_tail().chain.range(from..=to.segment()).map(|(_, held)| Arc::clone(held)).collect();
        let number = syncs.next_number;
        syncs.next_number += 1;
        syncs.issued.push_back(Issued { number, to, handle, is_done: false });
        Some(Attempt::Run(SyncJob { number, handle, segments }))
    }

    pub(super) fn finish_sync(&self, job: &SyncJob, result: Result<()>) -> Result<()> {
        if let Err(error) = result {
            return Err(self.health.poison(error));
        }
        {
            let mut syncs = self.lock_syncs();
            let mut frontier = self.durable();
            for issued in syncs.issued.iter_mut().filter(|issued| issued.number == job.number) {
                issued.is_done = true;
                if planted(Bug::SyncClaimsTooMuch) {
                    issued.to = issued.to.max(self.published().position);
                }
            }
            while let Some(to) = syncs.issued.front().filter(|first| first.is_done).map(|first| first.to) {
                syncs.issued.pop_front();
                frontier = frontier.max(to);
            }
            self.durable.store(frontier.raw(), Ordering::Release);
        }
        self.synced.notify_all();
        // Segments that were let go before they were durable can be used again now.
        self.recycle_what_may_be();
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn issue_for_tests(&self, end: LogPosition) -> Option<SyncJob> {
        self.attempt(end).and_then(|attempt| if let Attempt::Run(job) = attempt { Some(job) } else { None })
    }

    fn lock_syncs(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interval syncer: from the first record that is not durable on, at most the interval passes to its sync.
    pub(super) async fn sync_at_intervals(self: Arc<Self>) {
        let Some(interval) = self.options.sync_interval else {
            return;
        };
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        loop {
            let condition = || (self.is_ended() || self.published().position > self.durable()).then_some(());
            self.environment.until(&self.advanced, condition).await;
            let ticket = self.ended.ticket();
            if self.is_ended() {
                return;
            }
            self.environment.sleep_or(interval_ns, &self.ended, ticket).await;
            if self.is_ended() {
                return;
            }
            if self.sync_in_background(self.published().position).await.is_err() {
                return;
            }
        }
    }
}

impl SyncJob {
    fn run(&self) -> Result<()> {
        if planted(Bug::LogSyncDropped) {
            return Ok(());
        }
        self.segments.iter().try_for_each(|segment| segment.handles[self.handle].sync())
    }

    async fn run_in_background(&self) -> Result<()> {
        if planted(Bug::LogSyncDropped) {
            return Ok(());
        }
        for segment in &self.segments {
            BackgroundFile::new(Arc::clone(&segment.handles[self.handle])).sync().await?;
        }
        Ok(())
    }
}
