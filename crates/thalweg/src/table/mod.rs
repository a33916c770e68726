//! Tables: immutable sorted files (`docs/format/table.md`).

mod meta;

pub(crate) use meta::TableMeta;

use crate::cache::BlockCache;
use crate::error::Result;
use crate::format::{Cursor, SeqNo, TableId, Version};
use crate::metrics::Metrics;
use crate::runtime::Environment;
use std::path::PathBuf;
use std::sync::Arc;

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// LZ4 block format; a block that does not shrink by an eighth is stored as it is.
    Lz4,
}

/// How tables are written.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// A data block is closed once its entries reach this many bytes (before compression).
    pub(crate) block_bytes: usize,
    pub(crate) compression: Compression,
    /// Bits a key of the table's filter; 0: no filter.
    pub(crate) filter_bits_per_key: u32,
}

/// All table files of a database: names them, creates them, opens them.
pub(crate) struct TableStore;

#[allow(unused_variables, clippy::unimplemented)]
impl TableStore {
    /// Tables live in `directory`; `next_id` is the first id that was never used.
    pub(crate) fn new(
        environment: Environment,
        directory: PathBuf,
        options: TableOptions,
        cache: Arc<BlockCache>,
        metrics: Arc<Metrics>,
        next_id: TableId,
    ) -> Arc<Self> {
        unimplemented!()
    }
    pub(crate) fn path(&self, id: TableId) -> PathBuf {
        unimplemented!()
    }
    /// The first id never used (for the manifest).
    pub(crate) fn next_id(&self) -> TableId {
        unimplemented!()
    }
    /// A new file to write entries to, in internal-key order.
    pub(crate) async fn create(&self) -> Result<TableWriter> {
        unimplemented!()
    }
    /// A handle on a table in the set of live files. No I/O: the file is opened at its first use.
    pub(crate) fn open(&self, meta: TableMeta) -> Arc<Table> {
        unimplemented!()
    }
    /// Removes a file that no edit names or will name (a failed output, a settled input, an orphan).
    pub(crate) fn remove(&self, id: TableId) -> Result<()> {
        unimplemented!()
    }
}

/// Writes one table.
pub(crate) struct TableWriter;

#[allow(unused_variables, clippy::unimplemented)]
impl TableWriter {
    pub(crate) fn id(&self) -> TableId {
        unimplemented!()
    }
    /// Appends an entry; entries come in internal-key order, each once.
    pub(crate) async fn add(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: crate::format::EntryKind,
        value: &[u8],
    ) -> Result<()> {
        unimplemented!()
    }
    /// Bytes of the file so far, the open block included.
    pub(crate) fn bytes(&self) -> u64 {
        unimplemented!()
    }
    /// Writes index, filter, properties and footer. Nothing is synced: that is lineage's work.
    pub(crate) async fn finish(self) -> Result<TableMeta> {
        unimplemented!()
    }
}

/// A table of the set of live files.
pub(crate) struct Table;

#[allow(unused_variables, clippy::unimplemented)]
impl Table {
    pub(crate) fn meta(&self) -> &TableMeta {
        unimplemented!()
    }
    /// The newest version of `key` at or below `seq`.
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
        unimplemented!()
    }
    /// A cursor through the block cache, for foreground reads.
    pub(crate) fn cursor(self: &Arc<Self>) -> Box<dyn Cursor + Send> {
        unimplemented!()
    }
    /// A forward scan for compactions: asynchronous, reads ahead, leaves the block cache alone.
    pub(crate) fn scan(self: &Arc<Self>) -> TableScan {
        unimplemented!()
    }
}

/// See [`Table::scan`].
pub(crate) struct TableScan;

#[allow(unused_variables, clippy::unimplemented)]
impl TableScan {
    /// To the next entry (the first call: to the first one); `false` at the end.
    pub(crate) async fn advance(&mut self) -> Result<bool> {
        unimplemented!()
    }
    /// The entry. Requires that the last `advance` gave `true`.
    pub(crate) fn key(&self) -> &[u8] {
        unimplemented!()
    }
    pub(crate) fn seq(&self) -> SeqNo {
        unimplemented!()
    }
    pub(crate) fn kind(&self) -> crate::format::EntryKind {
        unimplemented!()
    }
    pub(crate) fn value(&self) -> &[u8] {
        unimplemented!()
    }
}

/// Checks that the file at `path` is `meta.bytes` long and has checksum `meta.checksum`, reading the medium itself.
/// `Ok(false)` when it does not, or is missing; errors are those of the disk.
#[allow(unused_variables, clippy::unimplemented)]
pub(crate) fn verify_file(environment: &Environment, path: &std::path::Path, meta: &TableMeta) -> Result<bool> {
    unimplemented!()
}
