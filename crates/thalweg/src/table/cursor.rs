//! [`TableCursor`]: a position in a table, through the block cache, in both directions.
//!
//! Invariant: valid exactly when `block` is a valid cursor; it is then on data block `at`. An error leaves `None`.

use super::Table;
use super::block::BlockCursor;
use super::opened::Opened;
use crate::error::Result;
use crate::format::{Cursor, EntryKind, SeqNo, Slice};
use std::sync::Arc;

/// See the module.
pub(super) struct TableCursor {
    table: Arc<Table>,
    at: usize,
    block: Option<BlockCursor>,
}

impl TableCursor {
    pub(super) fn new(table: Arc<Table>) -> Self {
        TableCursor { table, at: 0, block: None }
    }

    /// To an entry of data block `at` as `position` has it; invalid when there is no such block.
    fn enter(
        &mut self,
        opened: impl FnOnce(&Opened) -> Option<usize>,
        position: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), super::damage::Damage>,
    ) -> Result<()> {
        self.block = None;
        let file = self.table.opened()?;
        let Some(at) = opened(file) else { return Ok(()) };
        let Some(mut block) = self.table.block(file, at)? else { return Ok(()) };
        position(&mut block).map_err(|damage| self.table.block_damaged(file, at, damage))?;
        self.at = at;
        self.block = Some(block);
        Ok(())
    }

    /// Moves within the block; an error, or its end, leaves the cursor invalid. Gives whether it is valid.
    fn step(
        &mut self,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), super::damage::Damage>,
    ) -> Result<bool> {
        assert!(self.valid(), "a cursor that is not valid was moved");
        let Some(block) = &mut self.block else { return Ok(false) };
        match step(block) {
            Ok(()) => Ok(block.valid()),
            Err(damage) => {
                self.block = None;
                Err(self.table.block_damaged(self.table.opened()?, self.at, damage))
            }
        }
    }

    fn entry(&self) -> &BlockCursor {
        match &self.block {
            Some(block) => block,
            None => panic!("a cursor that is not valid was read"),
        }
    }
}

impl Cursor for TableCursor {
    fn valid(&self) -> bool {
        self.block.as_ref().is_some_and(BlockCursor::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(|_| Some(0), BlockCursor::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.enter(|opened| opened.index.blocks().checked_sub(1), BlockCursor::seek_to_last)
    }

    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.enter(|opened| Some(opened.index.find(user_key, seq)), |block| block.seek(user_key, seq))?;
        if self.block.as_ref().is_some_and(|block| !block.valid()) {
            self.block = None;
            return Err(self.table.ends_early(self.table.opened()?, self.at));
        }
        Ok(())
    }

    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        let mut first = false;
        let find = |opened: &Opened| {
            let at = opened.index.find(user_key, seq);
            first = at == 0;
            Some(at.min(opened.index.blocks().saturating_sub(1)))
        };
        self.enter(find, |block| block.seek_before(user_key, seq))?;
        match &self.block {
            Some(block) if !block.valid() && !first => {
                let before = self.at.checked_sub(1);
                self.enter(|_| before, BlockCursor::seek_to_last)
            }
            _ => Ok(()),
        }
    }

    fn next(&mut self) -> Result<()> {
        if !self.step(BlockCursor::next)? {
            let next = self.at + 1;
            self.enter(|_| Some(next), BlockCursor::seek_to_first)?;
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if !self.step(BlockCursor::prev)? {
            let before = self.at.checked_sub(1);
            self.enter(|_| before, BlockCursor::seek_to_last)?;
        }
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.entry().key()
    }

    fn seq(&self) -> SeqNo {
        self.entry().seq()
    }

    fn kind(&self) -> EntryKind {
        self.entry().kind()
    }

    fn value(&self) -> Slice {
        self.entry().value()
    }
}
