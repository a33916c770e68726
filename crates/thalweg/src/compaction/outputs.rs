//! [`Outputs`]: the tables that a flush or a merge writes, cut by size, all or nothing.
//!
//! Until an edit names them outputs belong to nobody: whoever fails calls [`Outputs::discard`], which removes what was
//! written. A removal that fails, or a coroutine that is dropped half-way, leaves an orphan, which recovery removes.

use crate::error::Result;
use crate::format::{EntryKind, SeqNo, TableId};
use crate::table::{TableMeta, TableStore, TableWriter};
use std::future::Future;
use std::path::PathBuf;

/// Where output tables are written: [`TableStore`], and a fake in tests.
pub(super) trait Store: Sync {
    type Writer: Writer;
    fn create(&self) -> impl Future<Output = Result<Self::Writer>> + Send;
    fn remove(&self, id: TableId) -> Result<()>;
    fn path(&self, id: TableId) -> PathBuf;
}

/// See [`TableWriter`].
pub(super) trait Writer: Send {
    fn add(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8])
    -> impl Future<Output = Result<()>> + Send;
    fn bytes(&self) -> u64;
    /// On an error the file is gone.
    fn finish(self) -> impl Future<Output = Result<TableMeta>> + Send;
    /// Removes the file.
    fn abandon(self) -> impl Future<Output = ()> + Send;
}

impl Store for TableStore {
    type Writer = TableWriter;
    async fn create(&self) -> Result<TableWriter> {
        TableStore::create(self).await
    }
    fn remove(&self, id: TableId) -> Result<()> {
        TableStore::remove(self, id)
    }
    fn path(&self, id: TableId) -> PathBuf {
        TableStore::path(self, id)
    }
}

impl Writer for TableWriter {
    async fn add(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) -> Result<()> {
        TableWriter::add(self, key, seq, kind, value).await
    }
    fn bytes(&self) -> u64 {
        TableWriter::bytes(self)
    }
    async fn finish(self) -> Result<TableMeta> {
        TableWriter::finish(self).await
    }
    async fn abandon(self) {
        TableWriter::abandon(self).await;
    }
}

/// Tables being written, one after the other.
pub(super) struct Outputs<'a, S: Store> {
    store: &'a S,
    /// A table is closed at this many bytes, at the next change of the user key.
    table_bytes: u64,
    writer: Option<S::Writer>,
    finished: Vec<TableMeta>,
    /// The user key changed since the last entry that was added.
    may_cut: bool,
}

impl<'a, S: Store> Outputs<'a, S> {
    pub(super) fn new(store: &'a S, table_bytes: u64) -> Self {
        Outputs { store, table_bytes, writer: None, finished: Vec::new(), may_cut: false }
    }

    /// The entries from here on are of another user key. Only here may a table end: a user key never straddles two
    /// tables of a level (DESIGN 7).
    pub(super) fn key_changed(&mut self) {
        self.may_cut = true;
    }

    pub(super) async fn add(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) -> Result<()> {
        if self.may_cut && self.writer.as_ref().is_some_and(|writer| writer.bytes() >= self.table_bytes) {
            self.close().await?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(self.store.create().await?),
        };
        self.may_cut = false;
        writer.add(key, seq, kind, value).await
    }

    /// The tables written. After an error: `discard`.
    pub(super) async fn finish(&mut self) -> Result<Vec<TableMeta>> {
        self.close().await?;
        Ok(std::mem::take(&mut self.finished))
    }

    /// Removes everything written.
    pub(super) async fn discard(mut self) {
        if let Some(writer) = self.writer.take() {
            writer.abandon().await;
        }
        for table in &self.finished {
            // The error that brought us here is the one to tell; a file left behind is an orphan.
            let _ = self.store.remove(table.id);
        }
    }

    async fn close(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.finished.push(writer.finish().await?);
        }
        Ok(())
    }
}
