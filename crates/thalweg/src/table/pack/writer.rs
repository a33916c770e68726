//! [`PackWriter`]: writes one pack, block by block, and computes the checksum of the whole file on the way.
//!
//! Like a writer of sorted tables, it syncs nothing unless too many files are unsynced. A dropped writer leaves its
//! file behind, which recovery finds as an orphan.

use super::block::{BLOCK_BYTES_MAX, Content, Item};
use super::block_builder::BlockBuilder;
use super::contents::{ContentsBuilder, FreshContents};
use super::extent::write_extent;
use super::items::PackItems;
use super::{FORMAT_VERSION, Format, INLINE_VALUE_BYTES_MAX, MAGIC, PAGE_BYTES, Place};
use crate::error::Result;
use crate::format::{EntryKey, EntryKind, HashKey, NameHash, SeqNo, TableId};
use crate::planted::{Bug, planted};
use crate::storage::Storage;
use crate::table::format::block::seal;
use crate::table::format::filter::{self, Filter};
use crate::table::format::footer::{Footer, Region};
use crate::table::format::properties::Properties;
use crate::table::meta::TableMeta;
use crate::table::options::{PackWrites, TableOptions};
use crate::table::write::output::Output;
use crate::table::write::unsynced_files::UnsyncedFiles;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Blocks are gathered to this many bytes before they go to the output.
const PIECE_BYTES: usize = 32 << 10;

/// The most bytes of a page that may be unused behind its last block. If more would be, a block goes on in the next
/// page.
const UNUSED_BYTES_MAX: usize = 256;

/// A block is closed once it has this many bytes in extents, which are kept in memory until then.
const EXTENT_BYTES_KEPT: usize = 64 << 10;

/// Writes one pack. After an error only [`PackWriter::abandon`] may be called.
pub(crate) struct PackWriter {
    storage: Arc<dyn Storage>,
    output: Output,
    unsynced: Arc<UnsyncedFiles>,
    fresh: Arc<FreshContents>,
    hash_key: HashKey,
    filter_bits_per_key: u32,
    /// A block is closed once its items reach this many bytes.
    block_bytes: usize,
    /// The open block. `fence` is the fence of its first item.
    block: BlockBuilder,
    /// The directory that has blocks and is not ended.
    directory: Option<u64>,
    fence: u32,
    /// Long values of the open block, one after the other, and the length of each.
    values: Vec<u8>,
    value_bytes: Vec<usize>,
    contents: ContentsBuilder,
    /// Hashes of the distinct names, for the filter.
    hashes: Vec<u64>,
    properties: Properties,
    /// Bytes that are not in `output` yet, and belong at offset `written` of the file.
    pending: Vec<u8>,
    written: u64,
    checksum: Box<Xxh3>,
    /// The items, for an index that has each item.
    items: Option<PackItems>,
    failed: bool,
}

impl PackWriter {
    pub(in crate::table) fn new(
        storage: Arc<dyn Storage>,
        output: Output,
        id: TableId,
        hash_key: HashKey,
        options: &TableOptions,
        (unsynced, fresh): (Arc<UnsyncedFiles>, Arc<FreshContents>),
    ) -> Self {
        let (filter_bits_per_key, items) = match options.pack_writes {
            PackWrites::ByDirectory => (options.filter_bits_per_key, None),
            PackWrites::ByItem => (0, Some(PackItems::default())),
        };
        PackWriter {
            storage,
            output,
            unsynced,
            fresh,
            hash_key,
            filter_bits_per_key,
            block_bytes: options.pack_block_bytes,
            block: BlockBuilder::default(),
            directory: None,
            fence: 0,
            values: Vec::new(),
            value_bytes: Vec::new(),
            contents: ContentsBuilder::default(),
            hashes: Vec::new(),
            properties: Properties::new(id, filter_bits_per_key),
            pending: Vec::new(),
            written: 0,
            checksum: Box::default(),
            items,
            failed: false,
        }
    }

    fn id(&self) -> TableId {
        self.properties.table
    }

    /// Appends an entry, as [`crate::table::TableWriter::add`] does. The key is an entry key.
    pub(crate) fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) -> bool {
        assert!(!self.failed, "a pack writer was used after an error");
        let Some(entry) = EntryKey::decode(key) else { unreachable!("a directory keyspace has entry keys") };
        if self.directory.is_some_and(|before| before != entry.directory) {
            self.end_directory();
        }
        self.directory = Some(entry.directory);
        let new_key = self.properties.count(key, shared, seq, kind, value.len());
        if new_key && self.filter_bits_per_key > 0 {
            self.hashes.push(filter::hash(&entry.prefix()));
        }
        let content = match kind {
            EntryKind::Remove => Content::Remove,
            EntryKind::Put if value.len() > INLINE_VALUE_BYTES_MAX => Content::Extent(value.len() as u32),
            EntryKind::Put => Content::Inline(value),
        };
        let item = Item { name: entry.name, seq, content };
        self.add_item(entry.hash, &item);
        if let Some(items) = &mut self.items {
            items.add(entry.hash);
        }
        if self.block.len() == 1 {
            self.fence = entry.hash.fence();
        }
        if matches!(content, Content::Extent(_)) {
            self.values.extend_from_slice(value);
            self.value_bytes.push(value.len());
            if self.values.len() >= EXTENT_BYTES_KEPT {
                self.close_block();
            }
        }
        self.pending.len() >= PIECE_BYTES
    }

    /// Writes the piece that [`PackWriter::add`] found full.
    pub(crate) async fn write(&mut self) -> Result<()> {
        self.write_pending().await
    }

    /// The bytes of the file so far, the open block included.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset() + (self.block.bytes() + self.values.len() + self.contents.bytes()) as u64
    }

    /// Writes contents, filter, properties and footer. Requires at least one entry. An error removes the file.
    pub(crate) async fn finish(mut self) -> Result<TableMeta> {
        assert!(!self.failed, "a pack writer was used after an error");
        assert!(self.properties.entries > 0, "a pack has at least one entry");
        match self.write_end().await {
            Ok(is_synced) => {
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

    /// Abandons the pack and removes its file. If that fails, the file is left to recovery as an orphan.
    pub(crate) async fn abandon(self) {
        let path = self.output.path().to_path_buf();
        self.output.abandon().await;
        // The caller reports the error that made it abandon the pack. An orphan costs space until the next open.
        let _ = self.storage.remove(&path);
    }

    /// The offset in the file of the next byte.
    fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Adds an item to the open block or, if it does not fit there, to a new one. A block ends where its page ends if
    /// that leaves little of the page unused: then a lookup needs one page.
    fn add_item(&mut self, hash: NameHash, item: &Item<'_>) {
        let is_full = self.block.bytes() >= self.block_bytes;
        if !is_full && self.block.push(hash, item, self.room()) {
            return;
        }
        if self.block.len() > 0 {
            let unused = self.room() - self.block.sealed_bytes();
            if !is_full && unused > UNUSED_BYTES_MAX && self.block.push(hash, item, BLOCK_BYTES_MAX) {
                return;
            }
            self.close_block();
            if self.block.push(hash, item, self.room()) {
                return;
            }
        }
        let unused = self.room();
        if unused <= UNUSED_BYTES_MAX {
            self.pending.resize(self.pending.len() + unused, 0);
        }
        let fits = self.block.push(hash, item, BLOCK_BYTES_MAX);
        assert!(fits, "an item fits in an empty block");
    }

    /// Returns how long the open block may become: up to the end of its page, or up to the largest block if it is past
    /// that end.
    fn room(&self) -> usize {
        let of_page = PAGE_BYTES - (self.offset() % PAGE_BYTES as u64) as usize;
        let is_within = self.items.is_none() && (self.block.len() == 0 || self.block.sealed_bytes() <= of_page);
        if is_within { of_page } else { BLOCK_BYTES_MAX }
    }

    /// Ends the open block, and puts its extents behind it.
    fn close_block(&mut self) {
        let Some(directory) = self.directory else { unreachable!("a block has a directory") };
        if self.items.is_some() {
            let (skip, bytes) = ((self.offset() % PAGE_BYTES as u64) as usize, self.block.sealed_bytes());
            if skip + bytes > PAGE_BYTES {
                self.pending.resize(self.pending.len() + PAGE_BYTES - skip, 0);
            }
        }
        let (offset, start, id) = (self.offset(), self.pending.len(), self.id());
        if let Some(items) = &mut self.items {
            items.end_block(directory, offset, self.block.len());
        }
        let path = self.output.path();
        let place = |offset| Place { path, pack: id, offset, format: Format::Two };
        self.block.seal(directory, place(offset), &mut self.pending);
        self.contents.add_block(offset, self.pending.len() - start, self.fence);
        self.properties.data_blocks += 1;
        let mut at = 0;
        for bytes in self.value_bytes.drain(..) {
            let offset = self.written + self.pending.len() as u64;
            let value = self.values.get(at..at + bytes).unwrap_or_default();
            write_extent(value, place(offset), &mut self.pending);
            at += bytes;
        }
        self.values.clear();
        self.properties.data_bytes = self.offset();
    }

    fn end_directory(&mut self) {
        if self.block.len() > 0 {
            self.close_block();
        }
        if let Some(directory) = self.directory.take() {
            self.contents.end_directory(directory);
        }
    }

    /// Writes the rest of the file. Returns whether the file was synced, because too many files are unsynced.
    async fn write_end(&mut self) -> Result<bool> {
        if self.contents.is_empty() || !planted(Bug::LastDirectoryLost) {
            self.end_directory();
        }
        let filter = (self.filter_bits_per_key > 0).then(|| {
            let hashes = std::mem::take(&mut self.hashes);
            let filter = Filter::build(&hashes, self.filter_bits_per_key);
            self.seal_region(|out| filter.encode(out))
        });
        let (contents, key) = (std::mem::take(&mut self.contents), self.hash_key);
        let (mut region, data_end) = (Vec::new(), filter.map_or(self.offset(), |filter| filter.offset));
        contents.encode(&key, &mut region);
        let index = self.seal_region(|out| out.extend_from_slice(&region));
        let properties = self.properties.encode();
        let properties = self.seal_region(|out| out.extend_from_slice(&properties));
        let footer = Footer { version: FORMAT_VERSION, table: self.id(), index, filter, properties };
        self.pending.extend_from_slice(&footer.encode(MAGIC));
        self.write_pending().await?;
        self.output.finish().await?;
        let is_synced = !self.unsynced.has_room();
        if is_synced {
            self.output.sync().await?;
        }
        self.fresh.put(self.id(), (region, data_end));
        self.items.take().into_iter().for_each(|items| self.fresh.put_items(self.id(), items));
        Ok(is_synced)
    }

    fn seal_region(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Region {
        let (table, offset, start) = (self.id(), self.offset(), self.pending.len());
        append(&mut self.pending);
        let bytes = seal(&mut self.pending, start, table, offset);
        Region { offset, bytes }
    }

    async fn write_pending(&mut self) -> Result<()> {
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
