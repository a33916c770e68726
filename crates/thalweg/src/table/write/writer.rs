//! [`TableWriter`]: writes one table, block by block, and computes the checksum of the whole file on the way to its
//! [`Output`].
//!
//! Entries are encoded in the buffer that is written: the open block is the end of `pending`. So `pending` only grows
//! while a block is open, and is written only while none is.
//!
//! A writer syncs nothing, unless too many unsynced tables are open: lineage makes outputs durable. A dropped writer
//! leaves its file behind, which recovery finds as an orphan; [`TableWriter::abandon`] removes it. After an error only
//! `abandon` may be called.

use super::cache_handover::BlockCollector;
use super::output::Output;
use super::unsynced_files::UnsyncedFiles;
use crate::cache::Warmth;
use crate::error::Result;
use crate::format::key::{self, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::format::{EntryKind, SeqNo, TableId};
use crate::storage::Storage;
use crate::table::format::block::{BLOCK_BYTES_MAX, BlockBuilder, TRAILER_BYTES, seal, seal_compressed};
use crate::table::format::filter::{self, Filter};
use crate::table::format::footer::{FOOTER_BYTES, FORMAT_VERSION, Footer, MAGIC, Region};
use crate::table::format::index::{BlockHandle, IndexBuilder};
use crate::table::format::properties::Properties;
use crate::table::meta::TableMeta;
use crate::table::options::{Compression, TableOptions};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Blocks are gathered to this many bytes before they go to the output: few enough to be copied within the processor's
/// cache, and enough that an entry seldom has to wait.
const PIECE_BYTES: usize = 32 << 10;

/// The least bytes of a direct read: see [`TableWriter::needs_a_page_more`].
const PAGE_BYTES: u64 = 4 << 10;

/// An entry takes at most this much more than its key and its value.
const ENTRY_BYTES_MORE: usize = 40;

/// Writes one table.
pub(crate) struct TableWriter {
    storage: Arc<dyn Storage>,
    output: Output,
    options: TableOptions,
    compression: Compression,
    collector: BlockCollector,
    unsynced: Arc<UnsyncedFiles>,
    block: BlockBuilder,
    index: IndexBuilder,
    /// Hashes of the distinct user keys, for the filter.
    hashes: Vec<u64>,
    /// Counts so far; its `key_max` is the key of the last entry.
    properties: Properties,
    last_seq: SeqNo,
    last_kind: EntryKind,
    /// Blocks that are not in `output` yet, and belong at offset `written` of the file. The last may be open.
    pending: Vec<u8>,
    /// The memory in which blocks are compressed.
    scratch: Vec<u8>,
    written: u64,
    /// The checksum of the first `written` bytes.
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
        collector: BlockCollector,
        unsynced: Arc<UnsyncedFiles>,
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
            collector,
            unsynced,
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

    /// Appends an entry. Entries come in internal-key order, each once. `shared`: the bytes that its key shares with
    /// the beginning of the previous key; 0 for the first entry. Returns whether a piece is full: then
    /// [`TableWriter::write`] is due before the next entry.
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
        let is_full = self.block.entry_bytes(&self.pending) >= self.options.block_bytes.min(BLOCK_BYTES_MAX);
        if !is_full && !self.needs_a_page_more(key.len() + value.len()) {
            return false;
        }
        self.close_block();
        self.pending.len() >= PIECE_BYTES
    }

    /// Records that the next entry comes from a block of `warmth`.
    #[inline]
    pub(crate) fn expect(&mut self, warmth: Warmth) {
        self.collector.count(warmth);
    }

    /// Writes the piece that [`TableWriter::add`] found full.
    pub(crate) async fn write(&mut self) -> Result<()> {
        self.write_pending().await
    }

    /// The bytes of the file so far, the open block included.
    pub(crate) fn bytes(&self) -> u64 {
        let open = if self.block.is_empty() { 0 } else { self.block.end_bytes() + TRAILER_BYTES };
        self.offset() + open as u64
    }

    /// Writes index, filter, properties and footer. Requires at least one entry. An error removes the file.
    pub(crate) async fn finish(mut self) -> Result<TableMeta> {
        assert!(!self.failed, "a table writer was used after an error");
        assert!(self.properties.entries > 0, "a table has at least one entry");
        match self.write_end().await {
            Ok(is_synced) => {
                self.collector.finish(self.id());
                if !is_synced {
                    let unsynced = self.output.take_unsynced();
                    self.unsynced.insert(self.id(), unsynced);
                }
                Ok(self.properties.to_meta(self.written, self.checksum.digest()))
            }
            Err(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    /// Abandons the table and removes its file. If that fails, the file is left to recovery as an orphan.
    pub(crate) async fn abandon(self) {
        let path = self.output.path().to_path_buf();
        self.output.abandon().await;
        // The caller reports the error that made it abandon the table. An orphan costs space until the next open.
        let _ = self.storage.remove(&path);
    }

    /// The offset in the file of the next byte.
    fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Whether the open block, with one more entry of `bytes`, would touch one page more than a block of the same size
    /// touches at most places. Then it is better closed now, unless it is small, because a read costs as many pages as
    /// its block touches. The next entry is assumed to be as large as the last one. Waiting for the next entry would
    /// leave the block open, and `pending` would grow. For a compressed block, the answer is not known in time.
    #[inline]
    fn needs_a_page_more(&self, bytes: usize) -> bool {
        let so_far = self.block.entry_bytes(&self.pending);
        if 2 * so_far < self.options.block_bytes || self.compression != Compression::None {
            return false;
        }
        let start = self.offset() - so_far as u64;
        let pages = (self.options.block_bytes as u64).div_ceil(PAGE_BYTES) + 1;
        let end = self.offset() + (bytes + ENTRY_BYTES_MORE + self.block.end_bytes() + TRAILER_BYTES) as u64;
        end > (start / PAGE_BYTES + pages) * PAGE_BYTES
    }

    fn close_block(&mut self) {
        let start = self.block.finish(&mut self.pending);
        let content = self.pending.get(start..).unwrap_or_default();
        let raw_bytes = content.len() as u64;
        self.collector.keep(content);
        let (table, offset) = (self.id(), self.written + start as u64);
        let bytes = match self.compression {
            Compression::None => seal(&mut self.pending, start, table, offset),
            Compression::Lz4 => seal_compressed(&mut self.pending, start, table, offset, &mut self.scratch),
        };
        let handle = BlockHandle { offset, bytes, raw_bytes };
        self.index.add(&self.properties.key_max, self.last_seq, self.last_kind, handle);
        self.properties.data_blocks += 1;
        self.properties.data_bytes = self.offset();
    }

    /// Writes the rest of the file. Returns whether the file was synced, because too many files are unsynced.
    async fn write_end(&mut self) -> Result<bool> {
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
        let footer = Footer { version: FORMAT_VERSION, table: self.id(), index, filter, properties };
        self.pending.extend_from_slice(&footer.encode(MAGIC));
        assert!(self.pending.len() >= FOOTER_BYTES);
        self.write_pending().await?;
        self.output.finish().await?;
        let is_synced = !self.unsynced.has_room();
        if is_synced {
            self.output.sync().await?;
        }
        Ok(is_synced)
    }

    fn seal_region(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Region {
        let (table, offset, start) = (self.id(), self.offset(), self.pending.len());
        append(&mut self.pending);
        let bytes = seal(&mut self.pending, start, table, offset);
        Region { offset, bytes }
    }

    async fn write_pending(&mut self) -> Result<()> {
        assert!(self.block.is_empty(), "an open block is not written");
        // Stays set if the write fails, or if its future is dropped before the end.
        self.failed = true;
        self.checksum.update(&self.pending);
        self.output.append(&self.pending).await?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.failed = false;
        Ok(())
    }
}
