//! [`Staged`]: the groups of a table that is being written, as far as they can be encoded before the last entry.
//!
//! The number of bytes of a group's first key that its fence holds is known only at the end, when spaces are cut and
//! the length of the prefixes is chosen. The rest of a group is encoded at once.

use super::cuts::Links;
use super::group::{Fence, put_group_start, put_item};
use crate::storage::{BufferPool, IoBuffer};
use std::sync::Arc;

/// A group. Its keys begin with its whole first key.
#[derive(Debug)]
pub(super) struct StagedGroup {
    keys: Place,
    values: Place,
    key_bytes: usize,
    /// Trailer and length of the value of the first entry.
    pub(super) trailer: u64,
    value_bytes: usize,
    pub(super) links: Links,
    /// Whether the first key is also that of the entry before.
    continues: bool,
    entries: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Staged {
    /// For each group, its first key and then its other entries without their values.
    keys: Pieces,
    values: Pieces,
    /// An entry without its value.
    item: Vec<u8>,
    pub(super) groups: Vec<StagedGroup>,
}

/// A growing sequence of bytes in buffers of a pool. Growing does not copy earlier groups, and buffers are given back
/// one by one. The bytes of a group are in one piece.
#[derive(Debug)]
struct Pieces {
    pool: Arc<BufferPool>,
    pieces: Vec<Piece>,
    bytes: usize,
}

#[derive(Debug)]
enum Piece {
    Pooled(IoBuffer),
    /// A group that is too long for a buffer.
    Long(Vec<u8>),
    Gone,
}

/// Where the bytes of a group begin.
#[derive(Clone, Copy, Debug)]
struct Place {
    piece: usize,
    at: usize,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Pooled(buffer) => buffer.filled(),
            Piece::Long(bytes) => bytes,
            Piece::Gone => &[],
        }
    }

    /// Appends all of `bytes`, or nothing if they do not fit.
    #[inline]
    fn append(&mut self, bytes: &[u8]) -> bool {
        match self {
            Piece::Pooled(buffer) => {
                let fits = bytes.len() <= buffer.capacity() - buffer.len();
                fits && buffer.append(bytes) == bytes.len()
            }
            Piece::Long(long) => {
                long.extend_from_slice(bytes);
                true
            }
            Piece::Gone => false,
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Piece::Pooled(buffer) => buffer.set_len(len),
            Piece::Long(bytes) => bytes.truncate(len),
            Piece::Gone => {}
        }
    }
}

impl Pieces {
    fn new(pool: &Arc<BufferPool>) -> Self {
        Pieces { pool: Arc::clone(pool), pieces: Vec::new(), bytes: 0 }
    }

    /// Begins a group.
    fn begin(&mut self) -> Place {
        // The group after a long group begins a new piece.
        if let None | Some(Piece::Long(_) | Piece::Gone) = self.pieces.last() {
            self.pieces.push(Piece::Pooled(self.pool.take()));
        }
        Place { piece: self.pieces.len() - 1, at: self.pieces.last().map_or(0, |piece| piece.bytes().len()) }
    }

    /// Appends to the last group, which begins at `group`. If its piece has no room, the group moves to a new one.
    #[inline]
    fn append(&mut self, group: &mut Place, bytes: &[u8]) {
        self.bytes += bytes.len();
        if !self.pieces.last_mut().is_some_and(|piece| piece.append(bytes)) {
            self.move_group(group, bytes);
        }
    }

    fn move_group(&mut self, group: &mut Place, bytes: &[u8]) {
        let Some(before) = self.pieces.last_mut() else { unreachable!("a group has begun") };
        let begun = before.bytes().get(group.at..).unwrap_or_default();
        let mut piece = match begun.len() + bytes.len() <= self.pool.capacity() {
            true => Piece::Pooled(self.pool.take()),
            false => Piece::Long(Vec::with_capacity(2 * (begun.len() + bytes.len()))),
        };
        assert!(piece.append(begun) && piece.append(bytes), "a new piece has room");
        if group.at == 0 {
            // The piece has no other group.
            *before = piece;
        } else {
            before.truncate(group.at);
            self.pieces.push(piece);
            *group = Place { piece: self.pieces.len() - 1, at: 0 };
        }
    }

    /// The bytes of a group; `next`: where the group after it begins, if there is one.
    fn of(&self, group: Place, next: Option<Place>) -> &[u8] {
        let piece = self.pieces.get(group.piece).map(Piece::bytes).unwrap_or_default();
        let end = next.filter(|next| next.piece == group.piece).map_or(piece.len(), |next| next.at);
        piece.get(group.at..end).unwrap_or_default()
    }

    /// Gives back the pieces before that of a group.
    fn forget_before(&mut self, group: Place) {
        for piece in self.pieces.iter_mut().take(group.piece).rev() {
            if matches!(piece, Piece::Gone) {
                break;
            }
            *piece = Piece::Gone;
        }
    }
}

/// An entry to be staged. `shared`: the bytes that its key shares with the key before.
pub(super) struct NewEntry<'a> {
    pub(super) key: &'a [u8],
    pub(super) shared: usize,
    pub(super) continues: bool,
    pub(super) trailer: u64,
    pub(super) value: &'a [u8],
}

impl Staged {
    /// Returns an empty `Staged` that takes its memory from `pool`.
    pub(super) fn new(pool: &Arc<BufferPool>) -> Self {
        Staged { keys: Pieces::new(pool), values: Pieces::new(pool), item: Vec::new(), groups: Vec::new() }
    }

    /// Adds an entry to the last group, or begins one when that has `group_entries`.
    #[inline]
    pub(super) fn add(&mut self, entry: &NewEntry<'_>, group_entries: usize, shares_keys: bool) {
        match self.groups.last_mut().filter(|group| group.entries < group_entries) {
            Some(group) => {
                group.entries += 1;
                group.links.within = group.links.within.min(entry.shared);
                let shared = if shares_keys { entry.shared } else { 0 };
                let suffix = entry.key.get(shared..).unwrap_or_default();
                self.item.clear();
                put_item(&mut self.item, shared, suffix, entry.trailer, entry.value.len());
                self.keys.append(&mut group.keys, &self.item);
                self.values.append(&mut group.values, entry.value);
            }
            None => {
                let (mut keys, mut values) = (self.keys.begin(), self.values.begin());
                self.keys.append(&mut keys, entry.key);
                self.values.append(&mut values, entry.value);
                self.groups.push(StagedGroup {
                    keys,
                    values,
                    key_bytes: entry.key.len(),
                    trailer: entry.trailer,
                    value_bytes: entry.value.len(),
                    links: Links { before: entry.shared, within: usize::MAX },
                    continues: entry.continues,
                    entries: 1,
                });
            }
        }
    }

    /// The bytes of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes + self.values.bytes
    }

    /// The first key of a group.
    pub(super) fn first_key(&self, group: usize) -> &[u8] {
        let Some(it) = self.groups.get(group) else { return &[] };
        self.keys.of(it.keys, None).get(..it.key_bytes).unwrap_or_default()
    }

    /// Appends the content of a group. The fence has the first bytes of its first key, padded with zeros.
    pub(super) fn encode(&self, group: usize, fence: &Fence<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let Some(it) = self.groups.get(group) else { return };
        let next = self.groups.get(group + 1);
        let keys = self.keys.of(it.keys, next.map(|next| next.keys));
        let (first_key, rest) = keys.split_at_checked(it.key_bytes).unwrap_or_default();
        let shared = it.key_bytes.min(fence.common.len() + fence.prefix.len());
        let suffix = first_key.get(shared..).unwrap_or_default();
        scratch.clear();
        put_item(scratch, shared, suffix, it.trailer, it.value_bytes);
        put_group_start(out, scratch.len() + rest.len(), it.continues);
        out.extend_from_slice(scratch);
        out.extend_from_slice(rest);
        out.extend_from_slice(self.values.of(it.values, next.map(|next| next.values)));
    }

    /// Frees the memory that only groups before this one need. It is called for each group in order.
    pub(super) fn forget_before(&mut self, group: usize) {
        if let Some(it) = self.groups.get(group) {
            self.keys.forget_before(it.keys);
            self.values.forget_before(it.values);
        }
    }
}
