//! [`MemtableCursor`]: a position in a memtable, which it keeps alive.
//!
//! It sees every entry that was inserted before its last seek (before its approach, if that came first), and may see
//! later ones; a reader knows these by their sequence numbers. Entries are never removed. Locks: none.

use super::entry::Place;
use super::list::LeafList;
use super::position::Position;
use super::sealed_entries::SealedEntries;
use crate::error::Result;
use crate::format::{Cursor, EntryKind, SeqNo, Slice};
use crate::table::KeyRange;
use std::sync::Arc;

/// See [`super::Memtable::cursor`]. Its calls never fail.
pub(crate) struct MemtableCursor {
    position: Position,
}

/// The entries of a memtable with keys in a range, once and in order.
pub(crate) struct EntriesIn {
    cursor: MemtableCursor,
    range: Arc<KeyRange>,
}

impl EntriesIn {
    pub(super) fn new(cursor: MemtableCursor, range: &Arc<KeyRange>) -> Self {
        EntriesIn { cursor, range: Arc::clone(range) }
    }
}

impl MemtableCursor {
    pub(super) fn new(list: Arc<LeafList>) -> Self {
        MemtableCursor { position: Position::new(list) }
    }
}

/// The entries that a flush reads, without a copy.
impl SealedEntries for EntriesIn {
    fn advance(&mut self) -> bool {
        let position = &mut self.cursor.position;
        if position.valid() {
            position.go_to_next();
        } else if let Some(from) = &self.range.from {
            position.go_to_at_or_after(Place { key: from, seq: SeqNo::MAX });
        } else {
            position.go_to_first();
        }
        position.valid() && !self.range.is_before(position.entry().key())
    }
    fn key(&self) -> &[u8] {
        self.cursor.position.entry().key()
    }
    fn seq(&self) -> SeqNo {
        self.cursor.position.entry().seq()
    }
    fn kind(&self) -> EntryKind {
        self.cursor.position.entry().kind()
    }
    fn value(&self) -> &[u8] {
        self.cursor.position.entry().value()
    }
}

impl Cursor for MemtableCursor {
    fn valid(&self) -> bool {
        self.position.valid()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.position.go_to_first();
        Ok(())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.position.go_to_last();
        Ok(())
    }
    fn approach(&mut self, user_key: &[u8], seq: SeqNo) {
        self.position.approach(Place { key: user_key, seq });
    }
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.position.go_to_at_or_after(Place { key: user_key, seq });
        Ok(())
    }
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.position.go_to_before(Place { key: user_key, seq });
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.position.go_to_next();
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.position.go_to_previous();
        Ok(())
    }
    fn key(&self) -> &[u8] {
        self.position.entry().key()
    }
    fn seq(&self) -> SeqNo {
        self.position.entry().seq()
    }
    fn kind(&self) -> EntryKind {
        self.position.entry().kind()
    }
    fn value(&self) -> Slice {
        Slice::from(self.position.entry().value())
    }
}
