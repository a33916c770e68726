//! The read path of a view: memtables newest first, level 0 newest first, then one table a level.

use super::cursor::{LevelCursor, MergingCursor};
use super::view::View;
use crate::error::Result;
use crate::format::{Cursor, EntryKind, SeqNo, Slice, Version};

impl View {
    /// The value of `key` as of `seq`; `None` when it was removed or never written.
    ///
    /// The first version found is the newest: whatever is newer lies above (the module's invariant).
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Result<Option<Slice>> {
        Ok(self.version(key, seq)?.filter(|found| found.kind == EntryKind::Put).map(|found| found.value))
    }

    fn version(&self, key: &[u8], seq: SeqNo) -> Result<Option<Version>> {
        for slot in self.slots() {
            if let Some(found) = slot.memtable.get(key, seq) {
                return Ok(Some(found));
            }
        }
        for (level, tables) in self.levels.iter().enumerate() {
            if level == 0 {
                for table in tables.iter().rev().filter(|table| table.meta().overlaps(key, key)) {
                    if let Some(found) = table.get(key, seq)? {
                        return Ok(Some(found));
                    }
                }
                continue;
            }
            let index = tables.partition_point(|table| *table.meta().key_max < *key);
            if let Some(table) = tables.get(index).filter(|table| *table.meta().key_min <= *key)
                && let Some(found) = table.get(key, seq)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A cursor over all versions of all keys.
    pub(crate) fn cursor(&self) -> Box<dyn Cursor + Send> {
        let mut children: Vec<Box<dyn Cursor + Send>> = Vec::new();
        for slot in self.slots() {
            children.push(Box::new(slot.memtable.cursor()));
        }
        for (level, tables) in self.levels.iter().enumerate() {
            if level == 0 {
                children.extend(tables.iter().rev().map(|table| table.cursor()));
            } else if !tables.is_empty() {
                children.push(Box::new(LevelCursor::new(tables.clone())));
            }
        }
        Box::new(MergingCursor::new(children))
    }
}
