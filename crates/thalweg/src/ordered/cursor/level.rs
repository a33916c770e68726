//! [`LevelCursor`]: the tables of one level as one sequence.
//!
//! The tables are sorted and disjoint, so the cursor opens one at a time, when it gets there.
//! Invariant: while the cursor is valid, `open` is a cursor of table `index` and is at an entry.

use crate::compaction::Levels;
use crate::error::Result;
use crate::format::{Cursor, CursorEntry, EntryKind, SeqNo, Slice};
use crate::table::{Table, TableCursor};
use std::ops::Deref;
use std::sync::Arc;

/// A table of a level: its key range and its cursors.
pub(crate) trait Source {
    /// A position in the table.
    type Cursor: Cursor;
    /// The first user key.
    fn key_min(&self) -> &[u8];
    /// The last user key.
    fn key_max(&self) -> &[u8];
    /// A cursor over the table. The cursor keeps the table alive.
    fn cursor(&self) -> Self::Cursor;
}

impl Source for Arc<Table> {
    type Cursor = TableCursor;
    fn key_min(&self) -> &[u8] {
        &self.meta().key_min
    }
    fn key_max(&self) -> &[u8] {
        &self.meta().key_max
    }
    fn cursor(&self) -> TableCursor {
        Table::cursor(self)
    }
}

/// The tables of one level of a super version. They keep the tables of all its other levels alive, too.
pub(crate) struct LevelTables {
    pub(crate) levels: Arc<Levels>,
    pub(crate) level: usize,
}

impl Deref for LevelTables {
    type Target = [Arc<Table>];
    fn deref(&self) -> &[Arc<Table>] {
        self.levels.get(self.level).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The concatenation of `sources`.
pub(crate) struct LevelCursor<L, S: Source> {
    sources: L,
    index: usize,
    open: Option<S::Cursor>,
    /// Whether `open` is at the entry that the cursor is at.
    valid: bool,
}

impl<L, S> LevelCursor<L, S>
where
    L: Deref<Target = [S]>,
    S: Source,
{
    /// Makes a cursor over `sources` (a `Vec`, an `Arc` of a slice, …), which are sorted by key and disjoint.
    pub(crate) fn new(sources: L) -> Self {
        debug_assert!(sources.windows(2).all(|pair| matches!(pair, [a, b] if a.key_max() < b.key_min())));
        LevelCursor { sources, index: 0, open: None, valid: false }
    }

    /// The cursor of table `index`, if there is such a table.
    fn table(&mut self, index: usize) -> Option<&mut S::Cursor> {
        let source = self.sources.get(index)?;
        if self.index != index {
            self.open = None;
        }
        self.index = index;
        Some(self.open.get_or_insert_with(|| source.cursor()))
    }

    /// The first table that does not end before `user_key`.
    fn index_for(&self, user_key: &[u8]) -> usize {
        self.sources.partition_point(|source| source.key_max() < user_key)
    }

    /// Does `seek` in table `index`. If that finds no entry, walks on to the first entry of a later table.
    fn settle_forward(&mut self, index: usize, seek: impl FnOnce(&mut S::Cursor) -> Result<()>) -> Result<()> {
        self.valid = false;
        let Some(table) = self.table(index) else { return Ok(()) };
        seek(table)?;
        let mut found = table.valid();
        while !found {
            let Some(table) = self.table(self.index + 1) else { return Ok(()) };
            table.seek_to_first()?;
            found = table.valid();
        }
        self.valid = true;
        Ok(())
    }

    /// As `settle_forward`, to the last entry of an earlier table.
    fn settle_backward(&mut self, index: usize, seek: impl FnOnce(&mut S::Cursor) -> Result<()>) -> Result<()> {
        self.valid = false;
        let Some(table) = self.table(index) else { return Ok(()) };
        seek(table)?;
        let mut found = table.valid();
        while !found {
            let Some(index) = self.index.checked_sub(1) else { return Ok(()) };
            let Some(table) = self.table(index) else { return Ok(()) };
            table.seek_to_last()?;
            found = table.valid();
        }
        self.valid = true;
        Ok(())
    }

    #[inline]
    fn at(&self) -> &S::Cursor {
        match &self.open {
            Some(table) if self.valid => table,
            _ => panic!("the cursor is not at an entry"),
        }
    }
}

impl<L, S> Cursor for LevelCursor<L, S>
where
    L: Deref<Target = [S]>,
    S: Source,
{
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.settle_forward(0, |table| table.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        match self.sources.len().checked_sub(1) {
            Some(last) => self.settle_backward(last, |table| table.seek_to_last()),
            None => Ok(()),
        }
    }
    fn approach(&mut self, user_key: &[u8], seq: SeqNo) {
        self.valid = false;
        let index = self.index_for(user_key);
        if let Some(table) = self.table(index) {
            table.approach(user_key, seq);
        }
    }
    fn seek(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        let index = self.index_for(user_key);
        self.settle_forward(index, |table| table.seek(user_key, seq))
    }
    fn seek_before(&mut self, user_key: &[u8], seq: SeqNo) -> Result<()> {
        self.valid = false;
        // A table that begins with `user_key` itself may hold newer versions of it, which lie before the place.
        match self.sources.partition_point(|source| source.key_min() <= user_key).checked_sub(1) {
            Some(index) => self.settle_backward(index, |table| table.seek_before(user_key, seq)),
            None => Ok(()),
        }
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        assert!(self.valid, "the cursor is not at an entry");
        if let Some(table) = &mut self.open {
            self.valid = false;
            table.next()?;
            self.valid = table.valid();
        }
        if self.valid { Ok(()) } else { self.settle_forward(self.index + 1, |table| table.seek_to_first()) }
    }
    fn prev(&mut self) -> Result<()> {
        assert!(self.valid, "the cursor is not at an entry");
        self.settle_backward(self.index, |table| table.prev())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        self.at().key()
    }
    #[inline]
    fn seq(&self) -> SeqNo {
        self.at().seq()
    }
    #[inline]
    fn kind(&self) -> EntryKind {
        self.at().kind()
    }
    #[inline]
    fn value(&self) -> Slice {
        self.at().value()
    }
    #[inline]
    fn entry(&self) -> Option<CursorEntry<'_>> {
        self.open.as_ref().filter(|_| self.valid)?.entry()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::{FakeCursor, Fuse};
    use super::*;
    use crate::memtable::test_model::{Entries, Random, walk};
    use std::cmp::Reverse;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Clone)]
    struct FakeTable {
        entries: Entries,
        key_min: Vec<u8>,
        key_max: Vec<u8>,
        opened: Arc<AtomicU64>,
        fuse: Fuse,
    }

    impl Source for FakeTable {
        type Cursor = FakeCursor;
        fn key_min(&self) -> &[u8] {
            &self.key_min
        }
        fn key_max(&self) -> &[u8] {
            &self.key_max
        }
        fn cursor(&self) -> FakeCursor {
            self.opened.fetch_add(1, Ordering::Relaxed);
            FakeCursor::with_fuse(&self.entries, self.fuse.clone())
        }
    }

    /// Random entries, cut into tables between keys.
    fn level(random: &mut Random, entries: u64) -> (Vec<FakeTable>, Entries, Arc<AtomicU64>, Fuse) {
        let (opened, fuse) = (Arc::new(AtomicU64::new(0)), Fuse::never());
        let all: Entries =
            (1..=entries).map(|seq| ((random.key(), Reverse(SeqNo(seq))), (EntryKind::Put, vec![seq as u8]))).collect();
        let mut tables: Vec<FakeTable> = Vec::new();
        for ((key, seq), entry) in &all {
            let cut = random.below(3) == 0;
            match tables.last_mut() {
                Some(table) if !cut || table.key_max == *key => {
                    table.key_max.clone_from(key);
                    table.entries.insert((key.clone(), *seq), entry.clone());
                }
                _ => tables.push(FakeTable {
                    entries: Entries::from([((key.clone(), *seq), entry.clone())]),
                    key_min: key.clone(),
                    key_max: key.clone(),
                    opened: Arc::clone(&opened),
                    fuse: fuse.clone(),
                }),
            }
        }
        (tables, all, opened, fuse)
    }

    #[test]
    fn random_moves_agree_with_the_concatenation() {
        for seed in 0..200 {
            let random = &mut Random::new(seed);
            let entries = random.below(80);
            let (tables, all, ..) = level(random, entries);
            walk(random, &mut LevelCursor::new(tables), &all, entries + 2, 300);
        }
    }

    #[test]
    fn a_seek_opens_only_the_table_that_may_hold_the_key() {
        let (tables, all, opened, _) = level(&mut Random::new(3), 80);
        assert!(tables.len() > 5);
        let mut cursor = LevelCursor::new(Arc::<[FakeTable]>::from(tables));
        assert_eq!(opened.load(Ordering::Relaxed), 0);
        let ((key, seq), _) = all.iter().nth(all.len() / 2).unwrap();
        cursor.seek(key, seq.0).unwrap();
        assert_eq!((cursor.key(), cursor.seq()), (&**key, seq.0));
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        cursor.seek(key, SeqNo::MAX).unwrap();
        assert_eq!(opened.load(Ordering::Relaxed), 1, "the table at hand is used again");
    }

    #[test]
    fn an_error_of_a_table_ends_the_cursor_until_the_next_seek() {
        let random = &mut Random::new(5);
        for moves in 0..60 {
            let (tables, all, _, fuse) = level(random, 80);
            let mut cursor = LevelCursor::new(tables);
            fuse.set(moves);
            let mut result = cursor.seek_to_last();
            while result.is_ok() && cursor.valid() {
                result = cursor.prev();
            }
            assert!(result.is_err() && !cursor.valid());
            walk(random, &mut cursor, &all, 82, 50);
        }
    }
}
