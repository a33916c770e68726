//! [`Cursor`]: a position in a sorted sequence of internal entries, the one shape that memtables, tables, levels and
//! merges of them share.

use super::{EntryKind, SeqNo, Slice};
use crate::error::Result;
use std::sync::Arc;

/// A position in a sequence of entries in internal-key order ([`super::key::compare`]).
///
/// A fresh cursor is not valid; a seek positions it. `key`, `seq`, `kind`, `value` may be called only while `valid`.
/// After an error the cursor is not valid until the next successful seek.
pub(crate) trait Cursor {
    /// Whether the cursor is at an entry.
    fn valid(&self) -> bool;
    /// To the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// To the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Begins a seek: asks for the memory that it will need, so that several cursors wait for theirs at once. Leaves
    /// the cursor not valid; the next call is `seek` with the same place.
    fn approach(&mut self, _user_key: &[u8], _seq: SeqNo) {}
    /// To the first entry at or after `(user_key, seq)` in internal order: with `SeqNo::MAX` the newest version of
    /// `user_key`, or the first entry of the next key.
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()>;
    /// To the last entry strictly before `(user_key, seq)` in internal order: with `SeqNo::MAX` the oldest version
    /// of the largest key less than `user_key`.
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()>;
    /// To the next entry. Requires `valid`.
    fn next(&mut self) -> Result<()>;
    /// To the previous entry. Requires `valid`.
    fn prev(&mut self) -> Result<()>;
    /// The user key of the entry.
    fn key(&self) -> &[u8];
    /// The sequence number of the entry.
    fn seq(&self) -> SeqNo;
    /// The kind of the entry.
    fn kind(&self) -> EntryKind;
    /// The value of the entry (empty for a tombstone), sharing the block it is in where there is one.
    fn value(&self) -> Slice;
    /// All of the entry in one question; `None` while not `valid`.
    #[inline]
    fn entry(&self) -> Option<CursorEntry<'_>> {
        self.valid().then(|| CursorEntry {
            key: self.key(),
            seq: self.seq(),
            kind: self.kind(),
            value: ValueAt::Copied(self.value()),
        })
    }
}

/// An entry where a cursor is.
pub(crate) struct CursorEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) value: ValueAt<'a>,
}

/// A value that is made a slice of only where it is wanted.
pub(crate) enum ValueAt<'a> {
    Copied(Slice),
    /// In a buffer, from where to where.
    In(&'a Arc<[u8]>, usize, usize),
}

impl ValueAt<'_> {
    /// The value, sharing the buffer it is in.
    #[inline]
    pub(crate) fn into_slice(self) -> Slice {
        match self {
            ValueAt::Copied(value) => value,
            ValueAt::In(buffer, start, end) => Slice::of(buffer, start, end),
        }
    }
}

/// Tests mix cursors of several kinds.
#[cfg(test)]
impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        (**self).seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<()> {
        (**self).seek_to_last()
    }
    fn approach(&mut self, user_key: &[u8], seq: SeqNo) {
        (**self).approach(user_key, seq);
    }
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        (**self).seek(user_key, seq)
    }
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        (**self).seek_before(user_key, seq)
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn seq(&self) -> SeqNo {
        (**self).seq()
    }
    fn kind(&self) -> EntryKind {
        (**self).kind()
    }
    fn value(&self) -> Slice {
        (**self).value()
    }
    fn entry(&self) -> Option<CursorEntry<'_>> {
        (**self).entry()
    }
}

/// One version of a key, as a point read finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// When it was written.
    pub(crate) seq: SeqNo,
    /// Whether it is a value or a tombstone.
    pub(crate) kind: EntryKind,
    /// The value; empty for a tombstone.
    pub(crate) value: Slice,
}
