//! [`Dependencies`]: what the background work on ordered keyspaces is built on.

use super::options::OrderedOptions;
use crate::keyspaces::{
    Backpressure, ClearedGenerations, DefinitionInstaller, IdleMemory, LogPins, Registry, Signals, SnapshotRegistry,
    SpaceWatch,
};
use crate::lineage::Lineage;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::runtime::{Environment, Health};
use crate::table::TableStore;
use std::sync::Arc;

/// See the module. Each part of [`super::OrderedBackground`] takes what it uses.
pub(crate) struct Dependencies {
    pub(crate) environment: Environment,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Arc<Log>,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) tables: Arc<TableStore>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log_pins: Arc<LogPins>,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    pub(crate) cleared: Arc<ClearedGenerations>,
    pub(crate) installer: Arc<DefinitionInstaller>,
    pub(crate) backpressure: Arc<Backpressure>,
    pub(crate) space: Arc<SpaceWatch>,
    pub(crate) idle_memory: Arc<IdleMemory>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) options: Arc<OrderedOptions>,
}
