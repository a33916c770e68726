//! [`Database`]: the handle of an open database.

use super::batch::WriteBatch;
use super::builder::Builder;
use super::check::CheckReport;
use super::engine::Engine;
use super::health::Health;
use super::keyspace::{Keyspace, validate_name, validate_splits};
use super::options::Durability;
use super::snapshot::Snapshot;
use super::statistics::Statistics;
use crate::compaction;
use crate::error::{Error, Result};
use crate::lineage::{Change, Edit};
use crate::log::{Operation, RecordBuilder};
use crate::ordered::{DefinitionEdit, OrderedKeyspace};
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
    shared: Arc<Shared>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("keyspaces", &self.keyspaces()).finish_non_exhaustive()
    }
}

/// What all handles share; closes the database when the last is dropped.
pub(super) struct Shared {
    pub(super) engine: Engine,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody is left to hear of an error; `Database::close` is for those who want to.
        let _ = self.engine.close();
    }
}

impl Database {
    /// Options to open the database in the directory `path` with.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens the database in the directory `path` with default options, creating it if it is missing.
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Self::builder(path).open()
    }

    pub(super) fn from_engine(engine: Engine) -> Self {
        Database { shared: Arc::new(Shared { engine }) }
    }

    /// What tells how far the log is published and how far it is durable, for a simulator; it keeps nothing open.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn log_progress(&self) -> Box<dyn Fn() -> Option<(u64, u64)> + Send> {
        let log = self.engine().writable().map(|workshop| Arc::downgrade(&workshop.log)).unwrap_or_default();
        Box::new(move || log.upgrade()?.progress())
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// The keyspace of that name, created with one partition if there is none. A name has 1 to 255 bytes.
    ///
    /// # Errors
    /// `InvalidInput` for the name; when it must be created, what a `Sync` write can give.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        match self.existing_keyspace(name)? {
            Some(keyspace) => Ok(keyspace),
            None => match self.create_keyspace(name, &[]) {
                // Somebody else created it meanwhile.
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
        self.engine().readable()?;
        Ok(self.engine().find(name).map(|keyspace| Keyspace::new(Arc::clone(&self.shared), keyspace)))
    }

    /// Creates a keyspace cut into partitions at the `splits` (ascending; partition i + 1 begins at `splits[i]`), each
    /// with its own memtables and levels. Durable when it returns.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; `InvalidInput` when name or splits cannot be used; what a `Sync` write
    /// can give.
    pub fn create_keyspace(&self, name: &str, splits: &[&[u8]]) -> Result<Keyspace> {
        let engine = self.engine();
        let workshop = engine.writable()?;
        validate_name(name)?;
        validate_splits(splits)?;
        let _turn = engine.definition_turn.lock_blocking(&engine.environment);
        if engine.find(name).is_some() {
            return Err(Error::already_exists(format!(
                "there is a keyspace named {name:?} already; open it, or take another name"
            )));
        }
        let id = engine.take_keyspace_id();
        let mut record = RecordBuilder::new();
        record.push(&Operation::CreateKeyspace { keyspace: id, name, splits: splits.to_vec() });
        let splits: Vec<Box<[u8]>> = splits.iter().map(|split| Box::from(*split)).collect();
        let mut created = None;
        engine.write_definition(record, |mark, seq| {
            let keyspace = OrderedKeyspace::new(id, name, splits.clone(), seq, &workshop.memtable_pool);
            let change = Change::CreateKeyspace { keyspace: id, name: name.to_owned(), splits };
            let edit = Edit { changes: vec![change], seq, log_start: None };
            created = Some(Arc::clone(&keyspace));
            workshop.define(DefinitionEdit { edit, mark, dropped: None }, |registry| {
                registry.insert(id, keyspace);
            });
        })?;
        created
            .map(|keyspace| Keyspace::new(Arc::clone(&self.shared), keyspace))
            .ok_or_else(|| unreachable!("a written definition was applied"))
    }

    /// Drops a keyspace and everything in it. Durable when it returns; its handles then get `NoKeyspace`; its space is
    /// given back by the background.
    ///
    /// # Errors
    /// `NoKeyspace`; what a `Sync` write can give.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let engine = self.engine();
        let workshop = engine.writable()?;
        let _turn = engine.definition_turn.lock_blocking(&engine.environment);
        let keyspace = engine.find(name).ok_or_else(|| Error::NoKeyspace(Arc::from(name)))?;
        let mut record = RecordBuilder::new();
        record.push(&Operation::DropKeyspace { keyspace: keyspace.id });
        engine.write_definition(record, |mark, seq| {
            let change = Change::DropKeyspace { keyspace: keyspace.id };
            let edit = Edit { changes: vec![change], seq, log_start: None };
            let id = keyspace.id;
            keyspace.drop_now();
            workshop.define(DefinitionEdit { edit, mark, dropped: Some(keyspace) }, |registry| {
                registry.remove(&id);
            });
        })
    }

    /// The names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        let mut names: Vec<String> = self.engine().registry().values().map(|keyspace| keyspace.name.clone()).collect();
        names.sort();
        names
    }

    /// A batch: writes to any keyspaces of this database that become visible and durable together.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(Arc::clone(&self.shared))
    }

    /// A consistent state of all keyspaces, as of now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.shared))
    }

    /// Returns once everything that was visible at the call is durable: no power cut can take it.
    ///
    /// # Errors
    /// `Poisoned` when that can no longer be promised; `Closed`.
    pub fn persist(&self) -> Result<()> {
        let workshop = self.engine().writable()?;
        workshop.health.check()?;
        workshop.log.sync(workshop.log.published().position)
    }

    /// Writes all memtables to tables and waits until they are in use. Never needed for durability.
    ///
    /// # Errors
    /// What keeps the flush from being done, e.g. `NoSpace`; it is still tried again later.
    pub fn flush(&self) -> Result<()> {
        self.engine().writable()?.flush()
    }

    /// Waits until no compaction runs or is wanted.
    ///
    /// # Errors
    /// What keeps a compaction from being done; it is still tried again later.
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.engine().writable()?.wait_for_compactions()
    }

    /// Flushes, and compacts until little of what was overwritten or removed takes space: of a partition of up to
    /// 256 MiB at most a tenth, of a larger one what the compaction policy leaves. A database that nobody has written
    /// to for ten seconds does the same by itself (`docs/space.md`). [`Database::settle`] then has the files removed.
    ///
    /// # Errors
    /// What keeps a flush or compaction from being done; it is still tried again later.
    pub fn tidy(&self) -> Result<()> {
        self.engine().writable()?.tidy()
    }

    /// Waits until every table that is in use is durable, and so is the manifest that names it: then no power cut can
    /// make an open go back to what they replaced, which may go. Begins a settle round at once. Never needed for the
    /// durability of writes: that is [`Database::persist`].
    ///
    /// # Errors
    /// `NoSpace` when the manifest cannot grow: it may be tried again; `Poisoned`, `Closed`.
    pub fn settle(&self) -> Result<()> {
        self.engine().writable()?.lineage.settle()
    }

    /// Writes a consistent, openable copy of the database as of now to the new directory `path`. Table files are
    /// linked where the file system allows it, so it takes little space and time. Durable when it returns. Missing
    /// parents are created; after an error nothing of it is left.
    ///
    /// # Errors
    /// `AlreadyExists` when `path` exists and is not empty; `InvalidInput` when it lies in the directory of the
    /// database itself; `NoSpace`, `Io`, `Poisoned`, `Closed`.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.engine().checkpoint(path.as_ref())
    }

    /// What of the background fails at present, since when, and when it is tried again.
    pub fn health(&self) -> Health {
        self.engine().health()
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> Statistics {
        self.engine().statistics()
    }

    /// What [`crate::DamagePolicy::PointInTime`] dropped when this database was opened, in words; empty when nothing
    /// was.
    pub fn dropped_by_recovery(&self) -> &[String] {
        &self.engine().dropped
    }

    /// The levels of every partition, drawn: for people, and for tests that compare drawings.
    pub fn draw_levels(&self) -> String {
        let mut drawing = String::new();
        for keyspace in self.engine().registry().values() {
            for partition in keyspace.layout().partitions() {
                drawing.push_str(&format!("{} / {}\n", keyspace.name, partition.id));
                drawing.push_str(&compaction::draw(&partition.view().levels));
            }
        }
        drawing
    }

    /// Reads and verifies every byte the database in `path` uses, without changing one; gives each fault to `fault`.
    ///
    /// # Errors
    /// See [`Builder::check`].
    pub fn check(path: impl AsRef<Path>, fault: &mut dyn FnMut(Error)) -> Result<CheckReport> {
        Self::builder(path).check(fault)
    }

    /// Closes the database: all handles get `Closed` from now on ([`Database::keyspaces`], [`Database::statistics`] and
    /// [`Database::draw_levels`] still answer from memory). What was published is durable when it returns.
    /// Dropping the last handle does the same without telling of errors.
    ///
    /// # Errors
    /// What kept the close from being clean; the next open recovers what was promised all the same.
    pub fn close(self) -> Result<()> {
        self.engine().close()
    }

    /// The durability that writes have when they do not say.
    pub fn durability(&self) -> Durability {
        self.engine().options.durability
    }
}

/// Refuses keys and values that a record cannot hold.
pub(super) fn validate_key(key: &[u8]) -> Result<()> {
    use crate::format::key::KEY_BYTES_MAX;
    if key.is_empty() {
        return Err(Error::invalid_input("a key has at least one byte"));
    }
    if key.len() > KEY_BYTES_MAX {
        let message = format!("a key has at most {KEY_BYTES_MAX} bytes (64 KiB), this one {}", key.len());
        return Err(Error::invalid_input(message));
    }
    Ok(())
}

/// As [`validate_key`], for values.
pub(super) fn validate_value(value: &[u8]) -> Result<()> {
    use crate::format::key::VALUE_BYTES_MAX;
    if value.len() > VALUE_BYTES_MAX {
        let message = format!("a value has at most {VALUE_BYTES_MAX} bytes (64 MiB), this one {}", value.len());
        return Err(Error::invalid_input(message));
    }
    Ok(())
}
