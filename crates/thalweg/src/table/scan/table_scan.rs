//! [`TableScan`]: a forward scan of a table, or of a range of its keys, for compactions.
//!
//! A scan reads ahead past the block cache, and past the page cache unless the page cache has the table. Both caches
//! are left to foreground reads. A step within a chunk is a plain call; only at the end of a chunk may a step wait.
//!
//! A scan verifies the order of the blocks. The merge verifies the order of the entries in the output of all its
//! inputs. A block in which a range begins or ends belongs to two scans. An entry out of order in such a block comes
//! out of one of the two.

use super::chunks::Chunks;
use crate::cache::Warmth;
use crate::error::{Error, Result};
use crate::format::{EntryKind, SeqNo, Slice, key};
use crate::runtime::yield_now;
use crate::table::format::block::{Block, BlockEntries};
use crate::table::format::damage::Damage;
use crate::table::format::index::BlockHandle;
use crate::table::range::KeyRange;
use crate::table::read::file::TableFile;
use crate::table::read::table::Table;
use std::cmp::Ordering;
use std::sync::Arc;

/// See the module.
pub(crate) struct TableScan {
    table: Arc<Table>,
    /// The data, once the first block was read.
    source: Option<Chunks>,
    /// The block of the current entry, and the number of the next block.
    block: Option<BlockEntries>,
    next_block: usize,
    /// How often foreground reads use the block.
    warmth: Warmth,
    range: Arc<KeyRange>,
    /// The first block that may have keys after the range; unknown before the first block was read.
    last_block: Option<usize>,
    failed: bool,
}

impl Table {
    /// Returns a forward scan for compactions: asynchronous, with read-ahead, past the block cache.
    pub(crate) fn scan(self: &Arc<Self>, range: &Arc<KeyRange>) -> TableScan {
        TableScan {
            table: Arc::clone(self),
            source: None,
            block: None,
            next_block: 0,
            warmth: Warmth::Cold,
            range: Arc::clone(range),
            last_block: None,
            failed: false,
        }
    }
}

impl TableScan {
    /// Moves to the next entry of the chunk. Returns `false` at the end of the chunk, and before the first entry. Must
    /// not be called after an error.
    #[inline]
    pub(crate) fn advance_in_chunk(&mut self) -> Result<bool> {
        let Some(block) = &mut self.block else { return Ok(false) };
        match block.advance() {
            Ok(true) => Ok(self.is_within()),
            Ok(false) => self.enter_next_block(),
            Err(damage) => {
                self.failed = true;
                Err(self.table.table_file()?.block_damaged(self.next_block.saturating_sub(1), damage))
            }
        }
    }

    /// Moves to the first entry of the next block. Returns `false` at the end. Requires that `advance_in_chunk`
    /// returned `false`. Must not be called after an error.
    pub(crate) async fn enter_next_chunk(&mut self) -> Result<bool> {
        assert!(!self.failed, "a scan was used after an error");
        assert!(self.block.is_none(), "a block is left at its end only");
        self.failed = true;
        let table = Arc::clone(&self.table);
        if self.last_block.is_none() {
            yield_now().await;
            self.begin(table.table_file()?);
        }
        let table_file = table.table_file()?;
        let at = self.next_block;
        let Some(handle) = table_file.index.handle(at) else {
            self.failed = false;
            return Ok(false);
        };
        let sealed = self.read(table_file, handle).await?;
        self.enter_block(table_file, at, handle, &sealed)?;
        self.skip_to_range(table_file, handle)?;
        self.failed = false;
        Ok(self.is_within())
    }

    /// Finds the first block that may have keys of the range, and the first that may have keys after it.
    fn begin(&mut self, table_file: &TableFile) {
        let find = |key: &[u8]| table_file.index.find(key, SeqNo::MAX);
        self.next_block = self.range.from.as_deref().map_or(0, find);
        self.last_block = Some(self.range.to.as_deref().map_or(table_file.index.blocks(), find));
    }

    /// Skips the entries of the current block that lie before the range. Only the first block of a range has any.
    fn skip_to_range(&mut self, table_file: &TableFile, handle: BlockHandle) -> Result<()> {
        while let Some(block) = &mut self.block
            && self.range.is_after(block.key())
        {
            if !block.advance().map_err(table_file.damaged(handle))? {
                return Err(table_file.ends_early(self.next_block.saturating_sub(1)));
            }
        }
        Ok(())
    }

    /// Whether the current entry is in the range. An entry after the range ends the scan.
    #[inline]
    fn is_within(&mut self) -> bool {
        // Every key of an earlier block is before the end of the range.
        if self.last_block.is_none_or(|last| self.next_block <= last) {
            return true;
        }
        let is_past = self.block.as_ref().is_some_and(|block| self.range.is_before(block.key()));
        if is_past {
            (self.block, self.next_block) = (None, usize::MAX);
        }
        !is_past
    }

    /// Leaves the block at its end, and enters the next one if the chunk has it.
    fn enter_next_block(&mut self) -> Result<bool> {
        let Some(block) = self.block.take() else { return Ok(false) };
        self.failed = true;
        let table = Arc::clone(&self.table);
        let (table_file, at) = (table.table_file()?, self.next_block);
        // The index must have the last key of the block. Otherwise the next block may be out of order.
        let last = at.saturating_sub(1);
        if table_file.index.last_key(last) != Some((block.key(), block.seq())) {
            return Err(table_file.ends_early(last));
        }
        let next = table_file.index.handle(at).and_then(|handle| Some((handle, self.in_chunk(handle)?)));
        if let Some((handle, sealed)) = &next {
            self.enter_block(table_file, at, *handle, sealed)?;
        }
        self.failed = false;
        Ok(next.is_some() && self.is_within())
    }

    fn enter_block(&mut self, table_file: &TableFile, at: usize, handle: BlockHandle, sealed: &Slice) -> Result<()> {
        let content = table_file.unseal(sealed, handle)?;
        let block = Block::parse(content).and_then(|block| {
            let block = BlockEntries::first(block)?;
            let before = at.checked_sub(1).and_then(|before| table_file.index.last_key(before));
            if before.is_some_and(|before| key::compare(before, (block.key(), block.seq())) != Ordering::Less) {
                return Err(Damage::new(0, "a key after the block before", "one that is not"));
            }
            Ok(block)
        });
        self.block = Some(block.map_err(table_file.damaged(handle))?);
        self.next_block = at + 1;
        self.warmth = self.table.warmth(at);
        Ok(())
    }

    /// The user key of the entry. This and the functions below require that the last step returned `true`.
    pub(crate) fn key(&self) -> &[u8] {
        self.entry().key()
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.entry().seq()
    }

    /// Returns how often foreground reads use the block of the entry.
    pub(crate) fn warmth(&self) -> Warmth {
        self.warmth
    }

    pub(crate) fn kind(&self) -> EntryKind {
        self.entry().kind()
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.entry().value()
    }

    fn entry(&self) -> &BlockEntries {
        match &self.block {
            Some(block) => block,
            None => panic!("a scan without an entry was read"),
        }
    }

    /// Returns the block with its trailer, if the chunk has it.
    fn in_chunk(&self, handle: BlockHandle) -> Option<Slice> {
        self.source.as_ref()?.at_hand(handle.offset, handle.sealed_bytes()?)
    }

    /// Returns the block with its trailer, and reads it if the chunk does not have it.
    async fn read(&mut self, table_file: &TableFile, handle: BlockHandle) -> Result<Slice> {
        let len = handle.sealed_bytes().ok_or_else(|| {
            Error::corruption(table_file.path(), handle.offset, "a block and its trailer", format!("{handle:?}"))
        })?;
        let source = match &mut self.source {
            Some(source) => source,
            none => {
                let file = self.table.open_direct(handle.offset)?.unwrap_or_else(|| Arc::clone(&table_file.file));
                let last = self.last_block.and_then(|last| table_file.index.handle(last)?.end());
                let (end, io) = (last.unwrap_or(table_file.footer.data_end()), self.table.io.clone());
                none.insert(Chunks::new(file, end, io, Arc::clone(&self.table.metrics)))
            }
        };
        source.bytes(handle.offset, len).await
    }
}
