//! The populater: the background coroutine that makes the pages of prepared segments ready for stores.
//!
//! A store to a page that is not in the page cache, or not writable in the mapping, waits for the kernel, and perhaps
//! for the device. So a segment becomes a spare, which writers may take, only when its pages are ready. But pages that
//! are ready are dirty, and if memory is short the kernel writes them before there are records in them. So only the
//! next few segments are ready. Further ones are only durable, which takes longer but leaves no dirty pages.
//!
//! Pages of a recycled file that the page cache has evicted become zeros, so that no bytes are read only to be
//! overwritten ([`Segment::make_ready`]). Locks: the tail's, never over I/O.

use super::header::SegmentId;
use super::open::Log;
use super::preparer::Failure;
use super::segment::Segment;
use crate::planted::{Bug, planted};
use crate::runtime::yield_now;
use std::sync::Arc;

/// A segment whose pages are to be made ready.
enum Next {
    /// The segment that the log began in. It may have records.
    InUse(Arc<Segment>),
    /// The first prepared segment that is not ready.
    Prepared(Arc<Segment>),
}

impl Log {
    /// Runs until the log ends.
    pub(super) async fn populate_segments(self: Arc<Self>) {
        loop {
            let ticket = self.wanted.ticket();
            if self.is_ended() {
                return;
            }
            let next = self.next_to_populate();
            let continues = match next {
                Some(Next::InUse(segment)) => self.populate_in_use(&segment).await,
                Some(Next::Prepared(segment)) => self.make_ready(segment).await,
                None => {
                    self.wanted.listen(ticket).await;
                    true
                }
            };
            if !continues {
                return;
            }
        }
    }

    fn next_to_populate(&self) -> Option<Next> {
        let supply = &mut self.lock_tail().supply;
        if let Some(segment) = supply.begun_in.take() {
            return Some(Next::InUse(segment));
        }
        let first = supply.unpopulated.front()?;
        let wanted = supply.wanted.max(supply.sizing.ready());
        (supply.spares.len() < wanted).then(|| Next::Prepared(Arc::clone(first)))
    }

    /// Populates the segment that the log began in. Returns whether the populater continues.
    async fn populate_in_use(&self, segment: &Segment) -> bool {
        let mut from = Some(0);
        while let Some(at) = from {
            yield_now().await;
            if self.is_ended() {
                return false;
            }
            match segment.populate(at) {
                Ok(next) => from = next,
                Err(error) => {
                    drop(self.health.poison(error));
                    return false;
                }
            }
        }
        true
    }

    /// Makes the first prepared segment ready, and gives it out as a spare. Stops if the segment is not wanted any
    /// more, because its file is being removed. Returns whether the populater continues.
    async fn make_ready(&self, segment: Arc<Segment>) -> bool {
        let is_early = planted(Bug::SpareBeforeRenewal);
        if is_early {
            self.add_spare(segment.id);
        }
        let has_ring = self.environment.scheduler.ring_refused().is_none();
        let mut from = Some(0);
        while let Some(at) = from {
            // Without a ring the worker may wait for a sync between two steps.
            if has_ring || at == 0 {
                yield_now().await;
            }
            if self.is_ended() {
                return false;
            }
            if !is_early && !self.lock_tail().supply.is_first_unpopulated(segment.id) {
                return true;
            }
            match segment.make_ready(at) {
                Ok(next) => from = next,
                Err(error) => {
                    {
                        let supply = &mut self.lock_tail().supply;
                        let failed = supply.take_first_unpopulated(segment.id);
                        supply.useless.extend(failed.map(|failed| (failed.path.clone(), Some(failed))));
                    }
                    let continues = self.fail(Failure { error, is_harmless: false });
                    // The preparer removes the file, and makes another segment for whoever waits.
                    self.wanted.notify_all();
                    return continues;
                }
            }
        }
        self.add_spare(segment.id);
        true
    }

    /// Makes the first prepared segment a spare, if it is still `id`.
    fn add_spare(&self, id: SegmentId) {
        {
            let supply = &mut self.lock_tail().supply;
            let ready = supply.take_first_unpopulated(id);
            supply.spares.extend(ready);
        }
        self.supplied.notify_all();
    }
}
