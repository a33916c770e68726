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
        // The filter first: unsorted tables have the keys of a memtable, which go from one end of its partition to the
        // other. Their smallest and largest keys are elsewhere in memory.
        if self.filter().is_some_and(|filter| !filter.may_contain(point.hash())) {
            return Ok(None);
        }
        let meta = self.meta();
        if point.seq < meta.seq_min || *point.key < *meta.key_min || *point.key > *meta.key_max {
            return Ok(None);
        }
        self.with_buffer(|buffer| self.find_in_groups(point, buffer))
    }

    /// Prefetches what [`FastTable::find`] looks at first.
    #[inline]
    pub(crate) fn approach(&self, point: &PointKey<'_>) {
        if let Some(filter) = self.filter() {
            filter.approach(point.hash());
        }
    }

    /// Calls `read` with a buffer, if groups need one, that was used before.
    #[inline]
    fn with_buffer<T>(&self, read: impl FnOnce(&mut GroupBuffer) -> T) -> T {
        if self.is_read_in_place() { read(&mut GroupBuffer::new()) } else { GroupBuffer::with_kept(read) }
    }

    /// As [`FastTable::find`], of a key that the filter does not exclude.
    fn find_in_groups(&self, point: &PointKey<'_>, buffer: &mut GroupBuffer) -> Result<Option<Version>> {
        if let Some(answer) = self.find_by_prefix(point, buffer)? {
            return Ok(answer);
        }
        let Some(group) = self.locate_with(point.key, point.seq, buffer)? else {
            // Only the first entry of the table may be the one: no entry is before it.
            return self.find_first(0, point, buffer);
        };
        let (content, found) = self.find_in(self.spaces.of_group(group), group, point, buffer)?;
        match found {
            Some(found) => Ok(found.is_same_key.then(|| version(&found.item, content))),
            None => self.find_first(group + 1, point, buffer),
        }
    }

    /// Looks for `point` in the one group that its prefix leads to. Returns `None` where more than a prefix has to be
    /// looked at. Unlike [`FastTable::locate`] it enters the group whose first key has the prefix at once: mostly the
    /// key is there, and if it is the first one, no other group is touched.
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

    /// Returns the first entry of a group, which is at or after what `point` looks for, if it is of the same key.
    fn find_first(&self, group: usize, point: &PointKey<'_>, buffer: &mut GroupBuffer) -> Result<Option<Version>> {
        let space = self.spaces.of_group(group);
        if group >= self.groups() || !self.may_begin_with(space, group, point.key) {
            return Ok(None);
        }
        let (content, found) = self.find_in(space, group, point, buffer)?;
        Ok(found.filter(|found| found.is_same_key).map(|found| version(&found.item, content)))
    }

    /// Whether the first key of a group of `space` may be `key`, by what lies before the entry layer.
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
                // It is behind the first key of the space, and without its common bytes: it is behind all.
                None => return Ok(groups.end.checked_sub(1)),
            },
        };
        // Whole first keys decide between groups with the same prefix. The first group of the space is not behind.
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

    /// Returns the space of `(key, seq)`, its groups, and those of them with the prefix of `key`. Returns `None` if
    /// `key` does not begin as the keys of a space do.
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
