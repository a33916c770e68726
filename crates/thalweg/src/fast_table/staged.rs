//! [`Staged`]: the groups of a table that is being written, as far as they can be encoded before the last entry.
//!
//! How much of a group's first key its fence holds is known at the end only, when spaces are cut and the length of the
//! prefixes is chosen. All else of a group is encoded at once.

use super::cuts::Links;
use super::group::{Fence, put_group_start, put_item};

/// Keys and values are kept in pieces of this size, so that they need not be copied to grow, and can be freed piece by
/// piece.
const PIECE_BYTES: usize = 256 << 10;

/// A group whose first key lies whole at the beginning of its keys.
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
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Of each group the first key, and then its other entries without their values.
    keys: Pieces,
    values: Pieces,
    pub(super) groups: Vec<StagedGroup>,
}

/// Bytes that only grow. Those of a group are in one piece.
#[derive(Debug, Default)]
struct Pieces {
    pieces: Vec<Vec<u8>>,
    bytes: usize,
}

/// Where the bytes of a group begin.
#[derive(Clone, Copy, Debug)]
struct Place {
    piece: usize,
    at: usize,
}

impl Pieces {
    /// Begins a group.
    fn begin(&mut self) -> Place {
        // A group that is longer than the rest lengthens its piece.
        if self.pieces.last().is_none_or(|piece| piece.len() >= PIECE_BYTES - PIECE_BYTES / 8) {
            self.pieces.push(Vec::with_capacity(PIECE_BYTES));
        }
        Place { piece: self.pieces.len() - 1, at: self.pieces.last().map_or(0, Vec::len) }
    }

    /// Appends to the last group, of which there is one.
    #[inline]
    fn append(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let Some(piece) = self.pieces.last_mut() else { unreachable!("a group has begun") };
        let before = piece.len();
        put(piece);
        self.bytes += piece.len() - before;
    }

    /// The bytes of a group; `next`: where the group after it begins, if there is one.
    fn of(&self, group: Place, next: Option<Place>) -> &[u8] {
        let piece = self.pieces.get(group.piece).map(Vec::as_slice).unwrap_or_default();
        let end = next.filter(|next| next.piece == group.piece).map_or(piece.len(), |next| next.at);
        piece.get(group.at..end).unwrap_or_default()
    }

    /// Frees the pieces before that of a group.
    fn forget_before(&mut self, group: Place) {
        if let Some(before) = group.piece.checked_sub(1)
            && let Some(piece) = self.pieces.get_mut(before)
        {
            *piece = Vec::new();
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
    /// Adds an entry to the last group, or begins one when that has `group_entries`.
    #[inline]
    pub(super) fn add(&mut self, entry: &NewEntry<'_>, group_entries: usize, shares_keys: bool) {
        match self.groups.last_mut().filter(|group| group.entries < group_entries) {
            Some(group) => {
                group.entries += 1;
                group.links.within = group.links.within.min(entry.shared);
                let shared = if shares_keys { entry.shared } else { 0 };
                let suffix = entry.key.get(shared..).unwrap_or_default();
                self.keys.append(|out| put_item(out, shared, suffix, entry.trailer, entry.value.len()));
            }
            None => {
                self.groups.push(StagedGroup {
                    keys: self.keys.begin(),
                    values: self.values.begin(),
                    key_bytes: entry.key.len(),
                    trailer: entry.trailer,
                    value_bytes: entry.value.len(),
                    links: Links { before: entry.shared, within: usize::MAX },
                    continues: entry.continues,
                    entries: 1,
                });
                self.keys.append(|out| out.extend_from_slice(entry.key));
            }
        }
        self.values.append(|out| out.extend_from_slice(entry.value));
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

    /// Frees what only groups before this one need. It is called for each group in order.
    pub(super) fn forget_before(&mut self, group: usize) {
        if let Some(it) = self.groups.get(group) {
            self.keys.forget_before(it.keys);
            self.values.forget_before(it.values);
        }
    }
}
