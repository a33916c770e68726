//! How edits become durable: the back-ends, behind one trait (`docs/durability.md`).
//!
//! A back-end decides two things: what an edit waits for *before* it is appended to the manifest, and what a *round*
//! does with the outputs of its edits. Its [`Rule`] decides who syncs the manifest, and when.
//!
//! A failed sync or write-out poisons (NOB-A7): the kernel may have dropped the pages that it covered, so no sync of
//! that file is tried again. There are two exceptions. [`SyncEachFile`] accepts a full disk before any edit names the
//! table. And if a file could not be opened because descriptors ran out, nothing was synced, so no page was dropped.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Home, TableFile, TableId};
use crate::lineage::files::{self, Homes};
use crate::metrics::Metrics;
use crate::planted::{Bug, planted};
use crate::runtime::{BackgroundDirectory, BackgroundFile, Environment, Health, join_bounded};
use crate::storage::{File, OpenMode};
use crate::sync::Mutex;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

/// How table files and edits of the manifest become durable (`docs/durability.md`).
///
/// No back-end changes what a write promises; the log keeps that promise ([`crate::Durability`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "experiments"), allow(dead_code, reason = "the others are chosen by experiments"))]
pub enum DurabilityBackend {
    /// Edits are used at once, and no caller waits: a round in the background makes many edits durable together. The
    /// predecessors stay on the medium until then (NobLSM, NOB-3, 4, 7 with the readings NOB-A1, A2, A3, A5, A7).
    #[default]
    SettleRounds,
    /// Every output, its directory and the manifest are synced for each edit, as in LevelDB. The flush or compaction
    /// waits for these syncs.
    SyncEachFile,
    /// NobLSM's own rule, for experiments. A flush syncs its table, a compaction syncs nothing. Every 5 s (NOB-6) the
    /// commit counter of the file system's journal is read, and everything written before a commit is believed durable.
    /// **A power cut may lose what was promised**: on ext4 a commit does not prove that the data arrived (NOB-A1).
    /// Without a journal that reports its commits everything is believed durable at once. A checkpoint, the close and
    /// [`crate::Database::settle`] sync what is not believed durable yet, and nothing else.
    Paper,
    /// Tables are never synced, not even for a checkpoint or the close. **A power cut may lose the whole database**;
    /// the death of the process loses nothing. For measurements, and for data that can be made again.
    None,
}

/// The rule of a back-end: who syncs the manifest, and when an edit counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) enum Rule {
    /// Each edit syncs the manifest and waits for it. Its outputs were durable before.
    EachEdit,
    /// Rounds sync the manifest, and no edit waits.
    Rounds,
    /// No one syncs the manifest. Everything that a later commit of the journal must have covered is believed durable.
    Commits,
    /// No one syncs the manifest. Everything is believed durable at once.
    Nothing,
}

/// A step that may wait.
pub(in crate::lineage) type Step<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// One way to make the outputs of edits durable.
pub(in crate::lineage) trait Backend: Send + Sync {
    /// Returns who syncs the manifest.
    fn rule(&self) -> Rule;
    /// Runs before an edit that names these tables is appended; `is_flush`: the edit flushes records. After `NoSpace`
    /// or a shortage of descriptors no edit may ever name these tables. Any other error has poisoned.
    fn prepare(&self, _outputs: Vec<Unsynced>, _is_flush: bool) -> Step<'_> {
        Box::pin(async { Ok(()) })
    }
    /// Runs in a round. Afterwards one sync of a manifest that has grown makes these tables and their names durable.
    /// Any error except a shortage of descriptors has poisoned.
    fn settle(&self, _outputs: Vec<Unsynced>) -> Step<'_> {
        Box::pin(async { Ok(()) })
    }
}

/// A table to be made durable.
pub(in crate::lineage) struct Unsynced {
    pub(in crate::lineage) table: TableFile,
    /// The file as its writer opened it: the kernel reports every failed write-back there. `None`: opened again.
    pub(in crate::lineage) file: Option<Arc<dyn File>>,
}

impl DurabilityBackend {
    /// Returns the back-end for the tables in `homes` and the manifest in the root. The directories exist.
    pub(in crate::lineage) fn begin(
        self,
        environment: &Environment,
        health: &Arc<Health>,
        metrics: &Arc<Metrics>,
        homes: Homes<'_>,
    ) -> Result<Box<dyn Backend>> {
        let (storage, directory) = (&environment.storage, homes.root.join("tables"));
        let commits_together = storage.commits_together(&[homes.root, &directory]) || planted(Bug::JournalAssumed);
        let directory = |path: &Path, has_one_journal| -> Result<TableDirectory> {
            Ok(TableDirectory { names: BackgroundDirectory::open(storage, path)?, has_one_journal })
        };
        let fast = |path: &Path| directory(path, storage.commits_together(&[path]));
        let tables = Tables {
            environment: environment.clone(),
            health: Arc::clone(health),
            metrics: Arc::clone(metrics),
            disk: directory(&homes.root.join("tables"), commits_together)?,
            fast: homes.fast.map(fast).transpose()?,
        };
        Ok(match self {
            DurabilityBackend::SettleRounds => Box::new(SettleRounds { tables, commits_together }),
            DurabilityBackend::SyncEachFile => Box::new(SyncEachFile { tables, refused: Mutex::default() }),
            DurabilityBackend::Paper => Box::new(Paper { tables }),
            DurabilityBackend::None => Box::new(NoSyncs),
        })
    }
}

/// Syncs table files.
struct Tables {
    environment: Environment,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    disk: TableDirectory,
    /// The directory of the fast tier. It may be on another device, so a sync of the manifest commits nothing there.
    fast: Option<TableDirectory>,
}

/// A directory of tables.
struct TableDirectory {
    names: BackgroundDirectory,
    /// Whether one journal commits all files together, as on ext4; see `Storage::commits_together`.
    has_one_journal: bool,
}

/// How many tables of a round are synced at the same time: enough to use a device that works in parallel, too few to
/// fill its queue.
const SYNCS_AT_ONCE: usize = 8;

/// How many tables are written out at the same time. No caller waits for a write-out, but reads wait behind it.
const WRITE_OUTS_AT_ONCE: usize = 2;

impl Tables {
    fn directory(&self, home: Home) -> &TableDirectory {
        let fast = self.fast.as_ref().filter(|_| home == Home::Fast);
        assert!(home == Home::Disk || fast.is_some(), "only a database with a fast tier has fast tables");
        fast.unwrap_or(&self.disk)
    }

    fn path(&self, table: TableFile) -> PathBuf {
        self.directory(table.home).names.path().join(files::file_name(table))
    }

    /// Opens a table, or takes the file that its writer has open.
    fn open(&self, Unsynced { table, file }: Unsynced) -> Result<BackgroundFile> {
        let storage = &*self.environment.storage;
        let path = self.path(table);
        let opened = file.map_or_else(|| files::open(storage, &path, OpenMode::ReadWrite), Ok);
        Ok(BackgroundFile::new(opened?))
    }

    /// Poisons, unless the error is a shortage of descriptors. A shortage is harmless: the kernel was given nothing to
    /// sync, so it dropped nothing.
    fn failed(&self, error: Error) -> Error {
        if error.is_shortage() && !planted(Bug::DescriptorsPoison) { error } else { self.health.poison(error) }
    }

    /// Makes one table durable; its name may not be.
    async fn sync(&self, table: Unsynced) -> Result<()> {
        let home = table.table.home;
        let file = self.open(table)?;
        if planted(Bug::TableSyncDropped) || home == Home::Fast && planted(Bug::SettledWithoutFastSync) {
            return Ok(());
        }
        file.sync().await?;
        self.check_blocks(home, &file)
    }

    /// Writes one table out, so that the next commit of the journal covers it.
    async fn write_out(&self, table: Unsynced) -> Result<()> {
        let home = table.table.home;
        let file = self.open(table)?;
        if planted(Bug::TableSyncDropped) {
            return Ok(());
        }
        file.write_out().await?;
        self.check_blocks(home, &file)
    }

    /// Checks that the file has all its blocks. ext4 reports a lost write-back only to the caller that began it, which
    /// may be the kernel itself. Then no sync reports it, but blocks are missing (`docs/durability.md`).
    fn check_blocks(&self, home: Home, file: &BackgroundFile) -> Result<()> {
        let is_lost = self.directory(home).has_one_journal && file.file().is_written_whole() == Some(false);
        if !is_lost || planted(Bug::LostWriteBackSettled) {
            return Ok(());
        }
        Err(Error::io("write out", file.path(), io::Error::other("the kernel lost pages of it")))
    }

    /// Writes several tables out.
    async fn write_out_all(&self, tables: Vec<Unsynced>) -> Result<()> {
        // Each error is judged alone: a shortage that comes first must not hide what another write-out dropped.
        let write_out = |table| async { self.write_out(table).await.map_err(|error| self.failed(error)) };
        join_bounded(tables.into_iter().map(write_out), WRITE_OUTS_AT_ONCE).await
    }

    /// Makes several tables and their names durable.
    async fn sync_all(&self, tables: Vec<Unsynced>) -> Result<()> {
        let homes = homes_of(&tables);
        let sync = |table| async { self.sync(table).await.map_err(|error| self.failed(error)) };
        join_bounded(tables.into_iter().map(sync), SYNCS_AT_ONCE).await?;
        self.sync_directories(&homes).await
    }

    /// Makes the names of the tables durable.
    async fn sync_directories(&self, homes: &BTreeSet<Home>) -> Result<()> {
        for home in homes {
            if !planted(Bug::DirectorySyncDropped) {
                self.directory(*home).names.sync().await.map_err(|error| self.failed(error))?;
            }
        }
        Ok(())
    }

    /// Counts syncs that a flush or compaction waits for.
    fn waited(&self, syncs: u64) {
        self.metrics.syncs_waited_for.add(syncs);
    }
}

/// Returns the homes of tables.
fn homes_of(tables: &[Unsynced]) -> BTreeSet<Home> {
    tables.iter().map(|table| table.table.home).collect()
}

/// See [`DurabilityBackend::SettleRounds`].
struct SettleRounds {
    tables: Tables,
    /// Whether a sync of the manifest also commits everything before it. If not, each file and the directory are
    /// synced.
    commits_together: bool,
}

impl Backend for SettleRounds {
    fn rule(&self) -> Rule {
        Rule::Rounds
    }

    fn settle(&self, outputs: Vec<Unsynced>) -> Step<'_> {
        let tables = &self.tables;
        let is_committed = |output: &Unsynced| self.commits_together && output.table.home == Home::Disk;
        let (committed, others): (Vec<_>, Vec<_>) = outputs.into_iter().partition(is_committed);
        Box::pin(async move {
            tables.sync_all(others).await?;
            tables.write_out_all(committed).await
        })
    }
}

/// See [`DurabilityBackend::SyncEachFile`].
struct SyncEachFile {
    tables: Tables,
    /// Tables whose sync met a full disk. Some of their bytes may be lost, although a second sync would succeed. The
    /// lock is held for one look-up or insertion.
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
            let homes = homes_of(&outputs);
            self.tables.waited((outputs.len() + homes.len()) as u64);
            for table in outputs {
                self.sync_table(table).await?;
            }
            self.tables.sync_directories(&homes).await
        })
    }
}

impl SyncEachFile {
    /// Syncs a table. After a full disk the table is refused.
    async fn sync_table(&self, table: Unsynced) -> Result<()> {
        let (file, id) = (table.table, table.table.id);
        if self.refused.lock().contains(&id) {
            return Err(Error::NoSpace { path: Arc::from(self.tables.path(file)) });
        }
        match self.tables.sync(table).await {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.refused.lock().insert(id);
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

    /// Syncs the table of a flush: the only sync of a key-value pair (NOB-2).
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
