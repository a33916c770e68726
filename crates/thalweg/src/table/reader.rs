//! [`Table`]: a table of the set of live files, as reads use it.
//!
//! The file is opened at the first use and stays open. A file that is missing, has another length or says other things
//! of itself than the manifest is corruption. No lock is held over I/O: two threads that use a table first at the
//! same time may both open it, and one of the two is dropped.

use super::TableMeta;
use super::block::{Block, BlockCursor};
use super::cursor::TableCursor;
use super::filter;
use super::opened::Opened;
use super::scan::TableScan;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::{Cursor, SeqNo, Version};
use crate::metrics::Metrics;
use crate::storage::Storage;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A table of the set of live files.
pub(crate) struct Table {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    meta: TableMeta,
    cache: Arc<BlockCache>,
    metrics: Arc<Metrics>,
    opened: OnceLock<Opened>,
}

impl Table {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        meta: TableMeta,
        cache: Arc<BlockCache>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Table { storage, path, meta, cache, metrics, opened: OnceLock::new() }
    }

    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The newest version of `key` at or below `seq`.
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
        if key < &*self.meta.key_min || key > &*self.meta.key_max || seq < self.meta.seq_min {
            return Ok(None);
        }
        let opened = self.opened()?;
        if let Some(filter) = &opened.filter {
            self.metrics.filter_checks.increment();
            if !filter.may_contain(filter::hash(key)) {
                self.metrics.filter_negatives.increment();
                return Ok(None);
            }
        }
        // The first entry at or after (key, seq) is in this block, wherever the other versions of the key are.
        let at = opened.index.find(key, seq);
        let Some(mut block) = self.block(opened, at)? else { return Ok(None) };
        block.seek(key, seq).map_err(|damage| self.block_damaged(opened, at, damage))?;
        if !block.valid() {
            return Err(self.ends_early(opened, at));
        }
        Ok((block.key() == key).then(|| Version { seq: block.seq(), kind: block.kind(), value: block.value() }))
    }

    /// A cursor through the block cache, for foreground reads.
    pub(crate) fn cursor(self: &Arc<Self>) -> Box<dyn Cursor + Send> {
        Box::new(TableCursor::new(Arc::clone(self)))
    }

    /// A forward scan for compactions: asynchronous, reads ahead, leaves the block cache alone.
    pub(crate) fn scan(self: &Arc<Self>) -> TableScan {
        TableScan::new(Arc::clone(self), Arc::clone(&self.metrics))
    }

    /// The file, opened now if it was not.
    pub(super) fn opened(&self) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = Opened::open_live(&*self.storage, &self.path, &self.meta)?;
        Ok(self.opened.get_or_init(|| opened))
    }

    /// A cursor on data block `at`, through the cache; `None` past the last one.
    pub(super) fn block(&self, opened: &Opened, at: usize) -> Result<Option<BlockCursor>> {
        let Some(handle) = opened.index.handle(at) else { return Ok(None) };
        let content = match self.cache.get(self.meta.id, handle.offset) {
            Some(content) => {
                self.metrics.cache_hits.increment();
                content
            }
            None => {
                self.metrics.cache_misses.increment();
                let content = opened.read_block(handle)?;
                self.cache.insert(self.meta.id, handle.offset, content.clone());
                content
            }
        };
        let block = Block::parse(content).map_err(opened.damaged(handle))?;
        Ok(Some(BlockCursor::new(block)))
    }

    /// Damage inside data block `at`.
    pub(super) fn block_damaged(&self, opened: &Opened, at: usize, damage: super::damage::Damage) -> Error {
        damage.in_block(&self.path, opened.index.handle(at).map_or(0, |handle| handle.offset))
    }

    /// The index has an entry for block `at` that is not in it.
    pub(super) fn ends_early(&self, opened: &Opened, at: usize) -> Error {
        let last = opened.index.last_key(at).map(|(key, _)| key).unwrap_or_default();
        let offset = opened.index.handle(at).map_or(0, |handle| handle.offset);
        Error::corruption(&self.path, offset, format!("a block up to key \"{}\"", last.escape_ascii()), "its end")
    }
}

#[cfg(any(test, feature = "simulation"))]
impl Table {
    /// A table that was opened already, from any file, for fuzzing.
    pub(super) fn of(storage: Arc<dyn Storage>, opened: Opened) -> Arc<Self> {
        let meta = opened.properties.to_meta(opened.file_bytes, 0);
        let table = Table::new(storage, opened.path().to_path_buf(), meta, BlockCache::new(0), Arc::default());
        table.opened.get_or_init(|| opened);
        Arc::new(table)
    }
}
