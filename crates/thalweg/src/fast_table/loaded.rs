//! [`LoadedGroup`]: a group with its whole keys in memory, in which cursors and scans have their position.

use super::buffer::GroupBuffer;
use super::table::FastTable;
use crate::error::Result;
use crate::format::key::compare;
use crate::format::{EntryKind, SeqNo};
use std::ops::Range;

/// An entry of a loaded group.
#[derive(Clone, Debug)]
struct Loaded {
    key: Range<usize>,
    seq: SeqNo,
    kind: EntryKind,
    value: Range<usize>,
}

/// See the module. Its buffers are kept from group to group.
#[derive(Default)]
pub(super) struct LoadedGroup {
    keys: Vec<u8>,
    entries: Vec<Loaded>,
    buffer: GroupBuffer,
    content_at: ContentAt,
}

/// Where the content of a group lies.
#[derive(Default)]
enum ContentAt {
    /// In the table, from this byte on.
    Table(usize),
    Copied,
    #[default]
    Unpacked,
}

impl LoadedGroup {
    /// Loads a group of `table`. After an error no group is loaded.
    pub(super) fn load(&mut self, table: &FastTable, group: usize) -> Result<()> {
        self.entries.clear();
        self.keys.clear();
        let content = table.content(group, &mut self.buffer)?;
        self.content_at = if table.header.layout.is_compressed() {
            ContentAt::Unpacked
        } else if table.is_read_in_place() {
            ContentAt::Table(table.place(group)?.0.start)
        } else {
            ContentAt::Copied
        };
        let mut items = table.items(group, content)?;
        let fence = table.fence(table.spaces.of_group(group), group);
        let mut before: Range<usize> = 0..0;
        while !items.is_empty() {
            let start = self.keys.len();
            let entry = items.next().and_then(|item| {
                if self.entries.is_empty() {
                    let (common, prefix) = fence.first_bytes(item.shared)?;
                    self.keys.extend_from_slice(common);
                    self.keys.extend_from_slice(prefix);
                } else {
                    let shared = before.start..before.start.checked_add(item.shared)?;
                    if shared.end > before.end {
                        return None;
                    }
                    self.keys.extend_from_within(shared);
                }
                self.keys.extend_from_slice(item.suffix);
                let key = start..self.keys.len();
                Some(Loaded { key, seq: item.seq, kind: item.kind, value: item.value })
            });
            let Some(entry) = entry else {
                self.entries.clear();
                return Err(table.group_damaged(group));
            };
            before = entry.key.clone();
            self.entries.push(entry);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> &[u8] {
        self.entries.get(at).and_then(|entry| self.keys.get(entry.key.clone())).unwrap_or_default()
    }

    #[inline]
    pub(super) fn seq(&self, at: usize) -> SeqNo {
        self.entries.get(at).map_or(SeqNo(0), |entry| entry.seq)
    }

    #[inline]
    pub(super) fn kind(&self, at: usize) -> EntryKind {
        self.entries.get(at).map_or(EntryKind::Remove, |entry| entry.kind)
    }

    #[inline]
    pub(super) fn value<'a>(&'a self, table: &'a FastTable, at: usize) -> &'a [u8] {
        let Some(Loaded { value, .. }) = self.entries.get(at) else { return &[] };
        match self.content_at {
            ContentAt::Table(start) => table.bytes_at(start + value.start..start + value.end),
            ContentAt::Copied => self.buffer.copied.get(value.clone()).unwrap_or_default(),
            ContentAt::Unpacked => self.buffer.unpacked.get(value.clone()).unwrap_or_default(),
        }
    }

    /// The user key of the last entry.
    pub(super) fn last_key(&self) -> &[u8] {
        self.key(self.entries.len().saturating_sub(1))
    }

    /// Returns the number of entries before `(key, seq)`.
    pub(super) fn before(&self, key: &[u8], seq: SeqNo) -> usize {
        let of = |entry: &Loaded| self.keys.get(entry.key.clone()).unwrap_or_default();
        self.entries.partition_point(|entry| compare((of(entry), entry.seq), (key, seq)).is_lt())
    }
}
