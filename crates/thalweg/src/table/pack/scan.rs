//! [`PackScan`]: a forward scan of a pack, or of a range of its keys, for compactions.
//!
//! It reads ahead past the block cache, as a scan of a sorted table does, and verifies every block. An extent is read,
//! and verified, only when its value is asked for: a merge of many packs must not have one of each in memory.

use super::block::{Block, Content, Head};
use super::contents::{ContentsBlock, Fence, Walk};
use super::extent::{extent_bytes, verify_extent};
use super::{ALIGNMENT, block_length};
use crate::error::{Error, Result};
use crate::format::{EntryKey, EntryKind, NameHash, SeqNo, Slice};
use crate::runtime::yield_now;
use crate::table::format::damage::Damage;
use crate::table::range::KeyRange;
use crate::table::read::table::Table;
use crate::table::scan::chunks::Chunks;
use std::sync::Arc;

/// See the module.
pub(crate) struct PackScan {
    table: Arc<Table>,
    range: Arc<KeyRange>,
    /// The data, and where the scan is; `None` before the first step and after the last one.
    source: Option<(Chunks, Position)>,
    has_begun: bool,
    block: Option<ScannedBlock>,
    key: Vec<u8>,
}

/// Where a scan is in the contents of its pack.
struct Position {
    contents: Slice,
    walk: Walk,
    directory: u64,
    /// Blocks of the directory.
    blocks: Vec<ContentsBlock>,
    /// The number of the next of these blocks.
    next: usize,
    /// The directory and the hash at the ends of the range.
    from: Option<(u64, NameHash)>,
    to: Option<(u64, NameHash)>,
}

impl Position {
    /// Returns the directory and the offset of the next block that may have keys of the range.
    fn next_block(&mut self) -> std::result::Result<Option<(u64, u64)>, Damage> {
        loop {
            let is_past =
                |fence: Fence| self.to.is_some_and(|(to, hash)| self.directory == to && fence.hash > hash.fence());
            if let Some(block) = self.blocks.get(self.next) {
                if is_past(block.fence) {
                    return Ok(None);
                }
                self.next += 1;
                return Ok(Some((self.directory, u64::from(block.fence.at) * ALIGNMENT as u64)));
            }
            let Some(directory) = self.walk.next(&self.contents, &mut self.blocks)? else { return Ok(None) };
            if self.to.is_some_and(|(to, _)| directory > to) {
                return Ok(None);
            }
            (self.directory, self.next) = (directory, 0);
            match self.from {
                Some((from, _)) if directory < from => self.blocks.clear(),
                Some((from, hash)) if directory == from => {
                    // Entries with one hash may begin in the block before the one that begins with this hash.
                    let begins_before = |block: &ContentsBlock| block.fence.hash < hash.fence();
                    self.next = self.blocks.partition_point(begins_before).saturating_sub(1);
                }
                _ => {}
            }
        }
    }
}

/// The block of the current entry.
struct ScannedBlock {
    bytes: Slice,
    head: Head,
    offset: u64,
    /// The number of the next item, and where in the block it begins.
    next: usize,
    next_at: usize,
    /// The offset of the extent of the next item that has one.
    next_extent: u64,
    seq: SeqNo,
    kind: EntryKind,
    value: Value,
}

/// The current value.
enum Value {
    /// Its place in the block.
    Block(usize, usize),
    /// The offset of its extent, and its bytes.
    Extent(u64, u32),
    /// The value of an extent that was read.
    Read(Slice),
}

impl PackScan {
    /// A scan of the keys of a pack in `range`.
    pub(crate) fn new(table: &Arc<Table>, range: &Arc<KeyRange>) -> Self {
        let (table, range) = (Arc::clone(table), Arc::clone(range));
        PackScan { table, range, source: None, has_begun: false, block: None, key: Vec::new() }
    }

    /// Moves to the next entry of the block. Returns `false` at the end of the block, and before the first entry. Must
    /// not be called after an error.
    #[inline]
    pub(crate) fn advance_in_chunk(&mut self) -> Result<bool> {
        loop {
            if !self.advance_in_block()? {
                return Ok(false);
            }
            if self.range.is_before(&self.key) {
                (self.block, self.source) = (None, None);
                return Ok(false);
            }
            if !self.range.is_after(&self.key) {
                return Ok(true);
            }
        }
    }

    /// Moves to the first entry of the next block. Returns `false` at the end. Requires that `advance_in_chunk`
    /// returned `false`. Must not be called after an error.
    pub(crate) async fn enter_next_chunk(&mut self) -> Result<bool> {
        if !self.has_begun {
            yield_now().await;
            self.begin()?;
            self.has_begun = true;
        }
        let table = Arc::clone(&self.table);
        let pack = table.pack()?;
        loop {
            let Some((chunks, position)) = &mut self.source else { return Ok(false) };
            let in_contents = |damage: Damage| damage.in_block(pack.file.path(), pack.footer.index.offset);
            let Some((directory, offset)) = position.next_block().map_err(in_contents)? else { return Ok(false) };
            let head = chunks.bytes(offset, ALIGNMENT).await?;
            let length = block_length(&head);
            let bytes = chunks.bytes(offset, length.max(ALIGNMENT)).await?;
            let block = pack.decode(&bytes, offset, directory)?;
            let mut extents = 0;
            for item in block.items() {
                if let Content::Extent(value_bytes) = item?.content {
                    extents += extent_bytes(value_bytes as usize);
                }
            }
            let (head, end) = (block.head(), offset + bytes.len() as u64);
            if end + extents as u64 > pack.footer.data_end() {
                let expected = format!("{extents} bytes of extents before {}", pack.footer.data_end());
                return Err(Error::corruption(pack.file.path(), end, expected, "the end of the blocks"));
            }
            self.block = Some(ScannedBlock {
                bytes,
                head,
                offset,
                next: 0,
                next_at: head.first_offset(),
                next_extent: end,
                seq: SeqNo(0),
                kind: EntryKind::Remove,
                value: Value::Block(0, 0),
            });
            if self.advance_in_chunk()? {
                return Ok(true);
            }
        }
    }

    /// Goes to the beginning of the range.
    fn begin(&mut self) -> Result<()> {
        let pack = self.table.pack()?;
        let directory_of = |key: &[u8]| EntryKey::decode(key).map(|key| (key.directory, key.hash));
        let from = self.range.from.as_deref().and_then(directory_of);
        let to = self.range.to.as_deref().and_then(directory_of);
        let contents = pack.contents()?;
        let in_contents = |damage: Damage| damage.in_block(pack.file.path(), pack.footer.index.offset);
        let walk = Walk::new(&contents, pack.footer.data_end()).map_err(in_contents)?;
        let mut position = Position { contents, walk, directory: 0, blocks: Vec::new(), next: 0, from, to };
        let Some((_, first)) = position.next_block().map_err(in_contents)? else { return Ok(()) };
        position.next -= 1;
        let file = self.table.open_direct_pack(first)?.unwrap_or_else(|| Arc::clone(&pack.file));
        let chunks = Chunks::new(file, pack.footer.data_end(), self.table.io.clone(), Arc::clone(&self.table.metrics));
        self.source = Some((chunks, position));
        Ok(())
    }

    fn advance_in_block(&mut self) -> Result<bool> {
        let Some(block) = &mut self.block else { return Ok(false) };
        if block.next == block.head.len() {
            self.block = None;
            return Ok(false);
        }
        let pack = self.table.pack()?;
        let place = pack.place(block.offset);
        // The block was verified when it was entered.
        let (item, next_at) = Block::trusted(&block.bytes, place, block.head).item_at(block.next, block.next_at)?;
        EntryKey::new(block.head.directory(), item.name, &pack.hash_key).write(&mut self.key);
        (block.next, block.next_at) = (block.next + 1, next_at);
        block.seq = item.seq;
        (block.kind, block.value) = match item.content {
            Content::Remove => (EntryKind::Remove, Value::Block(0, 0)),
            Content::Inline(value) => {
                let start = value.as_ptr().addr() - block.bytes.as_ptr().addr();
                (EntryKind::Put, Value::Block(start, start + value.len()))
            }
            Content::Extent(value_bytes) => {
                let offset = block.next_extent;
                block.next_extent += extent_bytes(value_bytes as usize) as u64;
                (EntryKind::Put, Value::Extent(offset, value_bytes))
            }
        };
        Ok(true)
    }

    /// The key of the entry. This and the functions below require that the last step returned `true`.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    fn entry(&self) -> &ScannedBlock {
        match &self.block {
            Some(block) => block,
            None => panic!("a scan without an entry was read"),
        }
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.entry().seq
    }

    pub(crate) fn kind(&self) -> EntryKind {
        self.entry().kind
    }

    /// Whether the value is in memory.
    #[inline]
    pub(crate) fn has_value(&self) -> bool {
        !matches!(self.entry().value, Value::Extent(..))
    }

    /// Reads and verifies the value, if it is in an extent.
    pub(crate) async fn read_value(&mut self) -> Result<()> {
        let (Some(block), Some((chunks, _))) = (&mut self.block, &mut self.source) else { return Ok(()) };
        let Value::Extent(offset, value_bytes) = block.value else { return Ok(()) };
        let value_bytes = value_bytes as usize;
        let extent = chunks.bytes(offset, extent_bytes(value_bytes)).await?;
        verify_extent(&extent, value_bytes, self.table.pack()?.place(offset))?;
        block.value = Value::Read(extent.slice(0..value_bytes));
        Ok(())
    }

    /// The value, which is in memory.
    pub(crate) fn value(&self) -> &[u8] {
        let block = self.entry();
        match &block.value {
            Value::Block(start, end) => block.bytes.get(*start..*end).unwrap_or_default(),
            Value::Read(value) => value,
            Value::Extent(..) => panic!("a value that was not read"),
        }
    }
}
