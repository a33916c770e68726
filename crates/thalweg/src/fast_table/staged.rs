//! [`Staged`]: the groups of a table that is being written, as far as they can be encoded before the last entry.
//!
//! How much of a group's first key its fence holds is known at the end only, when spaces are cut and the length of the
//! prefixes is chosen. All else of a group is encoded at once.

use super::cuts::Links;
use super::group::{Fence, put_group_start, put_item};
use std::ops::Range;

/// A group whose first key lies whole at the beginning of `keys`.
#[derive(Debug)]
pub(super) struct StagedGroup {
    keys_at: usize,
    values_at: usize,
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
    keys: Vec<u8>,
    values: Vec<u8>,
    pub(super) groups: Vec<StagedGroup>,
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
                put_item(&mut self.keys, shared, suffix, entry.trailer, entry.value.len());
            }
            None => {
                self.groups.push(StagedGroup {
                    keys_at: self.keys.len(),
                    values_at: self.values.len(),
                    key_bytes: entry.key.len(),
                    trailer: entry.trailer,
                    value_bytes: entry.value.len(),
                    links: Links { before: entry.shared, within: usize::MAX },
                    continues: entry.continues,
                    entries: 1,
                });
                self.keys.extend_from_slice(entry.key);
            }
        }
        self.values.extend_from_slice(entry.value);
    }

    /// The bytes of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.values.len()
    }

    /// The first key of a group.
    pub(super) fn first_key(&self, group: usize) -> &[u8] {
        let key = self.groups.get(group).map_or(0..0, |it| it.keys_at..it.keys_at + it.key_bytes);
        self.keys.get(key).unwrap_or_default()
    }

    /// Appends the content of a group. The fence has the first bytes of its first key, padded with zeros.
    pub(super) fn encode(&self, group: usize, fence: &Fence<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let Some(it) = self.groups.get(group) else { return };
        let (keys, values) = self.places(group);
        let shared = it.key_bytes.min(fence.common.len() + fence.prefix.len());
        let suffix = self.first_key(group).get(shared..).unwrap_or_default();
        let rest = self.keys.get(it.keys_at + it.key_bytes..keys.end).unwrap_or_default();
        scratch.clear();
        put_item(scratch, shared, suffix, it.trailer, it.value_bytes);
        put_group_start(out, scratch.len() + rest.len(), it.continues);
        out.extend_from_slice(scratch);
        out.extend_from_slice(rest);
        out.extend_from_slice(self.values.get(values).unwrap_or_default());
    }

    /// Where a group lies in `keys` and in `values`.
    fn places(&self, group: usize) -> (Range<usize>, Range<usize>) {
        let start = |at: usize| {
            self.groups.get(at).map_or((self.keys.len(), self.values.len()), |it| (it.keys_at, it.values_at))
        };
        let ((keys, values), (keys_end, values_end)) = (start(group), start(group + 1));
        (keys..keys_end, values..values_end)
    }
}
