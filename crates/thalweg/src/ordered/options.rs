//! [`OrderedOptions`]: how ordered keyspaces are kept.

use super::tier::Tier;
use crate::compaction::Policy;
#[cfg(feature = "experiments")]
use crate::directory::FHashOptions;
use crate::runtime::{Event, Space};
use std::sync::{Arc, OnceLock};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct OrderedOptions {
    /// An active memtable is sealed at this many bytes.
    pub(crate) memtable_bytes: usize,
    /// Writers wait when a partition has this many tables in level 0.
    pub(crate) level0_stop: usize,
    /// Coroutines that compact.
    pub(crate) compactors: usize,
    /// Splits may make this many partitions of one.
    pub(crate) partitions_max: usize,
    pub(crate) policy: Policy,
    pub(crate) space: Arc<Space>,
    /// Wakes the compactors when reads have paid for a compaction (see `Level0Reads`).
    pub(crate) wake: Arc<CompactorsWake>,
    /// The fast tier, where memtables go before level 0.
    pub(crate) tier: Option<Arc<Tier>>,
    /// How the f-hashes of directory keyspaces are kept, if they have them.
    #[cfg(feature = "experiments")]
    pub(crate) f_hashes: Option<Arc<FHashOptions>>,
}

/// The event that compactors wait for, once there are compactors: options are made before them.
#[derive(Debug, Default)]
pub(crate) struct CompactorsWake(OnceLock<Arc<Event>>);

impl CompactorsWake {
    /// Sets the event of a database. Later calls do nothing.
    pub(super) fn set(&self, event: &Arc<Event>) {
        self.0.get_or_init(|| Arc::clone(event));
    }

    #[cold]
    pub(super) fn wake(&self) {
        if let Some(event) = self.0.get() {
            event.notify_all();
        }
    }
}
