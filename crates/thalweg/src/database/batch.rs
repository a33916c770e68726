//! [`WriteBatch`]: writes that happen together.

use super::handle::{Shared, validate_key, validate_value};
use super::keyspace::Keyspace;
use super::options::Durability;
use crate::error::{Error, Result};
use crate::format::SeqNo;
use crate::log::{Operation, RecordBuilder};
use crate::ordered::Partition;
use std::sync::Arc;

/// The most bytes one batch may have, keys and values and a few bytes for each operation.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Writes to any keyspaces of one database that become visible and durable together, or not at all. Of two writes to
/// the same key the later one counts.
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
/// batch.durability(thalweg::Durability::Sync);
/// batch.commit()?;
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
pub struct WriteBatch {
    shared: Arc<Shared>,
    record: RecordBuilder,
    routes: Vec<Arc<Partition>>,
    durability: Durability,
}

impl WriteBatch {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let durability = shared.engine.options.durability;
        WriteBatch { shared, record: RecordBuilder::new(), routes: Vec::new(), durability }
    }

    /// Adds an insert.
    ///
    /// # Errors
    /// `InvalidInput` for sizes, for a batch beyond 256 MiB, or a keyspace of another database; `NoKeyspace`,
    /// `ReadOnly`, `Closed`. The batch is as it was.
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

    fn route(&mut self, keyspace: &Keyspace, key: &[u8], value_bytes: usize) -> Result<crate::format::KeyspaceId> {
        validate_key(key)?;
        self.shared.engine.writable()?;
        if !keyspace.shares(&self.shared) {
            return Err(Error::invalid_input("the keyspace belongs to another database than the batch"));
        }
        if self.record.bytes() + key.len() + value_bytes > BATCH_BYTES_MAX {
            return Err(Error::invalid_input(format!("a batch has at most {BATCH_BYTES_MAX} bytes (256 MiB)")));
        }
        let ordered = keyspace.ordered()?;
        self.routes.push(Arc::clone(ordered.layout().partition_for(key)));
        Ok(ordered.id)
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Bytes of the batch so far, as the log will have them.
    pub fn bytes(&self) -> usize {
        self.record.bytes()
    }

    /// When [`WriteBatch::commit`] returns (default: as the database was opened with).
    pub fn durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Writes the batch. An empty batch does nothing.
    ///
    /// # Errors
    /// `NoSpace`: nothing was written, try again once there is room. `NoKeyspace`: one was dropped meanwhile, nothing
    /// was written. `Poisoned`, `Closed`, `ReadOnly`. A `Sync` commit that gives another error may be visible until
    /// the close and may or may not survive it.
    pub fn commit(self) -> Result<()> {
        self.write().map(drop)
    }

    /// As [`WriteBatch::commit`]; gives the batch's last sequence number, by which a simulator orders writes.
    #[cfg(feature = "simulation")]
    pub fn commit_seq(self) -> Result<u64> {
        Ok(self.write()?.0)
    }

    fn write(self) -> Result<SeqNo> {
        let engine = &self.shared.engine;
        if self.routes.is_empty() {
            engine.writable()?.health.check()?;
            return Ok(SeqNo(0));
        }
        if self.routes.iter().any(|partition| partition.is_dropped()) {
            return Err(Error::NoKeyspace(Arc::from("(dropped while the batch was being built)")));
        }
        engine.write(&self.record.finish(), &self.routes, self.durability)
    }
}
