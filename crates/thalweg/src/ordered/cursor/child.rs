//! [`Child`]: one input of the merge of a partition's entries. It is an enum, so that no entry costs a call through a
//! table of functions.

use super::super::fast_level::{FastTableHandle, SortedTables};
use super::level::{LevelCursor, LevelTables};
use crate::error::Result;
use crate::fast_table::FastCursor;
use crate::format::{Cursor, CursorEntry, EntryKind, SeqNo, Slice};
use crate::memtable::MemtableCursor;
use crate::table::{Table, TableCursor};
use std::sync::Arc;

/// A cursor over a part of a partition.
pub(crate) enum Child {
    Memtable(MemtableCursor),
    /// An unsorted fast table.
    Fast(FastCursor),
    /// The sorted fast tables.
    Sorted(LevelCursor<SortedTables, Arc<FastTableHandle>>),
    /// A table of level 0.
    Table(TableCursor),
    Level(LevelCursor<LevelTables, Arc<Table>>),
}

/// Passes a call on to the cursor that the child holds.
macro_rules! each {
    ($child:expr, $cursor:ident => $call:expr) => {
        match $child {
            Child::Memtable($cursor) => $call,
            Child::Fast($cursor) => $call,
            Child::Sorted($cursor) => $call,
            Child::Table($cursor) => $call,
            Child::Level($cursor) => $call,
        }
    };
}

impl Cursor for Child {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, cursor => cursor.valid())
    }
    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_last())
    }
    fn approach(&mut self, user_key: &[u8], seq: SeqNo) {
        each!(self, cursor => cursor.approach(user_key, seq))
    }
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        each!(self, cursor => cursor.seek(user_key, seq))
    }
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        each!(self, cursor => cursor.seek_before(user_key, seq))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, cursor => cursor.key())
    }
    #[inline]
    fn seq(&self) -> SeqNo {
        each!(self, cursor => cursor.seq())
    }
    #[inline]
    fn kind(&self) -> EntryKind {
        each!(self, cursor => cursor.kind())
    }
    #[inline]
    fn value(&self) -> Slice {
        each!(self, cursor => cursor.value())
    }
    #[inline]
    fn entry(&self) -> Option<CursorEntry<'_>> {
        each!(self, cursor => cursor.entry())
    }
}
