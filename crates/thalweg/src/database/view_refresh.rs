//! [`ViewRefresh`]: when a range takes newer views of its partitions.
//!
//! A range reads the tables of the moment at which it was made. In the fast tier these would stay, replaced or not,
//! until it ends: one slow range could keep a whole tier of them. So while tables that only readers have take more than
//! a tenth of the tier, a range that is asked for an entry, and that has such tables, lets go of its views, takes those
//! of now, and continues behind the last key that it gave. Its registered snapshot keeps the versions that it is to
//! see, in whatever tables.
//!
//! Once the keyspace cannot be read any more (it was dropped), there are no newer views, and the range keeps what it
//! has. So does a range that is not asked for entries.

use super::engine::{Engine, Mode};
use crate::keyspaces::TierRoom;
use crate::ordered::OrderedKeyspace;
use std::sync::Arc;

/// See the module.
pub(super) struct ViewRefresh {
    keyspace: Arc<OrderedKeyspace>,
    /// How often tables had left the tier before the views were taken, or looked at.
    seen: u64,
}

fn room(engine: &Engine) -> Option<&TierRoom> {
    let Mode::Writable(writable) = &engine.mode else { return None };
    writable.backpressure.tier.as_deref()
}

impl ViewRefresh {
    /// That of a range whose views are taken after this call; `None` where there is no fast tier.
    pub(super) fn new(engine: &Engine, keyspace: &Arc<OrderedKeyspace>) -> Option<Self> {
        let seen = room(engine)?.replacements();
        Some(ViewRefresh { keyspace: Arc::clone(keyspace), seen })
    }

    /// Whether readers keep much of the tier, and newer views may let go of some of it.
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
