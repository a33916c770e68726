//! [`Database`]: the handle of an open database.

use super::batch::WriteBatch;
use super::directory_keyspace::DirectoryKeyspace;
use super::engine::Engine;
use super::health::Health;
use super::keyspace::Keyspace;
use super::options::Durability;
use super::snapshot::Snapshot;
use super::statistics::Statistics;
use super::ticket::CommitTicket;
use crate::compaction;
use crate::error::{Error, Result};
use crate::format::{HashKey, KeyspaceKind};
use crate::ordered::OrderedKeyspace;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open database: a directory that holds named keyspaces. Cloning is cheap; all handles are one database.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-database-{}", std::process::id()));
/// let db = thalweg::Database::open(&dir)?;
/// let rivers = db.keyspace("rivers")?;
/// rivers.insert("Rhine", "1233 km")?;
/// assert_eq!(rivers.get("Rhine")?.as_deref(), Some(b"1233 km".as_slice()));
/// db.persist()?; // no power cut can lose it now
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    engine: Arc<Engine>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("keyspaces", &self.keyspaces()).finish_non_exhaustive()
    }
}

impl Database {
    pub(super) fn from_engine(engine: Engine) -> Self {
        Database { engine: Arc::new(engine) }
    }

    /// Returns a function that says how far the log is published and durable, for a simulator. It keeps nothing open.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn log_progress(&self) -> Box<dyn Fn() -> Option<(u64, u64)> + Send> {
        let log = self.engine.writable().map(|writable| Arc::downgrade(&writable.log)).unwrap_or_default();
        Box::new(move || log.upgrade()?.progress())
    }

    #[cfg(test)]
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The keyspace of that name, created with one partition if there is none. A name has 1 to 255 bytes.
    ///
    /// # Errors
    /// `InvalidInput` for the name; if it must be created, the errors of a `Sync` write.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        match self.existing_keyspace(name)? {
            Some(keyspace) => Ok(keyspace),
            None => match self.create_keyspace(name, &[]) {
                // Another caller created it meanwhile.
                Err(Error::AlreadyExists(what)) => self.existing_keyspace(name)?.ok_or(Error::AlreadyExists(what)),
                created => created,
            },
        }
    }

    /// The keyspace of that name, if there is one.
    ///
    /// # Errors
    /// `Closed`.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        self.engine.readable()?;
        match self.find_ordered(name) {
            Some(found) if found.directories().is_some() => {
                Err(Error::invalid_input(format!("{name:?} is a directory keyspace")))
            }
            found => Ok(found.map(|keyspace| Keyspace::new(Arc::clone(&self.engine), keyspace))),
        }
    }

    fn find_ordered(&self, name: &str) -> Option<Arc<OrderedKeyspace>> {
        self.engine.find(name).and_then(|keyspace| keyspace.downcast())
    }

    /// The directory keyspace of that name, created if there is none. A name has 1 to 255 bytes.
    ///
    /// # Errors
    /// `InvalidInput` for the name, or if it is the name of an ordered keyspace; if it must be created, the errors of a
    /// `Sync` write.
    pub fn directory_keyspace(&self, name: &str) -> Result<DirectoryKeyspace> {
        if let Some(keyspace) = self.existing_directory_keyspace(name)? {
            return Ok(keyspace);
        }
        let mut key = [0; 16];
        for half in key.as_chunks_mut::<8>().0 {
            *half = self.engine.environment.entropy.next_u64().to_le_bytes();
        }
        let key = HashKey(key);
        #[cfg(feature = "simulation")]
        let key = self.engine.options.name_hash_bits.map_or(key, |bits| key.with_bits(bits));
        match self.engine.create_keyspace(name, &[], KeyspaceKind::Directory(key)) {
            // Another caller created it meanwhile.
            Err(Error::AlreadyExists(what)) => {
                self.existing_directory_keyspace(name)?.ok_or(Error::AlreadyExists(what))
            }
            created => Ok(DirectoryKeyspace::new(Keyspace::new(Arc::clone(&self.engine), created?))),
        }
    }

    /// The directory keyspace of that name, if there is one.
    ///
    /// # Errors
    /// `InvalidInput` when it is the name of an ordered keyspace; `Closed`.
    pub fn existing_directory_keyspace(&self, name: &str) -> Result<Option<DirectoryKeyspace>> {
        self.engine.readable()?;
        match self.find_ordered(name) {
            Some(found) if found.directories().is_none() => {
                Err(Error::invalid_input(format!("{name:?} is no directory keyspace")))
            }
            found => {
                let keyspace = |found| DirectoryKeyspace::new(Keyspace::new(Arc::clone(&self.engine), found));
                Ok(found.map(keyspace))
            }
        }
    }

    /// Creates a keyspace cut into partitions at the `splits` (ascending; partition i + 1 begins at `splits[i]`), each
    /// with its own memtables and levels. Durable when it returns.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; `InvalidInput` if name or splits cannot be used; the errors of a `Sync`
    /// write.
    pub fn create_keyspace(&self, name: &str, splits: &[&[u8]]) -> Result<Keyspace> {
        let keyspace = self.engine.create_keyspace(name, splits, KeyspaceKind::Ordered)?;
        Ok(Keyspace::new(Arc::clone(&self.engine), keyspace))
    }

    /// Drops a keyspace and everything in it. Durable when it returns. Calls on its handles then get `NoKeyspace`. The
    /// background frees its space.
    ///
    /// # Errors
    /// `NoKeyspace`; the errors of a `Sync` write.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.engine.drop_keyspace(name)
    }

    /// The names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.engine.keyspaces().iter().map(|keyspace| keyspace.name().to_owned()).collect();
        names.sort();
        names
    }

    /// A batch: writes to any keyspaces of this database that become visible and durable together.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(Arc::clone(&self.engine))
    }

    /// A consistent state of all keyspaces, as of now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.engine))
    }

    /// Makes everything durable that was visible at the call: no power cut can lose it.
    ///
    /// # Errors
    /// `Poisoned` if this cannot be promised; `Closed`.
    pub fn persist(&self) -> Result<()> {
        let writable = self.engine.writable()?;
        writable.health.check()?;
        writable.log.sync(writable.log.published().position)
    }

    /// Returns a ticket for everything that is visible now. It tells when that is durable, and needs no waiting thread.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`.
    pub fn ticket(&self) -> Result<CommitTicket> {
        let writable = self.engine.writable()?;
        writable.health.check()?;
        Ok(CommitTicket::new(&writable.log, writable.log.published().position))
    }

    /// Writes all memtables to tables, and waits until readers use these. Durability does not need it.
    ///
    /// # Errors
    /// The error that stops the flush, e.g. `NoSpace`; the background tries again later.
    pub fn flush(&self) -> Result<()> {
        self.engine.writable()?.flush()
    }

    /// Merges each partition's tables in the fast tier to tables that do not overlap, independently of the cost models,
    /// and waits for it (PMB-7). Later reads and ranges look into fewer tables. Memtables are not flushed.
    ///
    /// # Errors
    /// The error that stops a merge; it is tried again later, as long as a caller waits.
    pub fn compact_fast_tier(&self) -> Result<()> {
        self.engine.writable()?.compact_fast_tier()
    }

    /// Waits until no compaction runs or is wanted.
    ///
    /// # Errors
    /// The error that stops a compaction; the background tries again later.
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.engine.writable()?.wait_for_compactions()
    }

    /// Flushes, and compacts until overwritten and removed entries take little space: at most about a tenth of a
    /// partition of up to 256 MiB, and in a larger one what the compaction policy leaves. A database without writes for
    /// ten seconds does the same by itself, and more (`docs/space.md`). A following [`Database::settle`] removes the
    /// files.
    ///
    /// # Errors
    /// The error that stops a flush or compaction; the background tries again later.
    pub fn tidy(&self) -> Result<()> {
        self.engine.writable()?.tidy()
    }

    /// Begins a settle round at once, and waits until all tables in use, and the manifest that names them, are durable.
    /// Then no crash needs the replaced files, and they are removed. The durability of writes does not need it: for
    /// that there is [`Database::persist`].
    ///
    /// # Errors
    /// `NoSpace` if the manifest cannot grow: try again later; `Poisoned`, `Closed`.
    pub fn settle(&self) -> Result<()> {
        self.engine.writable()?.lineage.settle()
    }

    /// Writes a consistent, openable copy of the database as of now to the new directory `path`. Table files are linked
    /// where the file system allows it, so the copy takes little space and time. Durable when it returns. Missing
    /// parents are created; after an error nothing of the copy is left.
    ///
    /// # Errors
    /// `AlreadyExists` if `path` exists and is not empty; `InvalidInput` if it lies in the directory of the database
    /// itself; `NoSpace`, `Io`, `Poisoned`, `Closed`.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.engine.checkpoint(path.as_ref())
    }

    /// The background work that fails at present, since when, and when it is tried again.
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// The changes that [`crate::DamagePolicy::PointInTime`] dropped when this database was opened, in words; empty if
    /// there are none. If an earlier open was cut off before it returned, its changes are included, whatever the policy
    /// of this one.
    pub fn dropped_by_recovery(&self) -> &[String] {
        &self.engine.dropped
    }

    /// A drawing of the levels of every partition, for people, and for tests that compare drawings.
    pub fn draw_levels(&self) -> String {
        let mut drawing = String::new();
        for keyspace in self.engine.keyspaces().of_kind::<OrderedKeyspace>() {
            for partition in keyspace.layout().partitions() {
                drawing.push_str(&format!("{} / {}\n", keyspace.name, partition.id));
                let super_version = partition.super_version();
                if let Some((tables, bytes)) = super_version.fast_tables_and_bytes() {
                    drawing.push_str(&compaction::draw_fast(tables, bytes));
                }
                drawing.push_str(&compaction::draw(&super_version.levels));
            }
        }
        drawing
    }

    /// Closes the database. All published writes are durable when it returns. Later calls on its handles get `Closed`
    /// ([`Database::keyspaces`], [`Database::statistics`] and [`Database::draw_levels`] still answer from memory).
    /// Dropping the last handle does the same, without reporting errors.
    ///
    /// # Errors
    /// The error that kept the close from being clean; the next open recovers all promised writes.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// The durability of writes that do not choose one.
    pub fn durability(&self) -> Durability {
        self.engine.options.durability
    }
}
