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
/// db.persist()?; // from here on a power cut cannot take it
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
    /// `InvalidInput` for the name; when it must be created, what a `Sync` write can give.
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
    /// `InvalidInput` for the name, or when it is the name of an ordered keyspace; when it must be created, what a
    /// `Sync` write can give.
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
    /// `AlreadyExists` when the name is taken; `InvalidInput` when name or splits cannot be used; what a `Sync` write
    /// can give.
    pub fn create_keyspace(&self, name: &str, splits: &[&[u8]]) -> Result<Keyspace> {
        let keyspace = self.engine.create_keyspace(name, splits, KeyspaceKind::Ordered)?;
        Ok(Keyspace::new(Arc::clone(&self.engine), keyspace))
    }

    /// Drops a keyspace and everything in it. Durable when it returns; its handles then get `NoKeyspace`; its space is
    /// given back by the background.
    ///
    /// # Errors
    /// `NoKeyspace`; what a `Sync` write can give.
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

    /// Returns once everything that was visible at the call is durable: no power cut can take it.
    ///
    /// # Errors
    /// `Poisoned` when that can no longer be promised; `Closed`.
    pub fn persist(&self) -> Result<()> {
        let writable = self.engine.writable()?;
        writable.health.check()?;
        writable.log.sync(writable.log.published().position)
    }

    /// A ticket for everything that is visible now. It says when [`Database::persist`], called now, would return, and
    /// no thread has to wait for it.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`.
    pub fn ticket(&self) -> Result<CommitTicket> {
        let writable = self.engine.writable()?;
        writable.health.check()?;
        Ok(CommitTicket::new(&writable.log, writable.log.published().position))
    }

    /// Writes all memtables to tables and waits until they are in use. Never needed for durability.
    ///
    /// # Errors
    /// What keeps the flush from being done, e.g. `NoSpace`; it is still tried again later.
    pub fn flush(&self) -> Result<()> {
        self.engine.writable()?.flush()
    }

    /// Merges what each partition has in the fast tier to tables that do not overlap, whatever the cost models say, and
    /// waits for it (PMB-7). Reads and ranges that follow look into fewer tables. Memtables are not flushed for it.
    ///
    /// # Errors
    /// What keeps a merge from being done; it is still tried again later, as long as somebody waits.
    pub fn compact_fast_tier(&self) -> Result<()> {
        self.engine.writable()?.compact_fast_tier()
    }

    /// Waits until no compaction runs or is wanted.
    ///
    /// # Errors
    /// What keeps a compaction from being done; it is still tried again later.
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.engine.writable()?.wait_for_compactions()
    }

    /// Flushes, and compacts until little of what was overwritten or removed takes space: of a partition of up to
    /// 256 MiB at most a tenth, of a larger one what the compaction policy leaves. A database that nobody has written
    /// to for ten seconds does the same by itself, and more (`docs/space.md`). [`Database::settle`] then has the files
    /// removed.
    ///
    /// # Errors
    /// What keeps a flush or compaction from being done; it is still tried again later.
    pub fn tidy(&self) -> Result<()> {
        self.engine.writable()?.tidy()
    }

    /// Waits until every table that is in use is durable, and so is the manifest that names it: then no power cut can
    /// make an open go back to what they replaced, which may go. Begins a settle round at once. Never needed for the
    /// durability of writes: that is [`Database::persist`].
    ///
    /// # Errors
    /// `NoSpace` when the manifest cannot grow: it may be tried again; `Poisoned`, `Closed`.
    pub fn settle(&self) -> Result<()> {
        self.engine.writable()?.lineage.settle()
    }

    /// Writes a consistent, openable copy of the database as of now to the new directory `path`. Table files are
    /// linked where the file system allows it, so it takes little space and time. Durable when it returns. Missing
    /// parents are created; after an error nothing of it is left.
    ///
    /// # Errors
    /// `AlreadyExists` when `path` exists and is not empty; `InvalidInput` when it lies in the directory of the
    /// database itself; `NoSpace`, `Io`, `Poisoned`, `Closed`.
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
    /// there are none. It includes what an earlier open dropped if that was cut off before it could tell, whatever the
    /// policy of this one.
    pub fn dropped_by_recovery(&self) -> &[String] {
        &self.engine.dropped
    }

    /// The levels of every partition, drawn: for people, and for tests that compare drawings.
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

    /// Closes the database: all handles get `Closed` from now on ([`Database::keyspaces`], [`Database::statistics`] and
    /// [`Database::draw_levels`] still answer from memory). What was published is durable when it returns.
    /// Dropping the last handle does the same without telling of errors.
    ///
    /// # Errors
    /// What kept the close from being clean; the next open recovers what was promised all the same.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// The durability that writes have when they do not say.
    pub fn durability(&self) -> Durability {
        self.engine.options.durability
    }
}
