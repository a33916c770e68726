//! [`Pace`]: the durations in a world, and the clients that are kept from running (`pacing.rs` makes them wait).
//!
//! *Syncs* take time in some plans. A sync of a ring blocks nothing. Any other sync blocks its caller: a client, or all
//! coroutines of the worker on which it is made. Time then passes only by steps, or when nothing can run, so an event
//! can only be late because it waited.
//!
//! A client is *parked* between a reservation and its publication, like a thread that the processor does not run. It is
//! parked for up to some hundred milliseconds, even across a close and the next open.
//!
//! Locks: `pace`, for a few instructions, also under the world's `state`; nothing is called under it.

use crate::rng::Rng;
use std::collections::BTreeSet;
use thalweg::simulation::{Lane, Point};

/// The longest time for which a client is parked.
const PARKED_NS_MAX: u64 = 400_000_000;

/// The number of clients that may be parked at a time.
const PARKED_MAX: usize = 2;

/// The timing of one world: durations of syncs, blocked workers, parked clients.
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

    /// Makes each sync take up to `sync_ns_max`.
    pub(crate) fn time_syncs(&mut self, rng: Rng, sync_ns_max: u64, has_rings: bool) {
        self.timing = Some(Timing { rng, sync_ns_max, has_rings });
    }

    /// Whether coroutines hand their syncs to a ring.
    pub(crate) fn has_rings(&self) -> bool {
        self.timing.as_ref().is_some_and(|timing| timing.has_rings)
    }

    /// Blocks a worker until `until_ns`.
    pub(crate) fn block(&mut self, worker: (u64, Lane), until_ns: u64) {
        self.busy.push((worker, until_ns));
    }

    /// Parks a client at one point in this many; `None`: at none.
    pub(crate) fn park_clients(&mut self, parking: Option<(Rng, u64)>) {
        self.parking = parking.map(|(rng, one_in)| Parking { rng, one_in });
    }

    /// Notes that the client in `slot` is parked, or continues.
    pub(crate) fn set_parked(&mut self, slot: usize, is_parked: bool) {
        if is_parked {
            self.parked.insert(slot);
        } else {
            self.parked.remove(&slot);
        }
    }

    /// The time that the next sync takes.
    pub(crate) fn draw_sync_ns(&mut self) -> Option<u64> {
        let timing = self.timing.as_mut()?;
        // Mostly the longest time, so that a wait for two syncs differs from a wait for one.
        Some(if timing.rng.percent(70) { timing.sync_ns_max } else { timing.rng.below(timing.sync_ns_max) })
    }

    /// The time that the next sync takes on a ring, and the part of it before its effect, if there are rings.
    pub(crate) fn draw_ring_sync_ns(&mut self) -> Option<(u64, u64)> {
        let ns = self.draw_sync_ns()?;
        let timing = self.timing.as_mut().filter(|timing| timing.has_rings)?;
        Some((ns, timing.rng.below(ns + 1)))
    }

    /// The time for which a client at this point is parked, if it is.
    pub(crate) fn draw_parked_ns(&mut self, point: Point) -> Option<u64> {
        let is_between = matches!(point, Point::Reserved | Point::Copying | Point::Copied | Point::Inserted);
        if !is_between || self.parked.len() >= PARKED_MAX {
            return None;
        }
        let parking = self.parking.as_mut()?;
        parking.rng.one_in(parking.one_in).then(|| parking.rng.between(1_000_000, PARKED_NS_MAX))
    }
}
