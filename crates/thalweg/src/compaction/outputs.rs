//! [`Outputs`]: the tables that a flush or a merge writes, cut by size, all or nothing.
//!
//! Until an edit names them, no one owns the outputs. A caller that fails calls [`Outputs::discard`], which removes all
//! that was written. A removal that fails, or a coroutine that is dropped half-way, leaves an orphan, which recovery
//! removes.

use super::look_ahead::Cut;
use super::predecessor::Relation;
use crate::cache::Warmth;
use crate::error::Result;
use crate::format::{EntryKind, SeqNo, TableId};
use crate::table::{PackWriter, PackWriters, TableMeta, TableWriter, TableWriters};
use std::future::Future;
use std::path::PathBuf;

/// The place where output tables are written: [`TableWriters`], [`PackWriters`], the fast tier, and a fake in tests.
pub(super) trait Store: Sync {
    type Writer: Writer;
    fn create(&self, level: usize) -> impl Future<Output = Result<Self::Writer>> + Send;
    fn remove(&self, id: TableId) -> Result<()>;
    fn path(&self, id: TableId) -> PathBuf;
}

/// See [`TableWriter`].
pub(super) trait Writer: Send {
    fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) -> bool;
    fn expect(&mut self, warmth: Warmth);
    fn write(&mut self) -> impl Future<Output = Result<()>> + Send;
    fn bytes(&self) -> u64;
    /// Finishes the file. On an error it is removed.
    fn finish(self) -> impl Future<Output = Result<TableMeta>> + Send;
    /// Removes the file.
    fn abandon(self) -> impl Future<Output = ()> + Send;
}

impl Store for TableWriters {
    type Writer = TableWriter;
    async fn create(&self, level: usize) -> Result<TableWriter> {
        TableWriters::create(self, level).await
    }
    fn remove(&self, id: TableId) -> Result<()> {
        TableWriters::remove(self, id)
    }
    fn path(&self, id: TableId) -> PathBuf {
        TableWriters::path(self, id)
    }
}

impl Writer for TableWriter {
    #[inline]
    fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) -> bool {
        TableWriter::add(self, key, shared, seq, kind, value)
    }
    fn expect(&mut self, warmth: Warmth) {
        TableWriter::expect(self, warmth);
    }
    async fn write(&mut self) -> Result<()> {
        TableWriter::write(self).await
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

impl Store for PackWriters<'_> {
    type Writer = PackWriter;
    async fn create(&self, level: usize) -> Result<PackWriter> {
        PackWriters::create(self, level).await
    }
    fn remove(&self, id: TableId) -> Result<()> {
        PackWriters::remove(self, id)
    }
    fn path(&self, id: TableId) -> PathBuf {
        PackWriters::path(self, id)
    }
}

impl Writer for PackWriter {
    fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) -> bool {
        PackWriter::add(self, key, shared, seq, kind, value)
    }
    fn expect(&mut self, _: Warmth) {}
    async fn write(&mut self) -> Result<()> {
        PackWriter::write(self).await
    }
    fn bytes(&self) -> u64 {
        PackWriter::bytes(self)
    }
    async fn finish(self) -> Result<TableMeta> {
        PackWriter::finish(self).await
    }
    async fn abandon(self) {
        PackWriter::abandon(self).await;
    }
}

/// Tables being written, one after the other. For an entry that is kept, the caller calls `pass`, then `next_table`
/// unless there is room, then `add`, then `write` if `add` says so. For an entry that is dropped, it calls `pass`
/// alone.
pub(super) struct Outputs<'a, S: Store> {
    store: &'a S,
    /// The level that the tables are for.
    level: usize,
    /// Where a table is closed, at a change of the user key.
    cut: Cut,
    writer: Option<S::Writer>,
    /// Whether nothing was added to the writer yet.
    is_empty: bool,
    finished: Vec<TableMeta>,
    /// Whether the user key changed since the last entry that was added.
    may_cut: bool,
    /// How many first bytes the key passed last shares with the key added last. For sorted keys this is the least that
    /// any two neighbours between them share.
    shared: usize,
}

impl<'a, S: Store> Outputs<'a, S> {
    pub(super) fn new(store: &'a S, level: usize, cut: Cut) -> Self {
        Outputs {
            store,
            level,
            cut,
            writer: None,
            is_empty: true,
            finished: Vec::new(),
            may_cut: false,
            shared: usize::MAX,
        }
    }

    pub(super) fn store(&self) -> &'a S {
        self.store
    }

    /// Notes the next entry, whether it is kept or not.
    #[inline]
    pub(super) fn pass(&mut self, relation: Relation) {
        self.may_cut |= relation.key_changed;
        self.shared = self.shared.min(relation.shared);
    }

    /// Whether the table has room for the entry passed last, which has this key. A table may end only where the user
    /// key changes: no user key is in two tables of a level.
    #[inline]
    pub(super) fn has_room(&mut self, key: &[u8]) -> bool {
        self.writer.as_ref().is_some_and(|writer| !self.may_cut || self.cut.has_room(key, writer.bytes()))
    }

    /// Ends the table that is full, if there is one, and begins the next.
    pub(super) async fn next_table(&mut self) -> Result<()> {
        self.close().await?;
        self.writer = Some(self.store.create(self.level).await?);
        self.is_empty = true;
        self.shared = 0;
        Ok(())
    }

    /// Adds the entry passed last, for which there must be room. Returns whether `write` is due.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8], warmth: Warmth) -> bool {
        let Some(writer) = &mut self.writer else { unreachable!("an entry is added where there is room") };
        if self.is_empty {
            self.is_empty = false;
            self.cut.begin(key);
        }
        writer.expect(warmth);
        let due = writer.add(key, self.shared, seq, kind, value);
        self.may_cut = false;
        self.shared = usize::MAX;
        due
    }

    /// Writes what was gathered.
    pub(super) async fn write(&mut self) -> Result<()> {
        match &mut self.writer {
            Some(writer) => writer.write().await,
            None => Ok(()),
        }
    }

    /// Returns the written tables. After an error the caller calls `discard`.
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
            // The first error is the one to report; a file left behind is an orphan.
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
