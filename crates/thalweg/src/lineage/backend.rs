//! How the outputs of an edit become durable: the back-end trait (DESIGN 6).
//!
//! [`SyncEachFile`] is what LevelDB does: every output, then their directory, before the edit is appended. A failed
//! sync poisons (NOB-A7): the kernel may have dropped what it covered, so nothing is retried on that file.

use super::current;
use crate::error::{Error, ErrorKind, Result};
use crate::format::TableId;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundFile, Environment, Health, yield_now};
use crate::storage::{File, OpenMode};
use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// How edits become durable (DESIGN 6: the back-end trait).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurabilityBackend {
    /// What LevelDB does: every output, its directory and the manifest are synced for each edit.
    #[default]
    SyncEachFile,
}

/// A step that may wait.
pub(super) type Step<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A way to make the outputs of edits durable.
pub(super) trait Backend: Send + Sync {
    /// Makes these tables and their names durable, before an edit names them. On `NoSpace` none of them may be named,
    /// now or later; other errors have poisoned.
    fn make_durable(&self, outputs: Vec<Unsynced>) -> Step<'_>;
}

/// A table to be made durable.
pub(super) struct Unsynced {
    pub(super) id: TableId,
    /// As its writer had it open: there the kernel tells of every write-back that failed. Else it is opened anew.
    pub(super) file: Option<Arc<dyn File>>,
}

/// A sync for every file.
pub(super) struct SyncEachFile {
    pub(super) environment: Environment,
    pub(super) health: Arc<Health>,
    /// The directory of the tables.
    pub(super) directory: PathBuf,
    /// Tables whose sync met a full disk. Some of their bytes may be gone for good, though a second sync would succeed.
    /// Its lock is held for one look.
    pub(super) refused: Mutex<BTreeSet<TableId>>,
}

impl Backend for SyncEachFile {
    fn make_durable(&self, outputs: Vec<Unsynced>) -> Step<'_> {
        Box::pin(async move {
            if outputs.is_empty() {
                return Ok(());
            }
            for table in outputs {
                self.sync_table(table).await?;
            }
            yield_now().await;
            if !planted(Bug::DirectorySyncDropped) {
                let synced = self.environment.storage.sync_directory(&self.directory);
                synced.map_err(|error| self.health.poison(error))?;
            }
            yield_now().await;
            Ok(())
        })
    }
}

impl SyncEachFile {
    async fn sync_table(&self, Unsynced { id, file }: Unsynced) -> Result<()> {
        let path = self.directory.join(current::table_name(id));
        if self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            return Err(Error::NoSpace { path: Arc::from(path) });
        }
        let storage = &*self.environment.storage;
        let opened = file.map_or_else(|| current::open(storage, &path, OpenMode::ReadWrite), Ok);
        let file = BackgroundFile::new(opened.map_err(|error| self.health.poison(error))?);
        let synced = if planted(Bug::TableSyncDropped) { Ok(()) } else { file.sync().await };
        match synced {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
                Err(error)
            }
            Err(error) => Err(self.health.poison(error)),
            Ok(()) => Ok(()),
        }
    }
}
