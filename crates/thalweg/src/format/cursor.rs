//! [`Cursor`]: a position in a sorted sequence of internal entries. Memtables, tables, levels and merges of them
//! implement it.

use super::{EntryKind, SeqNo, Slice};
use crate::error::Result;
use crate::memory::Buffer;

/// A position in a sequence of entries in internal-key order ([`super::key::compare`]).
///
/// A new cursor is not valid until a seek positions it. After an error it is not valid until the next successful seek.
/// `key`, `seq`, `kind` and `value` require a valid cursor.
pub(crate) trait Cursor {
    /// Whether the cursor is at an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Prefetches the memory that a seek will need. So several cursors can wait for their memory at the same time.
    /// Leaves the cursor not valid. The next call must be `seek` with the same arguments.
    fn approach(&mut self, _user_key: &[u8], _seq: SeqNo) {}
    /// Moves to the first entry at or after `(user_key, seq)` in internal order. With `SeqNo::MAX` that is the newest
    /// version of `user_key`, or else the first entry of the next key.
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()>;
    /// Moves to the last entry before `(user_key, seq)` in internal order. With `SeqNo::MAX` that is the oldest version
    /// of the largest key less than `user_key`.
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()>;
    /// Moves to the next entry. Requires `valid`.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry. Requires `valid`.
    fn prev(&mut self) -> Result<()>;
    /// The user key of the entry.
    fn key(&self) -> &[u8];
    /// The sequence number of the entry.
    fn seq(&self) -> SeqNo;
    /// The kind of the entry.
    fn kind(&self) -> EntryKind;
    /// The value of the entry, empty for a tombstone. It shares the block of the entry, if there is one.
    fn value(&self) -> Slice;
    /// Returns the whole entry in one call, or `None` while not `valid`.
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

/// The entry that a cursor stands at.
pub(crate) struct CursorEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) value: ValueAt<'a>,
}

/// A value that becomes a slice only when it is needed.
pub(crate) enum ValueAt<'a> {
    Copied(Slice),
    /// The part of a buffer between two offsets.
    In(&'a Buffer, usize, usize),
}

impl ValueAt<'_> {
    /// Returns the value, which shares its buffer.
    #[inline]
    pub(crate) fn into_slice(self) -> Slice {
        match self {
            ValueAt::Copied(value) => value,
            ValueAt::In(buffer, start, end) => Slice::of(buffer, start, end),
        }
    }
}

/// Tests mix cursors of several types.
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

/// A version of a key, found by a point read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The sequence number of the write.
    pub(crate) seq: SeqNo,
    /// A value or a tombstone.
    pub(crate) kind: EntryKind,
    /// The value; empty for a tombstone.
    pub(crate) value: Slice,
}
