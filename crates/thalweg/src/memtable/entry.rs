//! [`EntryRef`]: an entry of a memtable, written once into a piece of its arena, and [`Place`]: a place among entries.
//!
//! ```text
//!   trailer: u64 | key_len: u32 | value_len: u32 | key | value
//!   ^ the entry's address
//! ```
//!
//! Invariants: an entry never changes and never moves; it is there as long as its arena. An `EntryRef<'a>` exists only
//! where the entry was written before, by this thread or by one that published it, and its arena outlives `'a`.
//!
//! Locks: none.

#![allow(unsafe_code)]

use super::arena::{ALIGNMENT, Arena};
use crate::format::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX, pack_trailer, unpack_trailer};
use crate::format::{EntryKind, SeqNo, prefetch};
use std::cmp::{Ordering as Order, Reverse};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The fixed part of an entry; key and value lie behind it.
#[repr(C)]
pub(super) struct Header {
    trailer: u64,
    key_len: u32,
    value_len: u32,
}

const _: () = assert!(align_of::<Header>() <= ALIGNMENT);
const _: () = assert!(KEY_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX <= u32::MAX as usize);

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct EntryRef<'a> {
    header: NonNull<Header>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> EntryRef<'a> {
    /// Writes an entry that nothing points to yet.
    pub(super) fn write(arena: &'a Arena, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) -> Self {
        assert!(key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX, "the caller checked the lengths");
        assert!(seq <= SeqNo::MAX);
        let piece = arena.allocate(size_of::<Header>() + key.len() + value.len());
        let header = piece.cast::<Header>();
        let trailer = pack_trailer(seq, kind);
        // SAFETY: the piece is ours alone, aligned for the header, and has room for header, key and value in a row.
        // The pointer keeps the provenance of the whole chunk, so that key and value may be reached from the header.
        unsafe {
            header.write(Header { trailer, key_len: key.len() as u32, value_len: value.len() as u32 });
            let bytes = header.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        EntryRef { header, arena: PhantomData }
    }

    /// # Safety
    /// `header` came from [`EntryRef::as_ptr`] of an entry whose arena outlives `'a`; if by way of another thread, with
    /// a Release there and an Acquire here.
    pub(super) unsafe fn from_ptr(header: NonNull<Header>) -> Self {
        EntryRef { header, arena: PhantomData }
    }

    pub(super) fn as_ptr(self) -> NonNull<Header> {
        self.header
    }

    fn header(self) -> &'a Header {
        // SAFETY: the entry was written and is there for `'a` (see the module); nobody ever has a `&mut` to it.
        unsafe { self.header.as_ref() }
    }

    pub(super) fn key(self) -> &'a [u8] {
        // SAFETY: `key_len` bytes behind the header were initialised by `write` and never change.
        unsafe { std::slice::from_raw_parts(self.header.add(1).cast().as_ptr(), self.header().key_len as usize) }
    }

    pub(super) fn value(self) -> &'a [u8] {
        let Header { key_len, value_len, .. } = *self.header();
        // SAFETY: `value_len` bytes behind the key were initialised by `write` and never change.
        unsafe {
            let value = self.header.add(1).cast::<u8>().add(key_len as usize);
            std::slice::from_raw_parts(value.as_ptr(), value_len as usize)
        }
    }

    pub(super) fn seq(self) -> SeqNo {
        SeqNo(self.header().trailer >> 8)
    }

    pub(super) fn kind(self) -> EntryKind {
        match unpack_trailer(self.header().trailer) {
            Some((_, kind)) => kind,
            None => unreachable!("an entry's trailer was packed from a kind"),
        }
    }

    pub(super) fn place(self) -> Place<'a> {
        Place { key: self.key(), seq: self.seq() }
    }

    /// Prefetches the header and the first bytes of key and value into the processor's cache.
    pub(super) fn prefetch(self) {
        prefetch(self.header.as_ptr());
    }
}

/// A place in internal-key order: user key ascending, then sequence number descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) key: &'a [u8],
    pub(super) seq: SeqNo,
}

impl PartialOrd for Place<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Order {
        (self.key, Reverse(self.seq)).cmp(&(other.key, Reverse(other.seq)))
    }
}

/// The first eight bytes of a key as a number, zeros where the key is shorter: in the order of keys, except for ties.
pub(super) fn key_word(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => key.iter().zip((0..8).rev()).map(|(byte, place)| u64::from(*byte) << (8 * place)).sum(),
    }
}
