//! [`FastCursor`]: a position in a fast table, which it keeps alive. Locks: none.

use super::loaded::LoadedGroup;
use super::table::FastTable;
use crate::error::Result;
use crate::format::{Cursor, EntryKind, SeqNo, Slice};
use std::sync::Arc;

/// See the module. Invariant while valid: `loaded` is the group `group`, and `at` is one of its entries.
pub(crate) struct FastCursor {
    table: Arc<FastTable>,
    loaded: LoadedGroup,
    /// The group that is loaded; `None` if none is.
    group: Option<usize>,
    at: usize,
    valid: bool,
}

impl FastTable {
    /// Returns a cursor that is not valid yet.
    pub(crate) fn cursor(self: &Arc<Self>) -> FastCursor {
        FastCursor { table: Arc::clone(self), loaded: LoadedGroup::default(), group: None, at: 0, valid: false }
    }
}

impl FastCursor {
    /// Loads a group, if it is not loaded yet. Makes the cursor invalid.
    fn load(&mut self, group: usize) -> Result<()> {
        self.valid = false;
        if self.group != Some(group) {
            self.group = None;
            self.loaded.load(&self.table, group)?;
            self.group = Some(group);
        }
        Ok(())
    }

    /// Moves to the first entry of `group`. Makes the cursor invalid if there is no such group.
    fn go_to_first_of(&mut self, group: usize) -> Result<()> {
        self.valid = false;
        if group < self.table.groups() {
            self.load(group)?;
            self.at = 0;
            self.valid = true;
        }
        Ok(())
    }

    /// Moves to the last entry of the group before `group`. Makes the cursor invalid if there is no such group.
    fn go_to_last_before(&mut self, group: usize) -> Result<()> {
        self.valid = false;
        if let Some(before) = group.checked_sub(1) {
            self.load(before)?;
            self.at = self.loaded.len().saturating_sub(1);
            self.valid = true;
        }
        Ok(())
    }

    /// Loads the group of `(key, seq)`. Returns the number of this group, and how many of its entries are before
    /// `(key, seq)`. Returns `None` if all entries of the table are after `(key, seq)`.
    fn find(&mut self, key: &[u8], seq: SeqNo) -> Result<Option<(usize, usize)>> {
        self.valid = false;
        let Some(group) = self.table.locate(key, seq)? else { return Ok(None) };
        self.load(group)?;
        Ok(Some((group, self.loaded.before(key, seq))))
    }
}

impl Cursor for FastCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.go_to_first_of(0)
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.go_to_last_before(self.table.groups())
    }
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        match self.find(user_key, seq)? {
            None => self.go_to_first_of(0),
            Some((group, before)) if before == self.loaded.len() => self.go_to_first_of(group + 1),
            Some((_, before)) => {
                self.at = before;
                self.valid = true;
                Ok(())
            }
        }
    }
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        match self.find(user_key, seq)? {
            None => Ok(()),
            Some((group, 0)) => self.go_to_last_before(group),
            Some((_, before)) => {
                self.at = before - 1;
                self.valid = true;
                Ok(())
            }
        }
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.at += 1;
        if self.at < self.loaded.len() {
            return Ok(());
        }
        self.go_to_first_of(self.group.map_or(0, |group| group + 1))
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        match self.at.checked_sub(1) {
            Some(before) => self.at = before,
            None => self.go_to_last_before(self.group.unwrap_or(0))?,
        }
        Ok(())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        self.loaded.key(self.at)
    }
    #[inline]
    fn seq(&self) -> SeqNo {
        self.loaded.seq(self.at)
    }
    #[inline]
    fn kind(&self) -> EntryKind {
        self.loaded.kind(self.at)
    }
    #[inline]
    fn value(&self) -> Slice {
        Slice::from(self.loaded.value(&self.table, self.at))
    }
}
