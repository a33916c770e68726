//! [`TableCursor`]: a position in a table, through the block cache, in both directions.
//!
//! Invariant: the cursor is valid exactly when `block` is there and valid; it then stands in data block `at`. An error
//! leaves it invalid.

use super::file::TableFile;
use super::read_ahead::ReadAhead;
use super::table::Table;
use crate::error::{Error, Result};
use crate::format::{Cursor, CursorEntry, EntryKind, SeqNo, Slice};
use crate::table::format::block::BlockCursor;
use crate::table::format::damage::Damage;
use std::sync::Arc;

/// See the module.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    at: usize,
    /// Kept from block to block for its buffer.
    block: Option<BlockCursor>,
    ahead: ReadAhead,
}

impl Table {
    /// Returns a cursor through the block cache, for foreground reads.
    pub(crate) fn cursor(self: &Arc<Self>) -> TableCursor {
        TableCursor { table: Arc::clone(self), at: 0, block: None, ahead: ReadAhead::default() }
    }
}

type Moved = std::result::Result<(), Damage>;

impl TableCursor {
    /// Moves to the entry of data block `at` that `position` finds. Leaves the cursor invalid if there is no such
    /// block.
    fn enter(&mut self, at: Option<usize>, position: impl FnOnce(&mut BlockCursor) -> Moved) -> Result<()> {
        self.leave();
        let Some(at) = at else { return Ok(()) };
        let Some(content) = self.table.block(at, &mut self.ahead)? else { return Ok(()) };
        let block = match &mut self.block {
            Some(block) => {
                block.enter(content);
                block
            }
            none => none.insert(BlockCursor::new(content)),
        };
        self.at = at;
        position(block).map_err(|damage| damaged(&self.table, at, damage))
    }

    fn leave(&mut self) {
        if let Some(block) = &mut self.block {
            block.leave();
        }
    }

    /// Moves within the block. An error or the end of the block leaves the cursor invalid. Returns whether it is valid.
    #[inline]
    fn step(&mut self, step: impl FnOnce(&mut BlockCursor) -> Moved) -> Result<bool> {
        let Some(block) = self.block.as_mut().filter(|block| block.valid()) else {
            panic!("a cursor that is not valid was moved");
        };
        match step(block) {
            Ok(()) => Ok(block.valid()),
            Err(damage) => Err(damaged(&self.table, self.at, damage)),
        }
    }

    #[inline]
    fn entry(&self) -> &BlockCursor {
        match &self.block {
            Some(block) => block,
            None => panic!("a cursor that is not valid was read"),
        }
    }

    fn table_file(&self) -> Result<&TableFile> {
        self.table.table_file()
    }
}

#[cold]
fn damaged(table: &Table, at: usize, damage: Damage) -> Error {
    match table.table_file() {
        Ok(table_file) => table_file.block_damaged(at, damage),
        Err(error) => error,
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.block.as_ref().is_some_and(BlockCursor::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(Some(0), BlockCursor::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.leave();
        let last = self.table_file()?.index.blocks().checked_sub(1);
        self.enter(last, BlockCursor::seek_to_last)
    }

    fn approach(&mut self, user_key: &[u8], seq: SeqNo) {
        self.leave();
        // The seek that follows reports an error.
        if let Ok(table_file) = self.table_file() {
            self.table.prefetch_block(table_file.index.find(user_key, seq));
        }
    }

    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.leave();
        let index = &self.table_file()?.index;
        let (at, blocks) = (index.find(user_key, seq), index.blocks());
        self.enter(Some(at), |block| block.seek(user_key, seq))?;
        if at < blocks && !self.valid() {
            return Err(self.table_file()?.ends_early(at));
        }
        Ok(())
    }

    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.leave();
        let index = &self.table_file()?.index;
        let at = index.find(user_key, seq);
        let last = index.blocks().saturating_sub(1);
        self.enter(Some(at.min(last)), |block| block.seek_before(user_key, seq))?;
        if !self.valid() && at > 0 {
            let before = self.at.checked_sub(1);
            return self.enter(before, BlockCursor::seek_to_last);
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.step(BlockCursor::next)? {
            return Ok(());
        }
        self.enter(Some(self.at + 1), BlockCursor::seek_to_first)?;
        // The next block arrives while the caller goes through this one.
        self.table.prefetch_block(self.at + 1);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.step(BlockCursor::prev)? {
            return Ok(());
        }
        self.enter(self.at.checked_sub(1), BlockCursor::seek_to_last)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.entry().seq()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.entry().kind()
    }

    #[inline]
    fn value(&self) -> Slice {
        self.entry().value()
    }

    #[inline]
    fn entry(&self) -> Option<CursorEntry<'_>> {
        self.block.as_ref()?.entry()
    }
}
