//! [`Pace`]: what takes time in a [`World`], and which clients are kept from running.
//!
//! *Syncs* take time in the plans that say so. A sync of a ring blocks nothing. Any other sync blocks its caller: a
//! client, or all coroutines of the worker it is made on. Time then passes only by steps, or when nothing can run, so a
//! late event is late because it waited.
//!
//! A client is *parked* between a reservation and its publication, as a thread that the processor does not run: for up
//! to some hundred milliseconds, also across a close and the next open.
//!
//! Locks: `pace`, for a few instructions, also under the world's `state`; nothing is called under it.

use crate::rng::Rng;
use crate::runnable::Running;
use crate::world::World;
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;
use thalweg::Result;
use thalweg::simulation::{Lane, Point, SyncInFlight};

/// The longest time for which a client is parked.
const PARKED_NS_MAX: u64 = 400_000_000;

/// The number of clients that may be parked at a time.
const PARKED_MAX: usize = 2;

/// What takes time in one world.
#[derive(Default)]
pub(crate) struct Pace {
    timing: Option<Timing>,
    /// The blocked workers, each with the time of its end.
    busy: Vec<((u64, Lane), u64)>,
    parking: Option<Parking>,
    parked: BTreeSet<usize>,
}

struct Timing {
    rng: Rng,
    sync_ns_max: u64,
    has_rings: bool,
}

struct Parking {
    rng: Rng,
    one_in: u64,
}

impl Pace {
    pub(crate) fn parked(&self) -> BTreeSet<usize> {
        self.parked.clone()
    }

    /// Whether syncs take time, and the workers that are blocked now.
    pub(crate) fn busy(&mut self, now_ns: u64) -> (bool, Vec<(u64, Lane)>) {
        self.busy.retain(|(_, until_ns)| *until_ns > now_ns);
        (self.timing.is_some(), self.busy.iter().map(|(worker, _)| *worker).collect())
    }

    /// The time that the next sync takes.
    fn draw_sync_ns(&mut self) -> Option<u64> {
        let timing = self.timing.as_mut()?;
        // Mostly the longest time, so that a wait for two syncs differs from a wait for one.
        Some(if timing.rng.percent(70) { timing.sync_ns_max } else { timing.rng.below(timing.sync_ns_max) })
    }

    /// The time for which a client at this point is parked, if it is.
    fn draw_parked_ns(&mut self, point: Point) -> Option<u64> {
        let is_between = matches!(point, Point::Reserved | Point::Copying | Point::Copied | Point::Inserted);
        if !is_between || self.parked.len() >= PARKED_MAX {
            return None;
        }
        let parking = self.parking.as_mut()?;
        parking.rng.one_in(parking.one_in).then(|| parking.rng.between(1_000_000, PARKED_NS_MAX))
    }
}

impl World {
    pub(crate) fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes each sync take up to `sync_ns_max`.
    pub fn time_syncs(&self, rng: Rng, sync_ns_max: u64, has_rings: bool) {
        self.pace().timing = Some(Timing { rng, sync_ns_max, has_rings });
    }

    /// Whether coroutines hand their syncs to a ring.
    pub(crate) fn has_rings(&self) -> bool {
        self.pace().timing.as_ref().is_some_and(|timing| timing.has_rings)
    }

    /// Parks a client at one point in this many; `None`: at none.
    pub fn park_clients(&self, parking: Option<(Rng, u64)>) {
        self.pace().parking = parking.map(|(rng, one_in)| Parking { rng, one_in });
    }

    /// Perhaps parks the running client. Returns whether it did.
    pub(crate) fn park_at(&self, point: Point) -> bool {
        let Running::Client(slot) = self.running() else { return false };
        let Some(ns) = self.pace().draw_parked_ns(point) else { return false };
        self.say(|| format!("is parked at {point:?} for {ns} ns"));
        self.pace().parked.insert(slot);
        self.sleep(ns);
        self.pace().parked.remove(&slot);
        self.say(|| "goes on".into());
        true
    }

    /// A sync for which its caller waits.
    pub(crate) fn blocking_sync(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(ns) = self.pace().draw_sync_ns() else { return sync() };
        match self.running() {
            Running::Task(number) => {
                let until_ns = self.now_ns() + ns;
                if let Some(worker) = self.worker_of(number) {
                    self.pace().busy.push((worker, until_ns));
                    self.set_timer(until_ns, Waker::noop().clone());
                }
                sync()
            }
            Running::Main => sync(),
            Running::Client(_) => {
                // A sync of several files syncs one after the other, and the bound is on the whole.
                self.sleep(ns / 8);
                let done = sync();
                self.sleep(ns / 8);
                done
            }
        }
    }

    /// A sync that a ring carries out, if there are rings.
    pub(crate) fn ring_sync(
        self: &Arc<Self>,
        sync: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Option<SyncInFlight> {
        let (ns, before_ns) = {
            let mut pace = self.pace();
            let ns = pace.draw_sync_ns()?;
            let timing = pace.timing.as_mut().filter(|timing| timing.has_rings)?;
            (ns, timing.rng.below(ns + 1))
        };
        let world = Arc::clone(self);
        Some(Box::pin(async move {
            let ended_ns = world.now_ns() + ns;
            world.sleep_until(ended_ns - ns + before_ns).await;
            let done = sync();
            world.sleep_until(ended_ns).await;
            done
        }))
    }
}
