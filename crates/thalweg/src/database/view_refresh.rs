//! [`ViewRefresh`]: when a range takes newer views of its partitions.
//!
//! A range reads the tables of the moment at which it was made. In the fast tier these would stay, replaced or not,
//! until it ends: one slow range could keep a whole tier of them. So while tables that only readers have take a tenth
//! of the tier, a range that goes on lets go of its views, takes those of now, and continues behind the last key that
//! it gave. Its registered snapshot keeps the versions that it is to see, in whatever tables.
//!
//! Once the keyspace was dropped, or no snapshot can read its generation, there are no newer views, and the range keeps
//! what it has. A range that is not asked for entries keeps what it has, too.

use super::engine::{Engine, Mode};
use crate::keyspaces::TierRoom;
use crate::ordered::OrderedKeyspace;
use std::sync::Arc;

/// See the module.
pub(super) struct ViewRefresh {
    room: Arc<TierRoom>,
    keyspace: Arc<OrderedKeyspace>,
    /// How often tables of the tier had been replaced before the views were taken.
    seen: u64,
}

impl ViewRefresh {
    /// That of a range whose views are taken after this call; `None` where there is no fast tier.
    pub(super) fn new(engine: &Engine, keyspace: &Arc<OrderedKeyspace>) -> Option<Self> {
        let Mode::Writable(writable) = &engine.mode else { return None };
        let room = writable.backpressure.tier.as_ref()?;
        let (room, keyspace) = (Arc::clone(room), Arc::clone(keyspace));
        Some(ViewRefresh { seen: room.replacements(), room, keyspace })
    }

    /// Whether readers keep much of the tier, and newer views may let go of some of it.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.room.is_held_by_readers() && self.room.replacements() != self.seen
    }

    /// Newer views are taken after this call, from the keyspace that it returns.
    pub(super) fn begin(&mut self) -> &OrderedKeyspace {
        self.seen = self.room.replacements();
        &self.keyspace
    }
}
