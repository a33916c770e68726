//! [`TableWriter`]: writes one table, block by block, checksumming the whole file on its way to its [`Output`].
//!
//! Entries are laid out where they will be written from: the open block is the end of `pending`, so `pending` only ever
//! grows while a block is open, and is written where none is.
//!
//! Nothing is synced here; lineage makes outputs durable. A writer that is dropped leaves its file behind, for
//! recovery to find as an orphan; [`TableWriter::abandon`] removes it. After an error only `abandon` may be called.

use super::cache_handover::Keeper;
use super::output::Output;
use crate::cache::Warmth;
use crate::error::Result;
use crate::format::key::{self, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::format::{EntryKind, SeqNo, TableId};
use crate::storage::Storage;
use crate::table::format::block::{BLOCK_BYTES_MAX, BlockBuilder, TRAILER_BYTES, seal, seal_compressed};
use crate::table::format::filter::{self, Filter};
use crate::table::format::footer::{FOOTER_BYTES, Footer, Region};
use crate::table::format::index::{Handle, IndexBuilder};
use crate::table::format::properties::Properties;
use crate::table::{Compression, TableMeta, TableOptions};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Blocks are gathered to this many bytes before they go to the output: few enough that they are copied within the
/// processor's cache, and so many that an entry seldom has to wait.
const PIECE_BYTES: usize = 32 << 10;

/// Writes one table.
pub(crate) struct TableWriter {
    storage: Arc<dyn Storage>,
    output: Output,
    options: TableOptions,
    compression: Compression,
    keeper: Keeper,
    block: BlockBuilder,
    index: IndexBuilder,
    /// Hashes of the distinct user keys, for the filter.
    hashes: Vec<u64>,
    /// Counts so far; its `key_max` is the key of the last entry.
    properties: Properties,
    last_seq: SeqNo,
    last_kind: EntryKind,
    /// Blocks not yet in `output`, which belong at `written` of the file; the last may be open.
    pending: Vec<u8>,
    /// Where blocks are compressed.
    scratch: Vec<u8>,
    written: u64,
    /// Of the first `written` bytes.
    checksum: Box<Xxh3>,
    failed: bool,
}

impl TableWriter {
    pub(in crate::table) fn new(
        storage: Arc<dyn Storage>,
        output: Output,
        id: TableId,
        options: TableOptions,
        compression: Compression,
        keeper: Keeper,
    ) -> Self {
        TableWriter {
            storage,
            output,
            block: BlockBuilder::default(),
            index: IndexBuilder::default(),
            hashes: Vec::new(),
            properties: Properties::new(id, options.filter_bits_per_key),
            options,
            compression,
            keeper,
            last_seq: SeqNo::MAX,
            last_kind: EntryKind::Remove,
            pending: Vec::new(),
            scratch: Vec::new(),
            written: 0,
            checksum: Box::default(),
            failed: false,
        }
    }

    pub(crate) fn id(&self) -> TableId {
        self.properties.table
    }

    /// Appends an entry; entries come in internal-key order, each once. `shared`: how many first bytes its key has in
    /// common with that of the entry before; 0 for the first. Whether a piece is full: then [`TableWriter::write`] is
    /// due before the next entry.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) -> bool {
        assert!(!self.failed, "a table writer was used after an error");
        assert!(key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX && seq <= SeqNo::MAX);
        assert!(kind == EntryKind::Put || value.is_empty(), "a tombstone has no value");
        if self.properties.entries > 0 {
            let last = self.properties.key_max.as_slice();
            debug_assert_eq!(shared, key::shared_bytes(last, key), "shared bytes were counted wrong");
            // The byte after the shared ones decides.
            let in_order = match (last.get(shared), key.get(shared)) {
                (Some(last), Some(new)) => last < new,
                (None, Some(_)) => true,
                (None, None) => seq < self.last_seq,
                (Some(_), None) => false,
            };
            assert!(in_order, "entries are not in order");
        }
        let new_key = self.properties.count(key, shared, seq, kind, value.len());
        if new_key && self.options.filter_bits_per_key > 0 {
            self.hashes.push(filter::hash(key));
        }
        self.block.add(&mut self.pending, key, shared, seq, kind, value);
        self.last_seq = seq;
        self.last_kind = kind;
        if self.block.entry_bytes(&self.pending) < self.options.block_bytes.min(BLOCK_BYTES_MAX) {
            return false;
        }
        self.close_block();
        self.pending.len() >= PIECE_BYTES
    }

    /// The entry that is added next comes from a block that is wanted so much.
    #[inline]
    pub(crate) fn expect(&mut self, warmth: Warmth) {
        self.keeper.count(warmth);
    }

    /// Writes the piece that [`TableWriter::add`] found full.
    pub(crate) async fn write(&mut self) -> Result<()> {
        self.write_pending().await
    }

    /// Bytes of the file so far, the open block included.
    pub(crate) fn bytes(&self) -> u64 {
        let open = if self.block.is_empty() { 0 } else { self.block.end_bytes() + TRAILER_BYTES };
        self.offset() + open as u64
    }

    /// Writes index, filter, properties and footer. Nothing is synced, that is lineage's work, unless too many unsynced
    /// tables are open. Requires at least one entry. An error removes the file.
    pub(crate) async fn finish(mut self) -> Result<TableMeta> {
        assert!(!self.failed, "a table writer was used after an error");
        assert!(self.properties.entries > 0, "a table has at least one entry");
        match self.write_end().await {
            Ok(()) => {
                let file = self.keeper.may_keep_file().then(|| Arc::clone(self.output.file()));
                self.keeper.finish(self.id(), file);
                Ok(self.properties.to_meta(self.written, self.checksum.digest()))
            }
            Err(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    /// Gives the table up and removes its file. Where that fails the file is left to recovery, as an orphan.
    pub(crate) async fn abandon(self) {
        let path = self.output.path().to_path_buf();
        self.output.abandon().await;
        // The error that made the caller give up is the one to tell; an orphan costs space until the next open.
        let _ = self.storage.remove(&path);
    }

    /// Where the next byte belongs in the file.
    fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn close_block(&mut self) {
        let start = self.block.finish(&mut self.pending);
        let content = self.pending.get(start..).unwrap_or_default();
        let raw_bytes = content.len() as u64;
        self.keeper.keep(content);
        let (table, offset) = (self.id(), self.written + start as u64);
        let bytes = match self.compression {
            Compression::None => seal(&mut self.pending, start, table, offset),
            Compression::Lz4 => seal_compressed(&mut self.pending, start, table, offset, &mut self.scratch),
        };
        let handle = Handle { offset, bytes, raw_bytes };
        self.index.add(&self.properties.key_max, self.last_seq, self.last_kind, handle);
        self.properties.data_blocks += 1;
        self.properties.data_bytes = self.offset();
    }

    async fn write_end(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            self.close_block();
        }
        let filter = (self.options.filter_bits_per_key > 0).then(|| {
            let hashes = std::mem::take(&mut self.hashes);
            let filter = Filter::build(&hashes, self.options.filter_bits_per_key);
            self.seal_region(|out| filter.encode(out))
        });
        let index = std::mem::take(&mut self.index);
        let index = self.seal_region(|out| out.extend_from_slice(index.content()));
        let properties = self.properties.encode();
        let properties = self.seal_region(|out| out.extend_from_slice(&properties));
        let footer = Footer { table: self.id(), index, filter, properties };
        self.pending.extend_from_slice(&footer.encode());
        assert!(self.pending.len() >= FOOTER_BYTES);
        self.write_pending().await?;
        self.output.finish().await?;
        if self.keeper.may_keep_file() { Ok(()) } else { self.output.sync().await }
    }

    fn seal_region(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Region {
        let (table, offset, start) = (self.id(), self.offset(), self.pending.len());
        append(&mut self.pending);
        let bytes = seal(&mut self.pending, start, table, offset);
        Region { offset, bytes }
    }

    async fn write_pending(&mut self) -> Result<()> {
        assert!(self.block.is_empty(), "an open block is not written");
        // Stays set when the write fails, or is cut short by dropping the future.
        self.failed = true;
        self.checksum.update(&self.pending);
        self.output.append(&self.pending).await?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.failed = false;
        Ok(())
    }
}
