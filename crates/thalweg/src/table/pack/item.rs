//! Foreground reads for indexes that have each item: of one item whose place is known, and of all items.

use super::block::{Block, Content};
use super::contents::{BlockAt, PackSpan};
use super::items::PackItems;
use super::open_pack::{PackValue, PackVersion, version};
use super::read::FoundBlock;
use super::{ALIGNMENT, PAGE_BYTES, block_length};
use crate::error::Result;
use crate::format::{EntryKey, SeqNo, Slice};
use crate::memory::Buffer;
use crate::table::page_cache::block_buffer::BlockBuffer;
use crate::table::read::table::Table;
use std::cell::Cell;

/// The bytes of one read of a pack.
const READ_BYTES: usize = 1 << 20;

thread_local! {
    /// The buffer that a thread's lookups copy the block of a mapping to.
    static BUFFER: Cell<BlockBuffer> = const { Cell::new(BlockBuffer::new()) };
}

impl Table {
    /// Returns all items of a pack. If the pack was just written, the first call takes them from memory; otherwise this
    /// reads the pack.
    pub(crate) fn items(&self) -> Result<PackItems> {
        if let Some(items) = self.take_fresh_items() {
            return Ok(items);
        }
        let pack = self.pack()?;
        let mut spans: Vec<(u64, PackSpan)> = Vec::new();
        self.visit_directories(&mut |directory, span| spans.push((directory, span)))?;
        let mut items = PackItems::default();
        let (mut start, mut read) = (0, Buffer::zeroed(0));
        for (directory, span) in spans {
            for at in pack.blocks_of(span) {
                if at.offset < start || at.offset + at.bytes_max as u64 > start + read.len() as u64 {
                    let bytes = pack.footer.data_end().saturating_sub(at.offset).min(READ_BYTES as u64);
                    start = at.offset;
                    let bytes = usize::try_from(bytes).unwrap_or(READ_BYTES);
                    read = Buffer::filled(bytes, |read| pack.file.read_exact_at(start, read))?;
                }
                let bytes = read.get((at.offset - start) as usize..).unwrap_or_default();
                let bytes = bytes.get(..block_length(bytes)).unwrap_or(bytes);
                let block: Block<'_> = pack.decode(bytes, at.offset, directory)?;
                for item in block.items() {
                    items.add(pack.hash_key.hash(item?.name));
                }
                items.end_block(directory, at.offset, block.head().len());
            }
        }
        Ok(items)
    }

    /// Returns the newest version of an entry with a sequence number of at most `visible`, among the items of its hash
    /// in one block. The block is at `place`, in units of 8 bytes. The first of these items is item `first`.
    pub(crate) fn version_at(
        &self,
        place: u32,
        first: usize,
        key: &EntryKey<'_>,
        visible: SeqNo,
    ) -> Result<Option<PackVersion>> {
        // The thread's buffer no longer exists while the thread ends.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        let found = self.version_in(u64::from(place) * ALIGNMENT as u64, first, key, visible, &mut buffer);
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
        found
    }

    fn version_in(
        &self,
        offset: u64,
        first: usize,
        key: &EntryKey<'_>,
        visible: SeqNo,
        buffer: &mut BlockBuffer,
    ) -> Result<Option<PackVersion>> {
        let pack = self.pack()?;
        let found_block = self.block_at(offset, buffer)?;
        let (bytes, block) = (&found_block.bytes, found_block.decode(pack, offset, key.directory)?);
        found_block.keep(pack);
        let fingerprints = block.fingerprints().enumerate().skip(first);
        for (number, _) in fingerprints.take_while(|(_, fingerprint)| *fingerprint == key.hash.fingerprint()) {
            let item = block.item(number)?;
            if item.name != key.name || item.seq > visible {
                continue;
            }
            let mut extent = offset + bytes.len() as u64;
            if matches!(item.content, Content::Extent(_)) {
                extent += block.extents_before(number)?;
            }
            // The versions of a name are in falling order of sequence numbers, so this is the newest.
            let mut found = version(bytes, &item, extent);
            // The value is copied, or it would keep its pages in memory.
            if let PackValue::Here(value) = &mut found.value {
                *value = Slice::from(&**value);
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Returns the block at `offset`, whose length and pages are not known. So this first reads the part of the block
    /// in its first page.
    fn block_at(&self, offset: u64, buffer: &mut BlockBuffer) -> Result<FoundBlock> {
        let pack = self.pack()?;
        let left = pack.footer.data_end().saturating_sub(offset);
        let of_page = PAGE_BYTES - (offset % PAGE_BYTES as u64) as usize;
        let read = |bytes_max: usize, buffer: &mut BlockBuffer| {
            let bytes_max = usize::try_from(left).unwrap_or(bytes_max).min(bytes_max);
            self.find_block(pack, BlockAt { offset, bytes_max, fence: 0 }, buffer, true)
        };
        let found = read(of_page, buffer)?;
        if block_length(&found.bytes) > found.bytes.len() { read(PAGE_BYTES, buffer) } else { Ok(found) }
    }
}
