//! Point reads of a [`FastTable`], and the search for a group that cursors share (PMB-5).

use super::buffer::GroupBuffer;
use super::group::{Found, Item};
use super::prefixes::equal_range;
use super::table::FastTable;
use crate::error::Result;
use crate::format::{SeqNo, Slice, Version};
use crate::table::PointKey;
use std::cmp::Ordering;
use std::ops::Range;

impl FastTable {
    /// Returns the newest version of `key` at or below `seq`.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
        self.find(&PointKey::new(key, seq))
    }

    /// Returns the version that `point` looks for, if this table has it. The value is copied.
    pub(crate) fn find(&self, point: &PointKey<'_>) -> Result<Option<Version>> {
        // The filter comes before the key range: the keys of an unsorted table, like those of a memtable, span its
        // whole partition. And the smallest and largest keys are elsewhere in memory.
        if self.filter().is_some_and(|filter| !filter.may_contain(point.hash())) {
            return Ok(None);
        }
        let meta = self.meta();
        if point.seq < meta.seq_min || *point.key < *meta.key_min || *point.key > *meta.key_max {
            return Ok(None);
        }
        self.with_buffer(|buffer| self.find_in_groups(point, buffer))
    }

    /// Prefetches the memory that [`FastTable::find`] reads first.
    #[inline]
    pub(crate) fn approach(&self, point: &PointKey<'_>) {
        if let Some(filter) = self.filter() {
            filter.approach(point.hash());
        }
    }

    /// Calls `read` with a buffer. If groups need a buffer, it is one that this thread has used before.
    #[inline]
    fn with_buffer<T>(&self, read: impl FnOnce(&mut GroupBuffer) -> T) -> T {
        if self.is_read_in_place() { read(&mut GroupBuffer::new()) } else { GroupBuffer::with_kept(read) }
    }

    /// As [`FastTable::find`], for a key that the filter does not exclude.
    fn find_in_groups(&self, point: &PointKey<'_>, buffer: &mut GroupBuffer) -> Result<Option<Version>> {
        if let Some(answer) = self.find_by_prefix(point, buffer)? {
            return Ok(answer);
        }
        let Some(group) = self.locate_with(point.key, point.seq, buffer)? else {
            // All entries are after `(key, seq)`, so only the first entry of the table may match.
            return self.find_first(0, point, buffer);
        };
        let (content, found) = self.find_in(self.spaces.of_group(group), group, point, buffer)?;
        match found {
            Some(found) => Ok(found.is_same_key.then(|| version(&found.item, content))),
            None => self.find_first(group + 1, point, buffer),
        }
    }

    /// Looks for `point` in the one group that its prefix leads to. Returns `None` if the prefix does not decide alone.
    /// Unlike [`FastTable::locate`], this enters the group whose first key has the prefix at once. Mostly the key is
    /// there, and if it is the first one, no other group is touched.
    fn find_by_prefix(&self, point: &PointKey<'_>, buffer: &mut GroupBuffer) -> Result<Option<Option<Version>>> {
        if self.header.prefix_bytes == 0 {
            return Ok(None);
        }
        let Some((space, groups, ties)) = self.ties(point.key, point.seq) else { return Ok(None) };
        let group = match ties.len() {
            0 => ties.start.wrapping_sub(1),
            1 => ties.start,
            _ => return Ok(None),
        };
        if !groups.contains(&group) {
            return Ok(None);
        }
        let (content, found) = self.find_in(space, group, point, buffer)?;
        Ok(match found {
            // The key, or a newer version of it, may be in the group before.
            Some(found) if found.is_first && (!found.is_same_key || self.items(group, content)?.continues) => None,
            Some(found) => Some(found.is_same_key.then(|| version(&found.item, content))),
            None if group + 1 == groups.end => None,
            // The next group begins with a greater prefix.
            None => Some(None),
        })
    }

    /// Returns the content of a group of `space`, and its first entry at or after what `point` looks for.
    #[inline]
    fn find_in<'a>(
        &'a self,
        space: usize,
        group: usize,
        point: &PointKey<'_>,
        buffer: &'a mut GroupBuffer,
    ) -> Result<(&'a [u8], Option<Found<'a>>)> {
        let content = self.content(group, buffer)?;
        let items = self.items(group, content)?;
        let fence = self.fence(space, group);
        let found = fence.find(items, point.key, point.seq, self.header.layout.shares_keys());
        Ok((content, found.ok_or_else(|| self.group_damaged(group))?))
    }

    /// Returns the first entry of `group`, if its key is that of `point`. The entry is at or after what `point` looks
    /// for.
    fn find_first(&self, group: usize, point: &PointKey<'_>, buffer: &mut GroupBuffer) -> Result<Option<Version>> {
        let space = self.spaces.of_group(group);
        if group >= self.groups() || !self.may_begin_with(space, group, point.key) {
            return Ok(None);
        }
        let (content, found) = self.find_in(space, group, point, buffer)?;
        Ok(found.filter(|found| found.is_same_key).map(|found| version(&found.item, content)))
    }

    /// Whether the first key of a group of `space` may be `key`, judged by the layers before the entry layer.
    fn may_begin_with(&self, space: usize, group: usize, key: &[u8]) -> bool {
        let fence = self.fence(space, group);
        let Some(rest) = key.strip_prefix(fence.common) else { return false };
        let of_key = rest.iter().chain(std::iter::repeat(&0));
        fence.prefix.iter().zip(of_key).all(|(a, b)| a == b)
    }

    /// Returns the last group whose first entry is at or before `(key, seq)`, or `None` if all are behind it.
    pub(super) fn locate(&self, key: &[u8], seq: SeqNo) -> Result<Option<usize>> {
        self.with_buffer(|buffer| self.locate_with(key, seq, buffer))
    }

    fn locate_with(&self, key: &[u8], seq: SeqNo, buffer: &mut GroupBuffer) -> Result<Option<usize>> {
        let Some(space) = self.spaces.find(self.meta_layer(), key, seq) else { return Ok(None) };
        let groups = self.spaces.groups(space, self.groups());
        let ties = match self.header.prefix_bytes {
            0 => groups.clone(),
            _ => match self.ties_in(space, &groups, key) {
                Some(ties) => ties,
                // `key` is behind the first key of the space and lacks its common bytes, so it is behind all keys of
                // the space.
                None => return Ok(groups.end.checked_sub(1)),
            },
        };
        // Whole first keys decide between groups with the same prefix. The first group of the space does not begin
        // behind `(key, seq)`.
        let (mut start, mut end) = (ties.start.max(groups.start + 1), ties.end);
        while start < end {
            let middle = start + (end - start) / 2;
            if self.compare_first(space, middle, key, seq, buffer)?.is_le() {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        Ok(Some(start - 1))
    }

    /// Returns the space of `(key, seq)`, the groups of this space, and those of the groups that have the prefix of
    /// `key`. Returns `None` if `key` does not begin with the common bytes of the space.
    #[inline]
    fn ties(&self, key: &[u8], seq: SeqNo) -> Option<(usize, Range<usize>, Range<usize>)> {
        let space = self.spaces.find(self.meta_layer(), key, seq)?;
        let groups = self.spaces.groups(space, self.groups());
        let ties = self.ties_in(space, &groups, key)?;
        Some((space, groups, ties))
    }

    /// Returns the groups of a space that have the prefix of `key`, or `None` if `key` does not begin with the common
    /// bytes of the space.
    #[inline]
    fn ties_in(&self, space: usize, groups: &Range<usize>, key: &[u8]) -> Option<Range<usize>> {
        let rest = key.strip_prefix(self.spaces.get(space)?.common(self.meta_layer()))?;
        let found = equal_range(self.prefixes(groups.clone()), usize::from(self.header.prefix_bytes), rest);
        Some(groups.start + found.start..groups.start + found.end)
    }

    fn compare_first(
        &self,
        space: usize,
        group: usize,
        key: &[u8],
        seq: SeqNo,
        buffer: &mut GroupBuffer,
    ) -> Result<Ordering> {
        let items = self.items(group, self.content(group, buffer)?)?;
        self.fence(space, group).compare_first(&items, key, seq).ok_or_else(|| self.group_damaged(group))
    }
}

fn version(item: &Item<'_>, content: &[u8]) -> Version {
    let value = content.get(item.value.clone()).unwrap_or_default();
    Version { seq: item.seq, kind: item.kind, value: Slice::from(value) }
}
