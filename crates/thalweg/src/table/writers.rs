//! [`TableWriters`], [`PackWriters`]: create tables for a coroutine, with the store and the write queue of the
//! coroutine's worker.

use super::pack::writer::PackWriter;
use super::store::TableStore;
use super::write::writer::TableWriter;
use crate::error::Result;
use crate::format::{HashKey, TableId};
use crate::runtime::WriteQueue;
use std::path::PathBuf;
use std::sync::Arc;

/// See the module.
#[derive(Clone)]
pub(crate) struct TableWriters {
    store: Arc<TableStore>,
    queue: WriteQueue,
}

impl TableWriters {
    /// `queue` must be that of the worker on which the coroutine runs.
    pub(crate) fn new(store: Arc<TableStore>, queue: WriteQueue) -> Self {
        TableWriters { store, queue }
    }

    /// Creates a file for a table of `level`. An error leaves no file.
    pub(crate) async fn create(&self, level: usize) -> Result<TableWriter> {
        self.store.create(level, &self.queue).await
    }

    /// See [`TableStore::remove`].
    pub(crate) fn remove(&self, id: TableId) -> Result<()> {
        self.store.remove(id)
    }

    /// See [`TableStore::path`].
    pub(crate) fn path(&self, id: TableId) -> PathBuf {
        self.store.path(id)
    }
}

/// Creates the packs of one directory keyspace.
pub(crate) struct PackWriters<'a> {
    pub(crate) writers: &'a TableWriters,
    pub(crate) hash_key: HashKey,
}

impl PackWriters<'_> {
    /// Creates a file for a pack. An error leaves no file.
    pub(crate) async fn create(&self, level: usize) -> Result<PackWriter> {
        self.writers.store.create_pack(level, self.hash_key, &self.writers.queue).await
    }

    /// See [`TableStore::remove`].
    pub(crate) fn remove(&self, id: TableId) -> Result<()> {
        self.writers.remove(id)
    }

    /// See [`TableStore::path`].
    pub(crate) fn path(&self, id: TableId) -> PathBuf {
        self.writers.path(id)
    }
}
