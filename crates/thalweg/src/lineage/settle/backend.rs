//! How edits become durable: the back-ends, behind one trait (DESIGN 6, `docs/durability.md`).
//!
//! A back-end says two things: what an edit waits for *before* it is appended to the manifest, and what a *round* does
//! with the outputs of the edits it settles. Who syncs the manifest, and when, follows from its [`Rule`].
//!
//! A failed sync or write-out poisons (NOB-A7): the kernel may have dropped what it covered, so nothing is retried on
//! that file. Two exceptions: for [`SyncEachFile`] alone a full disk before any edit names the table; and a file that
//! could not be opened for want of a descriptor, of which nothing was asked.

use crate::error::{Error, ErrorKind, Result};
use crate::format::TableId;
use crate::lineage::manifest::current;
use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundDirectory, BackgroundFile, Environment, Health, several};
use crate::storage::{File, OpenMode};
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// How table files and edits of the manifest become durable (`docs/durability.md`).
///
/// None of them changes what a write promises: that is the log's ([`crate::Durability`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "the others are chosen by experiments"))]
pub enum DurabilityBackend {
    /// Nothing waits: edits are used at once, and a round in the background makes many of them durable together. Their
    /// predecessors stay on the medium until then (NobLSM, NOB-3, 4, 7 with the readings NOB-A1, A2, A3, A5, A7).
    #[default]
    SettleRounds,
    /// What LevelDB does: every output, its directory and the manifest are synced for each edit, and the flush or
    /// compaction waits for that.
    SyncEachFile,
    /// NobLSM's own rule, to measure and to show it: a flush syncs its table, a compaction nothing, and every 5 s
    /// (NOB-6) the commit counter of the file system's journal is read: what was written before a commit is believed
    /// durable. **A power cut may lose what was promised**: on ext4 a commit does not prove that the data arrived
    /// (NOB-A1). Without a journal that tells its commits it believes at once. What a checkpoint, the close or
    /// [`crate::Database::settle`] finds not believed yet is synced; what was believed is not.
    Paper,
    /// Tables are never synced, not for a checkpoint or the close either. **A power cut may lose all of the database**,
    /// the death of the process nothing. For measurements, and for data that can be made again.
    None,
}

/// Who syncs the manifest, and what is believed durable when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) enum Rule {
    /// Each edit, which waits for it; its outputs were durable before.
    EachEdit,
    /// Rounds, and nobody waits.
    Rounds,
    /// Nobody: what a later commit of the journal must have covered is believed.
    Commits,
    /// Nobody: everything is believed at once.
    Nothing,
}

/// A step that may wait.
pub(in crate::lineage) type Step<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A way to make the outputs of edits durable.
pub(in crate::lineage) trait Backend: Send + Sync {
    /// Who syncs the manifest.
    fn rule(&self) -> Rule;
    /// Before an edit that names these tables, in level 0 (`is_flush`) or below, is appended. On `NoSpace` none of them
    /// may be named, now or later; nor on a shortage of descriptors; other errors have poisoned.
    fn prepare(&self, _outputs: Vec<Unsynced>, _is_flush: bool) -> Step<'_> {
        Box::pin(async { Ok(()) })
    }
    /// In a round: these tables and their names are durable once the manifest, which has grown since, is synced. Errors
    /// have poisoned, but for a shortage of descriptors.
    fn settle(&self, _outputs: Vec<Unsynced>) -> Step<'_> {
        Box::pin(async { Ok(()) })
    }
}

/// A table to be made durable.
pub(in crate::lineage) struct Unsynced {
    pub(in crate::lineage) id: TableId,
    /// As its writer had it open: there the kernel tells of every write-back that failed. Else it is opened anew.
    pub(in crate::lineage) file: Option<Arc<dyn File>>,
}

impl DurabilityBackend {
    /// For the tables in `directory`, of a manifest in `root`; both exist.
    pub(in crate::lineage) fn begin(
        self,
        environment: &Environment,
        health: &Arc<Health>,
        metrics: &Arc<Metrics>,
        root: &Path,
    ) -> Result<Box<dyn Backend>> {
        let (storage, directory) = (&environment.storage, root.join("tables"));
        let commits_together = storage.commits_together(&[root, &directory]) || planted(Bug::JournalAssumed);
        let tables = Tables {
            environment: environment.clone(),
            health: Arc::clone(health),
            metrics: Arc::clone(metrics),
            directory: BackgroundDirectory::open(storage, &directory)?,
            has_one_journal: commits_together,
        };
        Ok(match self {
            DurabilityBackend::SettleRounds => Box::new(SettleRounds { tables, commits_together }),
            DurabilityBackend::SyncEachFile => Box::new(SyncEachFile { tables, refused: Mutex::default() }),
            DurabilityBackend::Paper => Box::new(Paper { tables }),
            DurabilityBackend::None => Box::new(NoSyncs),
        })
    }
}

/// The table files, and what their syncs are told to.
struct Tables {
    environment: Environment,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    /// Theirs.
    directory: BackgroundDirectory,
    /// The file system is ext4, or one like it: see `Storage::commits_together`.
    has_one_journal: bool,
}

/// So many tables of a round are synced at the same time: a device, or a file system, that can do more than one thing
/// at a time is used, and its queue is not filled.
const SYNCS_AT_ONCE: usize = 8;

impl Tables {
    fn open(&self, Unsynced { id, file }: Unsynced) -> Result<BackgroundFile> {
        let storage = &*self.environment.storage;
        let path = self.directory.path().join(current::table_name(id));
        let opened = file.map_or_else(|| current::open(storage, &path, OpenMode::ReadWrite), Ok);
        Ok(BackgroundFile::new(opened?))
    }

    /// What keeps a file from being opened passes, if that is a shortage of descriptors: nothing was asked of the
    /// kernel that it could have dropped. Everything else poisons.
    fn failed(&self, error: Error) -> Error {
        if error.is_shortage() && !planted(Bug::DescriptorsPoison) { error } else { self.health.poison(error) }
    }

    async fn sync(&self, table: Unsynced) -> Result<()> {
        let file = self.open(table)?;
        if planted(Bug::TableSyncDropped) {
            return Ok(());
        }
        file.sync().await?;
        self.check_blocks(&file)
    }

    async fn write_out(&self, table: Unsynced) -> Result<()> {
        let file = self.open(table)?;
        if planted(Bug::TableSyncDropped) {
            return Ok(());
        }
        file.write_out().await?;
        self.check_blocks(&file)
    }

    /// ext4 tells a write-back that lost its pages only to who began it, and that may have been the kernel itself: no
    /// sync hears of it, but the file's blocks are not there (`docs/durability.md`).
    fn check_blocks(&self, file: &BackgroundFile) -> Result<()> {
        let is_lost = self.has_one_journal && file.file().is_written_whole() == Some(false);
        if !is_lost || planted(Bug::LostWriteBackSettled) {
            return Ok(());
        }
        Err(Error::io("write out", file.path(), io::Error::other("the kernel lost pages of it")))
    }

    async fn write_out_all(&self, tables: Vec<Unsynced>) -> Result<()> {
        // Told one by one: a shortage that comes first must not hide what another sync has dropped.
        let write_out = |table| async { self.write_out(table).await.map_err(|error| self.failed(error)) };
        several(tables.into_iter().map(write_out), SYNCS_AT_ONCE).await
    }

    /// The tables and their names.
    async fn sync_all(&self, tables: Vec<Unsynced>) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        let sync = |table| async { self.sync(table).await.map_err(|error| self.failed(error)) };
        several(tables.into_iter().map(sync), SYNCS_AT_ONCE).await?;
        self.sync_directory().await
    }

    async fn sync_directory(&self) -> Result<()> {
        if planted(Bug::DirectorySyncDropped) {
            return Ok(());
        }
        self.directory.sync().await.map_err(|error| self.failed(error))
    }

    fn waited(&self, syncs: u64) {
        self.metrics.syncs_waited_for.add(syncs);
    }
}

/// See [`DurabilityBackend::SettleRounds`].
struct SettleRounds {
    tables: Tables,
    /// One journal commits the manifest and everything before it; else each file is synced, and the directory.
    commits_together: bool,
}

impl Backend for SettleRounds {
    fn rule(&self) -> Rule {
        Rule::Rounds
    }

    fn settle(&self, outputs: Vec<Unsynced>) -> Step<'_> {
        let tables = &self.tables;
        Box::pin(async move {
            if self.commits_together { tables.write_out_all(outputs).await } else { tables.sync_all(outputs).await }
        })
    }
}

/// See [`DurabilityBackend::SyncEachFile`].
struct SyncEachFile {
    tables: Tables,
    /// Tables whose sync met a full disk. Some of their bytes may be gone for good, though a second sync would succeed.
    /// Its lock is held for one look.
    refused: Mutex<BTreeSet<TableId>>,
}

impl Backend for SyncEachFile {
    fn rule(&self) -> Rule {
        Rule::EachEdit
    }

    fn prepare(&self, outputs: Vec<Unsynced>, _: bool) -> Step<'_> {
        Box::pin(async move {
            if outputs.is_empty() {
                return Ok(());
            }
            self.tables.waited(outputs.len() as u64 + 1);
            for table in outputs {
                self.sync_table(table).await?;
            }
            self.tables.sync_directory().await
        })
    }
}

impl SyncEachFile {
    async fn sync_table(&self, table: Unsynced) -> Result<()> {
        let id = table.id;
        if self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            let path = self.tables.directory.path().join(current::table_name(id));
            return Err(Error::NoSpace { path: Arc::from(path) });
        }
        match self.tables.sync(table).await {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
                Err(error)
            }
            Err(error) => Err(self.tables.failed(error)),
            Ok(()) => Ok(()),
        }
    }
}

/// See [`DurabilityBackend::Paper`].
struct Paper {
    tables: Tables,
}

impl Backend for Paper {
    fn rule(&self) -> Rule {
        Rule::Commits
    }

    /// NOB-2: the one sync of a pair, when it leaves the memtable.
    fn prepare(&self, outputs: Vec<Unsynced>, is_flush: bool) -> Step<'_> {
        Box::pin(async move {
            for table in outputs.into_iter().filter(|_| is_flush) {
                self.tables.waited(1);
                self.tables.sync(table).await.map_err(|error| self.tables.failed(error))?;
            }
            Ok(())
        })
    }

    fn settle(&self, outputs: Vec<Unsynced>) -> Step<'_> {
        Box::pin(self.tables.sync_all(outputs))
    }
}

/// See [`DurabilityBackend::None`].
struct NoSyncs;

impl Backend for NoSyncs {
    fn rule(&self) -> Rule {
        Rule::Nothing
    }
}
