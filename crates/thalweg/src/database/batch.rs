//! [`WriteBatch`]: writes that happen together.

use super::directory_keyspace::DirectoryKeyspace;
use super::engine::Engine;
use super::keyspace::Keyspace;
use super::limits::{validate_key, validate_value};
use super::options::{Durability, WriteOptions};
use super::ticket::CommitTicket;
use super::write::Written;
use crate::error::{Error, Result};
use crate::format::{KeyspaceId, SeqNo};
use crate::log::{Operation, RecordBuilder};
use crate::ordered::{OrderedKeyspace, Partition};
use std::fmt;
use std::sync::Arc;

/// The most bytes of one batch: keys, values, and a few bytes for each operation.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Writes to any keyspaces of one database that become visible and durable together, or not at all. Of two writes to
/// the same key the later one counts.
///
/// A successful commit empties the batch, which may be filled again. A failed commit leaves the batch as it is, so that
/// it can be committed again.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-batch-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let (accounts, journal) = (db.keyspace("accounts")?, db.keyspace("journal")?);
/// let mut batch = db.batch();
/// batch.insert(&accounts, "alice", "90")?;
/// batch.insert(&accounts, "bob", "110")?;
/// batch.insert(&journal, "0001", "alice to bob: 10")?;
/// batch.commit_with(thalweg::Durability::Sync)?;
/// assert!(batch.is_empty());
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
pub struct WriteBatch {
    engine: Arc<Engine>,
    record: RecordBuilder,
    routes: Vec<Arc<Partition>>,
    /// The keyspaces of the operations, each once.
    keyspaces: Vec<Arc<OrderedKeyspace>>,
}

impl WriteBatch {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        WriteBatch { engine, record: RecordBuilder::new(), routes: Vec::new(), keyspaces: Vec::new() }
    }

    /// Adds an insert.
    ///
    /// # Errors
    /// `InvalidInput` for sizes, for a batch beyond 256 MiB, or a keyspace of another database; `NoKeyspace`,
    /// `Closed`. The batch is as it was.
    pub fn insert(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        validate_value(value)?;
        let id = self.route(keyspace, key, value.len())?;
        self.record.push(&Operation::Put { keyspace: id, key, value });
        Ok(())
    }

    /// Adds a removal.
    ///
    /// # Errors
    /// As for [`WriteBatch::insert`].
    pub fn remove(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let id = self.route(keyspace, key, 0)?;
        self.record.push(&Operation::Remove { keyspace: id, key });
        Ok(())
    }

    /// Adds an insert into a directory.
    ///
    /// # Errors
    /// As for [`WriteBatch::insert`].
    pub fn insert_entry(
        &mut self,
        keyspace: &DirectoryKeyspace,
        directory: u64,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (keyspace.key(directory, name.as_ref())?, value.as_ref());
        validate_value(value)?;
        let id = self.route_to(keyspace.inner(), &key, value.len())?;
        self.record.push(&Operation::Put { keyspace: id, key: &key, value });
        Ok(())
    }

    /// Adds a removal from a directory.
    ///
    /// # Errors
    /// As for [`WriteBatch::insert`].
    pub fn remove_entry(&mut self, keyspace: &DirectoryKeyspace, directory: u64, name: impl AsRef<[u8]>) -> Result<()> {
        let key = keyspace.key(directory, name.as_ref())?;
        let id = self.route_to(keyspace.inner(), &key, 0)?;
        self.record.push(&Operation::Remove { keyspace: id, key: &key });
        Ok(())
    }

    fn route(&mut self, keyspace: &Keyspace, key: &[u8], value_bytes: usize) -> Result<KeyspaceId> {
        validate_key(key)?;
        self.route_to(keyspace, key, value_bytes)
    }

    fn route_to(&mut self, keyspace: &Keyspace, key: &[u8], value_bytes: usize) -> Result<KeyspaceId> {
        self.engine.writable()?;
        if !keyspace.is_of(&self.engine) {
            return Err(Error::invalid_input("the keyspace belongs to another database than the batch"));
        }
        if self.record.bytes() + key.len() + value_bytes > BATCH_BYTES_MAX {
            return Err(Error::invalid_input(format!("a batch has at most {BATCH_BYTES_MAX} bytes (256 MiB)")));
        }
        let ordered = keyspace.ordered()?;
        self.routes.push(Arc::clone(ordered.layout().partition_for(key)));
        // Operations mostly come in runs of one keyspace.
        if !self.keyspaces.iter().rev().any(|known| Arc::ptr_eq(known, &ordered)) {
            self.keyspaces.push(Arc::clone(&ordered));
        }
        Ok(ordered.id)
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether the batch has no operation.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The bytes of the batch in the log.
    pub fn bytes(&self) -> usize {
        self.record.bytes()
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        let record = std::mem::take(&mut self.record);
        self.record = RecordBuilder::with_buffer(record.into_buffer());
        self.routes.clear();
        self.keyspaces.clear();
    }

    /// Writes the batch and empties it. An empty batch does nothing.
    ///
    /// # Errors
    /// The batch is as it was. `NoSpace`: nothing was written, commit it again once there is room. `NoKeyspace`: a
    /// keyspace was dropped meanwhile, nothing was written. `Poisoned`, `Closed`. After another error of a `Sync`
    /// commit, the batch may be visible until the close and may or may not survive it.
    pub fn commit(&mut self) -> Result<()> {
        self.commit_with(WriteOptions::new())
    }

    /// As [`WriteBatch::commit`], with options of its own.
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`].
    pub fn commit_with(&mut self, options: impl Into<WriteOptions>) -> Result<()> {
        self.write(options.into()).map(drop)
    }

    /// Writes the batch as [`Durability::Buffered`] and empties it. The ticket says later when it is durable. An empty
    /// batch gives the ticket of [`Database::ticket`](crate::Database::ticket).
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`].
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("thalweg-doc-commit-ticket-{}", std::process::id()));
    /// # let db = thalweg::Database::open(&dir)?;
    /// let orders = db.keyspace("orders")?;
    /// let mut batch = db.batch();
    /// batch.insert(&orders, "1", "one thalweg")?;
    /// let ticket = batch.commit_ticket()?;
    /// assert!(orders.get("1")?.is_some()); // visible, and perhaps not durable yet
    /// ticket.wait()?;
    /// assert!(ticket.is_durable());
    /// # db.close()?; let _ = std::fs::remove_dir_all(dir);
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit_ticket(&mut self) -> Result<CommitTicket> {
        self.commit_ticket_with(Durability::Buffered)
    }

    /// As [`WriteBatch::commit_ticket`], with options of its own. The ticket of a `Sync` commit is durable.
    ///
    /// # Errors
    /// As for [`WriteBatch::commit`].
    pub fn commit_ticket_with(&mut self, options: impl Into<WriteOptions>) -> Result<CommitTicket> {
        Ok(self.write_with_ticket(options.into())?.1)
    }

    /// As [`WriteBatch::commit_with`]; gives the batch's last sequence number, by which a simulator orders writes.
    #[cfg(feature = "simulation")]
    pub fn commit_seq(&mut self, options: impl Into<WriteOptions>) -> Result<u64> {
        Ok(self.write(options.into())?.seq.0)
    }

    /// As [`WriteBatch::commit_ticket_with`]; also gives the batch's last sequence number, for a simulator.
    #[cfg(feature = "simulation")]
    pub fn commit_ticket_seq(&mut self, options: impl Into<WriteOptions>) -> Result<(u64, CommitTicket)> {
        self.write_with_ticket(options.into()).map(|(seq, ticket)| (seq.0, ticket))
    }

    fn write_with_ticket(&mut self, options: WriteOptions) -> Result<(SeqNo, CommitTicket)> {
        // Taken before the write: a close may come right after it.
        let log = Arc::clone(&self.engine.writable()?.log);
        let written = self.write(options)?;
        Ok((written.seq, CommitTicket::new(&log, written.end)))
    }

    fn write(&mut self, options: WriteOptions) -> Result<Written> {
        let engine = &self.engine;
        if self.routes.is_empty() {
            let writable = engine.writable()?;
            writable.health.check()?;
            return Ok(Written { seq: SeqNo(0), end: writable.log.published().position });
        }
        // A cleared keyspace still exists, unless it was dropped afterwards.
        let is_gone = |keyspace: &&Arc<OrderedKeyspace>| {
            keyspace.is_dropped() && !(keyspace.is_cleared() && engine.keyspaces().get(keyspace.id).is_some())
        };
        if let Some(dropped) = self.keyspaces.iter().find(is_gone) {
            return Err(dropped.no_keyspace());
        }
        let record = std::mem::take(&mut self.record).finish();
        let written = engine.write(&record, &self.routes, options);
        self.record = RecordBuilder::resume(record);
        if written.is_ok() {
            self.clear();
        }
        written
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch").field("operations", &self.len()).field("bytes", &self.bytes()).finish()
    }
}
