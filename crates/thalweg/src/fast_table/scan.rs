//! [`FastScan`]: the entries of a range of a fast table, once and in order, for merges. A chunk is a group.

use super::loaded::LoadedGroup;
use super::table::FastTable;
use crate::error::Result;
use crate::format::{EntryKind, SeqNo};
use crate::table::KeyRange;
use std::sync::Arc;

/// See the module. No method may be called after an error or after the end.
pub(crate) struct FastScan {
    table: Arc<FastTable>,
    range: Arc<KeyRange>,
    loaded: LoadedGroup,
    /// The group that is loaded next; `None` before the first step.
    next_group: Option<usize>,
    at: usize,
}

impl FastTable {
    /// The entries whose user keys lie in `range`.
    pub(crate) fn scan(self: &Arc<Self>, range: &Arc<KeyRange>) -> FastScan {
        FastScan {
            table: Arc::clone(self),
            range: Arc::clone(range),
            loaded: LoadedGroup::default(),
            next_group: None,
            at: 0,
        }
    }

    /// Returns about `most` user keys of the table in ascending order, each with the number of bytes between the
    /// previous one and it.
    pub(crate) fn samples(&self, most: usize) -> Result<Vec<(Box<[u8]>, u64)>> {
        let (mut samples, mut before) = (Vec::new(), self.entries_at());
        let mut loaded = LoadedGroup::default();
        for group in (0..self.groups()).step_by(self.groups().div_ceil(most.max(1))) {
            loaded.load(self, group)?;
            let end = self.place(group)?.0.end;
            samples.push((Box::from(loaded.last_key()), end.saturating_sub(before) as u64));
            before = end;
        }
        Ok(samples)
    }
}

impl FastScan {
    /// Moves to the next entry of the chunk. Returns `false` at the end of the chunk, and before the first chunk.
    #[inline]
    pub(crate) fn advance_in_chunk(&mut self) -> Result<bool> {
        if self.at + 1 >= self.loaded.len() {
            return Ok(false);
        }
        self.at += 1;
        Ok(!self.is_past_end())
    }

    /// Moves to the first entry of the next chunk. Returns `false` at the end. Requires that
    /// [`FastScan::advance_in_chunk`] returned `false`.
    pub(crate) fn enter_next_chunk(&mut self) -> Result<bool> {
        let mut group = match (self.next_group, &self.range.from) {
            (Some(group), _) => group,
            (None, Some(from)) => self.table.locate(from, SeqNo::MAX)?.unwrap_or(0),
            (None, None) => 0,
        };
        // The end of the range lies in the chunk that was left.
        if self.at < self.loaded.len() && self.is_past_end() {
            return Ok(false);
        }
        while group < self.table.groups() {
            self.loaded.load(&self.table, group)?;
            group += 1;
            self.next_group = Some(group);
            self.at = self.range.from.as_ref().map_or(0, |from| self.loaded.before(from, SeqNo::MAX));
            if self.at < self.loaded.len() {
                return Ok(!self.is_past_end());
            }
        }
        Ok(false)
    }

    fn is_past_end(&self) -> bool {
        self.range.is_before(self.key())
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.loaded.key(self.at)
    }
    #[inline]
    pub(crate) fn seq(&self) -> SeqNo {
        self.loaded.seq(self.at)
    }
    #[inline]
    pub(crate) fn kind(&self) -> EntryKind {
        self.loaded.kind(self.at)
    }
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.loaded.value(&self.table, self.at)
    }
}
