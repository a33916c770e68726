//! [`OrderedOptions`]: how ordered keyspaces are kept.

use super::tier::Tier;
use crate::compaction::Policy;
#[cfg(feature = "experiments")]
use crate::directory::FHashOptions;
use crate::runtime::Space;
use std::sync::Arc;

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
    /// Where memtables go before level 0.
    pub(crate) tier: Option<Arc<Tier>>,
    /// How the f-hashes of directory keyspaces are kept, if they have them.
    #[cfg(feature = "experiments")]
    pub(crate) f_hashes: Option<Arc<FHashOptions>>,
}
