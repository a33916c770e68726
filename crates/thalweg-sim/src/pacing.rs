//! The waits of a [`World`] that [`crate::pace::Pace`] asks for: syncs that take time, and parked clients.

use crate::rng::Rng;
use crate::runnable::Running;
use crate::world::World;
use std::sync::Arc;
use std::task::Waker;
use thalweg::Result;
use thalweg::simulation::{Event, Point, SyncInFlight};

impl World {
    /// Lets a client sleep in virtual time. On the main stack, runs background steps for that time.
    pub fn sleep(&self, ns: u64) {
        let event = Event::default();
        self.wait(&event, event.ticket(), Some(self.now_ns() + ns));
    }

    /// Makes each sync take up to `sync_ns_max`.
    pub fn time_syncs(&self, rng: Rng, sync_ns_max: u64, has_rings: bool) {
        self.pace().time_syncs(rng, sync_ns_max, has_rings);
    }

    /// Whether coroutines hand their syncs to a ring.
    pub(crate) fn has_rings(&self) -> bool {
        self.pace().has_rings()
    }

    /// Parks a client at one point in this many; `None`: at none.
    pub fn park_clients(&self, parking: Option<(Rng, u64)>) {
        self.pace().park_clients(parking);
    }

    /// Parks the running client with some probability. Returns whether it did.
    pub(crate) fn park_at(&self, point: Point) -> bool {
        let Running::Client(slot) = self.running() else { return false };
        let Some(ns) = self.pace().draw_parked_ns(point) else { return false };
        self.say(|| format!("is parked at {point:?} for {ns} ns"));
        self.pace().set_parked(slot, true);
        self.sleep(ns);
        self.pace().set_parked(slot, false);
        self.say(|| "goes on".into());
        true
    }

    /// Makes a sync for which its caller waits.
    pub(crate) fn blocking_sync(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(ns) = self.pace().draw_sync_ns() else { return sync() };
        match self.running() {
            Running::Task(number) => {
                let until_ns = self.now_ns() + ns;
                if let Some(worker) = self.worker_of(number) {
                    self.pace().block(worker, until_ns);
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

    /// Makes a sync on a ring, if there are rings.
    pub(crate) fn ring_sync(
        self: &Arc<Self>,
        sync: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Option<SyncInFlight> {
        let (ns, before_ns) = self.pace().draw_ring_sync_ns()?;
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
