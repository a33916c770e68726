//! [`DefinitionInstaller`]: definitions on their way into the manifest.

use super::cleared::ClearedGenerations;
use super::log_pins::LogPins;
use super::registry::Registry;
use super::signals::Signals;
use crate::error::{Error, Result};
use crate::lineage::{Edit, Lineage};
use crate::runtime::Environment;
use std::sync::Arc;

/// See the module. One coroutine calls it: definitions are installed in the order of the log, and those of a keyspace
/// before its first flush.
pub(crate) struct DefinitionInstaller {
    pub(crate) environment: Environment,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log_pins: Arc<LogPins>,
    pub(crate) cleared: Arc<ClearedGenerations>,
    pub(crate) signals: Arc<Signals>,
}

impl DefinitionInstaller {
    /// Tells the manifest of all keyspaces created, dropped and cleared so far, in one edit.
    pub(crate) async fn install(&self) -> Result<()> {
        let (edit, count, ended) = self.registry.definitions().edit();
        // Running jobs of keyspaces that are gone see that and give up; no new ones begin.
        let are_idle = || ended.iter().all(|keyspace| keyspace.is_idle());
        let is_time = || (are_idle() || self.signals.is_stopping()).then_some(());
        self.environment.until(&self.signals.progress, is_time).await;
        if self.signals.is_stopping() {
            return Err(Error::Closed);
        }
        let inputs = ended.iter().flat_map(|keyspace| keyspace.tables()).collect();
        let remove = || {
            self.registry.definitions().remove(count, |definition| {
                let cleared = definition.ended.filter(|keyspace| keyspace.lifecycle().is_cleared());
                // Kept before it leaves the queue: readers find it without a gap.
                cleared.into_iter().for_each(|keyspace| self.cleared.keep(keyspace, definition.seq));
            });
        };
        self.lineage.install(edit, inputs, || Some(self.log_start()), remove).await?;
        // Handles of a dropped keyspace may live on; its contents are released.
        let dropped = ended.iter().filter(|keyspace| !keyspace.lifecycle().is_cleared());
        dropped.for_each(|keyspace| keyspace.empty());
        self.cleared.sweep();
        self.lineage.wake_cleanup();
        self.signals.progress.notify_all();
        Ok(())
    }

    /// Tells the manifest that the log is needed only from a later segment on, when no flush does so.
    pub(crate) async fn let_log_go(&self) -> Result<()> {
        self.lineage.install(Edit::default(), Vec::new(), || Some(self.log_start()), || ()).await?;
        self.signals.progress.notify_all();
        Ok(())
    }

    fn log_start(&self) -> crate::format::LogMark {
        self.log_pins.start_after(|keyspace| keyspace.oldest_mark())
    }
}
