//! [`TableScan`]: a forward scan of a table, or of a range of its keys, for compactions.
//!
//! Reads ahead past the block cache, and past the page cache too but for a table that is in it: both are left to the
//! foreground. Within a chunk of what was read a
//! step is a plain call; only where one ends does it have to wait. Verifies the order of the blocks; that of the
//! entries within one is verified by the merge, in what comes out of all its inputs. A block in which a range begins or
//! ends belongs to two scans; whatever is out of order in it comes out of one of them.

use super::chunks::Chunks;
use crate::cache::Warmth;
use crate::error::{Error, Result};
use crate::format::{EntryKind, SeqNo, Slice, key};
use crate::metrics::Metrics;
use crate::runtime::yield_now;
use crate::table::format::block::{Block, BlockEntries};
use crate::table::format::damage::Damage;
use crate::table::format::index::Handle;
use crate::table::read::file::Opened;
use crate::table::{KeyRange, Table};
use std::cmp::Ordering;
use std::sync::Arc;

/// See [`Table::scan`].
pub(crate) struct TableScan {
    table: Arc<Table>,
    metrics: Arc<Metrics>,
    /// The file, once the first block was asked for.
    source: Option<Chunks>,
    /// The block the entry is in, and the number of the block after it.
    block: Option<BlockEntries>,
    next_block: usize,
    /// How much foreground reads want the block.
    warmth: Warmth,
    range: Arc<KeyRange>,
    /// The first block that may have keys behind the range; unknown before the first block was asked for.
    last_block: Option<usize>,
    failed: bool,
}

impl TableScan {
    pub(in crate::table) fn new(table: Arc<Table>, range: Arc<KeyRange>, metrics: Arc<Metrics>) -> Self {
        TableScan {
            table,
            metrics,
            source: None,
            block: None,
            next_block: 0,
            warmth: Warmth::Cold,
            range,
            last_block: None,
            failed: false,
        }
    }

    /// To the next entry of the chunk; `false` where it ends, and before the first one. Not to be called after an
    /// error.
    #[inline]
    pub(crate) fn advance_in_chunk(&mut self) -> Result<bool> {
        let Some(block) = &mut self.block else { return Ok(false) };
        match block.advance() {
            Ok(true) => Ok(self.is_within()),
            Ok(false) => self.enter_next_block(),
            Err(damage) => {
                self.failed = true;
                let opened = self.table.opened()?;
                Err(self.table.block_damaged(opened, self.next_block.saturating_sub(1), damage))
            }
        }
    }

    /// To the first entry of the next block; `false` at the end. Requires that `advance_in_chunk` gave `false`. Not to
    /// be called after an error.
    pub(crate) async fn enter_next_chunk(&mut self) -> Result<bool> {
        assert!(!self.failed, "a scan was used after an error");
        assert!(self.block.is_none(), "a block is left at its end only");
        self.failed = true;
        let table = Arc::clone(&self.table);
        if self.last_block.is_none() {
            yield_now().await;
            self.begin(table.opened()?);
        }
        let opened = table.opened()?;
        let at = self.next_block;
        let Some(handle) = opened.index.handle(at) else {
            self.failed = false;
            return Ok(false);
        };
        let sealed = self.read(opened, handle).await?;
        self.enter_block(opened, at, handle, &sealed)?;
        self.skip_to_range(opened, handle)?;
        self.failed = false;
        Ok(self.is_within())
    }

    /// Finds the blocks of the range: the first that may have keys of it, and the first that may have keys behind it.
    fn begin(&mut self, opened: &Opened) {
        let find = |key: &[u8]| opened.index.find(key, SeqNo::MAX);
        self.next_block = self.range.from.as_deref().map_or(0, find);
        self.last_block = Some(self.range.to.as_deref().map_or(opened.index.blocks(), find));
    }

    /// Leaves behind what the block at hand has before the range. Of the blocks of a range only the first has any.
    fn skip_to_range(&mut self, opened: &Opened, handle: Handle) -> Result<()> {
        while let Some(block) = &mut self.block
            && self.range.is_after(block.key())
        {
            if !block.advance().map_err(opened.damaged(handle))? {
                return Err(self.table.ends_early(opened, self.next_block.saturating_sub(1)));
            }
        }
        Ok(())
    }

    /// Whether the entry at hand is in the range; where it is behind it the scan ends.
    #[inline]
    fn is_within(&mut self) -> bool {
        // Every key of an earlier block is before the end of the range.
        if self.last_block.is_none_or(|last| self.next_block <= last) {
            return true;
        }
        let is_behind = self.block.as_ref().is_some_and(|block| self.range.is_before(block.key()));
        if is_behind {
            (self.block, self.next_block) = (None, usize::MAX);
        }
        !is_behind
    }

    /// Leaves the block that ends, for the next one if the chunk has it.
    fn enter_next_block(&mut self) -> Result<bool> {
        let Some(block) = self.block.take() else { return Ok(false) };
        self.failed = true;
        let table = Arc::clone(&self.table);
        let (opened, at) = (table.opened()?, self.next_block);
        // Where a block ends, the index must say so too; else what comes next may be out of order.
        let last = at.saturating_sub(1);
        if opened.index.last_key(last) != Some((block.key(), block.seq())) {
            return Err(table.ends_early(opened, last));
        }
        let next = opened.index.handle(at).and_then(|handle| Some((handle, self.in_chunk(handle)?)));
        if let Some((handle, sealed)) = &next {
            self.enter_block(opened, at, *handle, sealed)?;
        }
        self.failed = false;
        Ok(next.is_some() && self.is_within())
    }

    fn enter_block(&mut self, opened: &Opened, at: usize, handle: Handle, sealed: &Slice) -> Result<()> {
        let content = opened.unseal(sealed, handle)?;
        let block = Block::parse(content).and_then(|block| {
            let block = BlockEntries::first(block)?;
            let before = at.checked_sub(1).and_then(|before| opened.index.last_key(before));
            if before.is_some_and(|before| key::compare(before, (block.key(), block.seq())) != Ordering::Less) {
                return Err(Damage::new(0, "a key after the block before", "one that is not"));
            }
            Ok(block)
        });
        self.block = Some(block.map_err(opened.damaged(handle))?);
        self.next_block = at + 1;
        self.warmth = self.table.warmth(at);
        Ok(())
    }

    /// The entry. Requires that the last step gave `true`.
    pub(crate) fn key(&self) -> &[u8] {
        self.entry().key()
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.entry().seq()
    }

    /// How much foreground reads want the block that the entry is in.
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

    /// The block with its trailer, if the chunk has it.
    fn in_chunk(&self, handle: Handle) -> Option<Slice> {
        let len = usize::try_from(handle.end()?.checked_sub(handle.offset)?).ok()?;
        self.source.as_ref()?.at_hand(handle.offset, len)
    }

    /// The block with its trailer, read where the chunk does not have it.
    async fn read(&mut self, opened: &Opened, handle: Handle) -> Result<Slice> {
        let len = handle.end().and_then(|end| usize::try_from(end.checked_sub(handle.offset)?).ok());
        let len = len.ok_or_else(|| {
            Error::corruption(opened.path(), handle.offset, "a block and its trailer", format!("{handle:?}"))
        })?;
        let source = match &mut self.source {
            Some(source) => source,
            none => {
                let file = self.table.open_medium(handle.offset)?.unwrap_or_else(|| Arc::clone(&opened.file));
                let last = self.last_block.and_then(|last| opened.index.handle(last)?.end());
                let (end, io) = (last.unwrap_or(opened.footer.data_end()), self.table.io.clone());
                none.insert(Chunks::new(file, end, io, Arc::clone(&self.metrics)))
            }
        };
        source.bytes(handle.offset, len).await
    }
}
