//! The read path of a super version: memtables newest first, then the fast tier (unsorted tables newest first, then one
//! sorted table), level 0 newest first, then one table a level.

use super::cursor::{Child, LevelCursor, LevelTables, MergingCursor, Open};
use super::fast_level::SortedTables;
use super::partition::SuperVersion;
use crate::error::Result;
use crate::format::{EntryKind, SeqNo, Slice, Version};
use crate::memtable::Memtable;
use crate::table::{BlockNumber, PointKey, Table, batch_read};
use std::sync::Arc;

impl SuperVersion {
    /// Returns the value of `key` as of `seq`; `None` when it was removed or never written.
    ///
    /// The first version found is the newest: whatever is newer lies above (the module's invariant).
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Slice>> {
        let point = PointKey::new(key, seq);
        if let Some(found) = self.newest_above_level0(&point)? {
            return Ok(value_of(found));
        }
        self.count_get();
        let mut place = Place::default();
        while let Some(table) = self.table_for(&point, &mut place) {
            if let Some(found) = table.find(&point)? {
                return Ok(value_of(found));
            }
        }
        Ok(None)
    }

    /// Whether [`SuperVersion::get`] finds a value, without a copy of it.
    pub(crate) fn contains(&self, key: &[u8], seq: SeqNo) -> Result<bool> {
        let point = PointKey::new(key, seq);
        if let Some(kind) = self.filled_memtables().find_map(|memtable| memtable.kind(&point)) {
            return Ok(kind == EntryKind::Put);
        }
        if let Some(found) = self.newest_in_tier(&point)? {
            return Ok(found.kind == EntryKind::Put);
        }
        self.count_get();
        let mut place = Place::default();
        while let Some(table) = self.table_for(&point, &mut place) {
            // The value is a part of the block that had to be read, and shares its memory.
            if let Some(found) = table.find(&point)? {
                return Ok(found.kind == EntryKind::Put);
            }
        }
        Ok(false)
    }

    /// Returns the values of `keys` as of `seq`, in their order, equal to those that `get` finds.
    ///
    /// All keys go down through the tables together, in rounds. In each round every key goes on until it needs a block
    /// that is not in memory; then all these blocks are read at once. Sort `keys`, so that keys of one block are
    /// neighbours. Returns the error of the first read that fails.
    pub(crate) fn multi_get(&self, keys: &[&[u8]], seq: SeqNo) -> Result<Vec<Option<Slice>>> {
        let mut values = vec![None; keys.len()];
        let mut seekers = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let point = PointKey::new(key, seq);
            match self.newest_above_level0(&point)? {
                Some(found) => set(&mut values, number, found),
                None => {
                    self.count_get();
                    seekers.push(Seeker { number, point, place: Place::default() });
                }
            }
        }
        while !seekers.is_empty() {
            let mut waiting = Vec::new();
            for mut seeker in seekers.drain(..) {
                match self.go_on(&mut seeker)? {
                    Stop::Found(found) => set(&mut values, seeker.number, found),
                    Stop::NotFound => {}
                    Stop::Needs(table, block) => waiting.push((seeker, table, block)),
                }
            }
            let mut wanted: Vec<(&Table, BlockNumber)> = Vec::new();
            let same = |a: (&Table, BlockNumber), b: (&Table, BlockNumber)| std::ptr::eq(a.0, b.0) && a.1 == b.1;
            let mut places = Vec::with_capacity(waiting.len());
            for (_, table, block) in &waiting {
                if wanted.last().is_none_or(|last| !same(*last, (table, *block))) {
                    wanted.push((table, *block));
                }
                places.push(wanted.len() - 1);
            }
            let read = batch_read(&wanted).into_iter().collect::<Result<Vec<_>>>()?;
            for ((seeker, table, _), place) in waiting.into_iter().zip(places) {
                match table.find_in_read(&read[place], &seeker.point)? {
                    Some(found) => set(&mut values, seeker.number, found),
                    None => seekers.push(seeker),
                }
            }
        }
        Ok(values)
    }

    /// Looks through tables as far as their blocks are in memory.
    fn go_on(&self, seeker: &mut Seeker<'_>) -> Result<Stop<'_>> {
        while let Some(table) = self.table_for(&seeker.point, &mut seeker.place) {
            let Some(block) = table.locate(&seeker.point)? else { continue };
            if !table.is_at_hand(block)? {
                return Ok(Stop::Needs(table, block));
            }
            if let Some(found) = table.find_in(block, &seeker.point)? {
                return Ok(Stop::Found(found));
            }
        }
        Ok(Stop::NotFound)
    }

    /// The newest version that the memtables have of `key`, as of `seq`.
    pub(crate) fn in_memory(&self, key: &[u8], seq: SeqNo) -> Option<Version> {
        self.newest_in_memory(&PointKey::new(key, seq))
    }

    /// The newest version that memtables and fast tables have.
    fn newest_above_level0(&self, point: &PointKey<'_>) -> Result<Option<Version>> {
        match self.newest_in_memory(point) {
            None => self.newest_in_tier(point),
            found => Ok(found),
        }
    }

    fn newest_in_tier(&self, point: &PointKey<'_>) -> Result<Option<Version>> {
        self.fast.as_ref().map_or(Ok(None), |fast| fast.find(point))
    }

    fn newest_in_memory(&self, point: &PointKey<'_>) -> Option<Version> {
        self.filled_memtables().find_map(|memtable| memtable.get(point))
    }

    /// The memtables that are not empty, newest first. Entries that were visible before the call are in one of them: a
    /// memtable counts an insert before it makes it.
    pub(crate) fn filled_memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.memtables().map(|handle| &handle.memtable).filter(|memtable| !memtable.is_empty())
    }

    /// Counts a point read that looks into tables.
    #[inline]
    fn count_get(&self) {
        if self.level0_tables() > 0 {
            self.level0_reads.count_get();
        }
    }

    /// Returns the next table to look into, from `place` on, and moves `place` behind it.
    fn table_for(&self, point: &PointKey<'_>, place: &mut Place) -> Option<&Arc<Table>> {
        if place.level == 0 {
            let newer = self.levels.first().map(Vec::as_slice).unwrap_or_default();
            let left = newer.len().checked_sub(place.passed + 1);
            if let Some(table) = left.and_then(|left| newer.get(left)) {
                place.passed += 1;
                return Some(table);
            }
            place.level = 1;
        }
        while let Some(tables) = self.levels.get(place.level) {
            place.level += 1;
            let index = tables.partition_point(|table| table.ends_before(point));
            if let Some(table) = tables.get(index) {
                return Some(table);
            }
        }
        None
    }

    fn cursor(self: &Arc<Self>) -> MergingCursor<Child> {
        let level0 = self.levels.first().map(Vec::as_slice).unwrap_or_default();
        if let Some(fast) = &self.fast {
            fast.count_seek();
        }
        if !level0.is_empty() {
            self.level0_reads.count_seek();
        }
        let unsorted = self.fast.as_ref().map_or(&[][..], |fast| &fast.unsorted);
        let count = 2 + self.sealed.len() + unsorted.len() + level0.len() + self.levels.len();
        let mut children = Vec::with_capacity(count);
        children.extend(self.filled_memtables().map(|memtable| Child::Memtable(memtable.cursor())));
        children.extend(unsorted.iter().rev().map(|handle| Child::Fast(handle.table.cursor())));
        if let Some(fast) = self.fast.as_ref().filter(|fast| !fast.sorted.is_empty()) {
            children.push(Child::Sorted(LevelCursor::new(SortedTables(Arc::clone(fast)))));
        }
        children.extend(level0.iter().rev().map(|table| Child::Table(table.cursor())));
        for (level, _) in self.levels.iter().enumerate().skip(1).filter(|(_, tables)| !tables.is_empty()) {
            let levels = Arc::clone(&self.levels);
            children.push(Child::Level(LevelCursor::new(LevelTables { levels, level })));
        }
        MergingCursor::new(children)
    }
}

/// The source of [`super::cursor::DoubleEnded`] with all versions of all keys of a super version.
pub(crate) struct SuperVersionSource(pub(crate) Arc<SuperVersion>);

impl Open for SuperVersionSource {
    type Cursor = MergingCursor<Child>;
    fn open(&mut self) -> MergingCursor<Child> {
        self.0.cursor()
    }
}

/// How far down a read has come: in level 0, how many of its tables it has passed.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    level: usize,
    passed: usize,
}

/// One key of several, on its way down.
struct Seeker<'a> {
    /// Which of the keys it is.
    number: usize,
    point: PointKey<'a>,
    place: Place,
}

/// Where a seeker stops.
enum Stop<'a> {
    Found(Version),
    NotFound,
    /// Only this block can tell.
    Needs(&'a Arc<Table>, BlockNumber),
}

fn value_of(found: Version) -> Option<Slice> {
    (found.kind == EntryKind::Put).then_some(found.value)
}

fn set(values: &mut [Option<Slice>], number: usize, found: Version) {
    if let Some(value) = values.get_mut(number) {
        *value = value_of(found);
    }
}
