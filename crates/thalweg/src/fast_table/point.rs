//! Point reads of a [`FastTable`], and the search for a group that cursors share (PMB-5).

use super::group::Item;
use super::prefixes::equal_range;
use super::table::FastTable;
use crate::error::Result;
use crate::format::{SeqNo, Slice, Version};
use crate::table::PointKey;
use std::cmp::Ordering;

impl FastTable {
    /// Returns the newest version of `key` at or below `seq`.
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
        self.find(&PointKey::new(key, seq))
    }

    /// Returns the version that `point` looks for, if this table has it. The value is copied.
    pub(crate) fn find(&self, point: &PointKey<'_>) -> Result<Option<Version>> {
        let meta = self.meta();
        if point.seq < meta.seq_min || *point.key < *meta.key_min || *point.key > *meta.key_max {
            return Ok(None);
        }
        if self.filter().is_some_and(|filter| !filter.may_contain(point.hash())) {
            return Ok(None);
        }
        let mut unpacked = Vec::new();
        let group = match self.locate(point.key, point.seq, &mut unpacked)? {
            Some(group) => group,
            // Only the first entry of the table may be the one: no entry is before it.
            None => return self.find_first(0, point, &mut unpacked),
        };
        let content = self.content(group, &mut unpacked)?;
        let items = self.items(group, content)?;
        let fence = self.fence(self.spaces.of_group(group), group);
        let found = fence.find(items, point.key, point.seq, self.header.layout.shares_keys());
        match found.ok_or_else(|| self.group_damaged(group))? {
            Some((item, is_same_key)) => Ok(is_same_key.then(|| version(&item, content))),
            None => self.find_first(group + 1, point, &mut unpacked),
        }
    }

    /// Returns the first entry of a group, which is at or after what `point` looks for, if it is of the same key.
    fn find_first(&self, group: usize, point: &PointKey<'_>, unpacked: &mut Vec<u8>) -> Result<Option<Version>> {
        if group >= self.groups() || !self.may_begin_with(group, point.key) {
            return Ok(None);
        }
        let content = self.content(group, unpacked)?;
        let items = self.items(group, content)?;
        let fence = self.fence(self.spaces.of_group(group), group);
        let found = fence.find(items, point.key, point.seq, self.header.layout.shares_keys());
        let found = found.ok_or_else(|| self.group_damaged(group))?;
        Ok(found.filter(|(_, is_same_key)| *is_same_key).map(|(item, _)| version(&item, content)))
    }

    /// Whether the first key of a group may be `key`, by what lies before the entry layer.
    fn may_begin_with(&self, group: usize, key: &[u8]) -> bool {
        let fence = self.fence(self.spaces.of_group(group), group);
        let Some(rest) = key.strip_prefix(fence.common) else { return false };
        let of_key = rest.iter().chain(std::iter::repeat(&0));
        fence.prefix.iter().zip(of_key).all(|(a, b)| a == b)
    }

    /// Returns the last group whose first entry is at or before `(key, seq)`, or `None` if all are behind it.
    pub(super) fn locate(&self, key: &[u8], seq: SeqNo, unpacked: &mut Vec<u8>) -> Result<Option<usize>> {
        let meta = self.meta_layer();
        let Some(space) = self.spaces.find(meta, key, seq) else { return Ok(None) };
        let groups = self.spaces.groups(space, self.groups());
        let mut ties = groups.clone();
        if self.header.prefix_bytes > 0 {
            let common = self.spaces.get(space).map_or(&[][..], |space| space.common(meta));
            let Some(rest) = key.strip_prefix(common) else {
                // It is behind the first key of the space, and without its common bytes: it is behind all.
                return Ok(groups.end.checked_sub(1));
            };
            let prefixes = self.prefixes(groups.clone());
            let found = equal_range(prefixes, usize::from(self.header.prefix_bytes), rest);
            ties = groups.start + found.start..groups.start + found.end;
        }
        // Whole first keys decide between groups with the same prefix. The first group of the space is not behind.
        let (mut start, mut end) = (ties.start.max(groups.start + 1), ties.end);
        while start < end {
            let middle = start + (end - start) / 2;
            if self.compare_first(space, middle, key, seq, unpacked)?.is_le() {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        Ok(Some(start - 1))
    }

    fn compare_first(
        &self,
        space: usize,
        group: usize,
        key: &[u8],
        seq: SeqNo,
        unpacked: &mut Vec<u8>,
    ) -> Result<Ordering> {
        let items = self.items(group, self.content(group, unpacked)?)?;
        self.fence(space, group).compare_first(&items, key, seq).ok_or_else(|| self.group_damaged(group))
    }
}

fn version(item: &Item<'_>, content: &[u8]) -> Version {
    let value = content.get(item.value.clone()).unwrap_or_default();
    Version { seq: item.seq, kind: item.kind, value: Slice::from(value) }
}
