//! [`Pace`]: what takes time in a [`World`], and who is kept from running for long.
//!
//! *Syncs* take their time in the plans that say so. One that a ring carries out holds up nobody; any other holds up
//! who makes it: a client, or every coroutine of the worker it is made on. Time then passes only by steps, or when
//! nobody can run, so that what is late is late because it waited.
//!
//! A client is *parked* between a reservation and its publication, as a thread that the processor does not come back
//! to: for up to some hundred milliseconds, over a close and the next open too.
//!
//! Locks: `pace`, for a few instructions, also under the world's `state`; nothing is called under it.

use crate::rng::Rng;
use crate::world::{Running, World};
use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;
use thalweg::Result;
use thalweg::simulation::{Lane, Point, SyncInFlight};

/// Nobody is parked for longer.
const PARKED_NS_MAX: u64 = 400_000_000;

/// How many may be parked at a time.
const PARKED_MAX: usize = 2;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Pace {
    timing: Option<Timing>,
    /// Workers that are held up, and until when.
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

    /// Whether syncs take time, and the workers that are held up now.
    pub(crate) fn busy(&mut self, now_ns: u64) -> (bool, Vec<(u64, Lane)>) {
        self.busy.retain(|(_, until_ns)| *until_ns > now_ns);
        (self.timing.is_some(), self.busy.iter().map(|(worker, _)| *worker).collect())
    }

    /// How long the next sync takes.
    fn draw_sync_ns(&mut self) -> Option<u64> {
        let timing = self.timing.as_mut()?;
        // Mostly as long as can be: who waits for two of them is to be told from who waits for one.
        Some(if timing.rng.percent(70) { timing.sync_ns_max } else { timing.rng.below(timing.sync_ns_max) })
    }

    /// For how long a client at this point is parked, if it is.
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

    /// From now on a sync takes up to `sync_ns_max`.
    pub fn time_syncs(&self, rng: Rng, sync_ns_max: u64, has_rings: bool) {
        self.pace().timing = Some(Timing { rng, sync_ns_max, has_rings });
    }

    /// Whether coroutines hand their syncs to a ring.
    pub(crate) fn has_rings(&self) -> bool {
        self.pace().timing.as_ref().is_some_and(|timing| timing.has_rings)
    }

    /// From now on a client is parked at one point in so many; `None`: at none.
    pub fn park_clients(&self, parking: Option<(Rng, u64)>) {
        self.pace().parking = parking.map(|(rng, one_in)| Parking { rng, one_in });
    }

    /// Parks the client that runs, perhaps. Whether it was.
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

    /// A sync that whoever runs waits for himself.
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
                // A sync of several files makes one after the other, and the bound is on the whole.
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
