//! [`ViewRefresh`]: when a range takes newer views of its partitions.
//!
//! A range reads the tables of the moment at which it was made. Tables of the fast tier would stay until the range
//! ends, replaced or not: one slow range could keep a whole tier of them. So a range looks, when it is asked for an
//! entry, whether tables that only readers hold take more than a tenth of the tier. If so, and if it holds such tables,
//! it releases its views, takes present ones, and continues behind the last key that it gave. Its registered snapshot
//! keeps the versions that it is to see, in whatever tables they are.
//!
//! If the keyspace can no longer be read (it was dropped), there are no newer views, and the range keeps its own. So
//! does a range that is not asked for entries.

use super::engine::{Engine, Mode};
use crate::keyspaces::TierRoom;
use crate::ordered::OrderedKeyspace;
use std::sync::Arc;

/// The views of a range that may be replaced by newer ones; see the module.
pub(super) struct ViewRefresh {
    keyspace: Arc<OrderedKeyspace>,
    /// How often tables had left the tier before the views were taken, or compared with newer ones.
    seen: u64,
}

fn room(engine: &Engine) -> Option<&TierRoom> {
    let Mode::Writable(writable) = &engine.mode else { return None };
    writable.backpressure.tier.as_deref()
}

impl ViewRefresh {
    /// The refresh of a range whose views are taken after this call; `None` if there is no fast tier.
    pub(super) fn new(engine: &Engine, keyspace: &Arc<OrderedKeyspace>) -> Option<Self> {
        let seen = room(engine)?.replacements();
        Some(ViewRefresh { keyspace: Arc::clone(keyspace), seen })
    }

    /// Whether readers hold much of the tier, and newer views may release some of it.
    #[inline]
    pub(super) fn is_due(&self, engine: &Engine) -> bool {
        room(engine).is_some_and(|room| room.is_held_by_readers() && room.replacements() != self.seen)
    }

    /// Returns the keyspace, whose views are taken after this call.
    pub(super) fn begin(&mut self, engine: &Engine) -> &OrderedKeyspace {
        self.seen = room(engine).map_or(0, TierRoom::replacements);
        &self.keyspace
    }
}
