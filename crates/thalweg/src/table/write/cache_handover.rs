//! [`KeptBlocks`]: what is kept of a table just written: blocks on their way to the block cache, and the file on its
//! way to its sync.
//!
//! Whoever reads a new table that was written past the page cache would wait for the device. While anybody reads at
//! all, the writer of such a table keeps copies of blocks, and when it is taken into use they go into the
//! cache; the blocks of the tables that it replaces leave the cache at the same moment. A flush keeps all blocks: what
//! was written of late is read soon. A compaction keeps those that have an entry out of a block that the cache had, and
//! was hit there: they take its place. Where that is half of the entries, the block needs no further proof. A load that
//! nobody reads meanwhile copies nothing.
//!
//! Bytes that the page cache took are written back at any time, and when that fails the kernel tells it to a sync of a
//! descriptor that was open then. So the writer's own stays open, here, until the table was synced through it. Where
//! too many are, the writer syncs its table itself and closes it.
//!
//! Locks: `finished` is held for an insertion or a removal.

use crate::cache::Warmth;
use crate::format::{Slice, TableId};
use crate::storage::File;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A block of which one entry in so many comes from hot blocks is hot.
const HOT_PART: u64 = 2;

/// What finished tables kept, until they are taken into use or removed.
pub(in crate::table) struct KeptBlocks {
    finished: Mutex<Finished>,
    files_max: usize,
}

/// Of all descriptors, one in so many may be that of a table that is not synced: more than it takes to have a settle
/// round begin.
const FILES_PART: u64 = 6;

impl Default for KeptBlocks {
    fn default() -> Self {
        KeptBlocks { finished: Mutex::default(), files_max: usize::MAX }
    }
}

#[derive(Default)]
struct Finished {
    blocks: BTreeMap<TableId, Vec<KeptBlock>>,
    files: BTreeMap<TableId, Written>,
}

struct Written {
    file: Arc<dyn File>,
    through_cache: bool,
}

impl KeptBlocks {
    /// For a process that may have so many files open, if that is bounded.
    pub(in crate::table) fn new(open_files_max: Option<u64>) -> Self {
        let files_max = open_files_max.map(|most| usize::try_from(most / FILES_PART).unwrap_or(usize::MAX));
        KeptBlocks { files_max: files_max.unwrap_or(usize::MAX), ..KeptBlocks::default() }
    }

    fn finished(&self) -> MutexGuard<'_, Finished> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first blocks of `table`, and takes them away.
    pub(in crate::table) fn take_blocks(&self, table: TableId) -> Option<Vec<KeptBlock>> {
        self.finished().blocks.remove(&table)
    }

    /// The file of `table`, open since it was created.
    pub(in crate::table) fn file(&self, table: TableId) -> Option<Arc<dyn File>> {
        self.finished().files.get(&table).map(|written| Arc::clone(&written.file))
    }

    /// How many files are kept open.
    pub(in crate::table) fn files(&self) -> usize {
        self.finished().files.len()
    }

    /// Whether one more file may be kept open.
    pub(in crate::table) fn has_room(&self) -> bool {
        self.files() < self.files_max
    }

    /// Lets go of the file of `table`.
    pub(in crate::table) fn forget_file(&self, table: TableId) {
        let file = self.finished().files.remove(&table);
        drop(file);
    }

    /// Whether `table`, whose file is here, was written through the page cache.
    pub(in crate::table) fn is_through_cache(&self, table: TableId) -> bool {
        self.finished().files.get(&table).is_some_and(|written| written.through_cache)
    }

    /// Lets go of what is kept of `table`.
    pub(in crate::table) fn forget(&self, table: TableId) {
        drop(self.take_blocks(table));
        self.forget_file(table);
    }
}

/// A data block for the cache.
pub(in crate::table) struct KeptBlock {
    /// Its number in the table.
    pub(in crate::table) at: usize,
    pub(in crate::table) content: Slice,
    pub(in crate::table) warmth: Warmth,
}

/// What a writer keeps of the table it writes: nothing, or up to a number of bytes.
pub(in crate::table) struct Keeper {
    kept: Arc<KeptBlocks>,
    blocks: Vec<KeptBlock>,
    room: usize,
    through_cache: bool,
    /// The number of the open block, and its entries so far.
    at: usize,
    counted: Counted,
}

/// Entries, and how many of them come from blocks that are wanted.
#[derive(Default)]
struct Counted {
    entries: u64,
    warm: u64,
    hot: u64,
}

impl Keeper {
    /// Keeps at most `room` bytes.
    pub(in crate::table) fn new(kept: Arc<KeptBlocks>, room: usize, through_cache: bool) -> Self {
        Keeper { kept, blocks: Vec::new(), room, through_cache, at: 0, counted: Counted::default() }
    }

    /// The next entry of the open block comes from a block of `warmth`.
    #[inline]
    pub(in crate::table) fn count(&mut self, warmth: Warmth) {
        self.counted.entries += 1;
        self.counted.warm += u64::from(warmth == Warmth::Warm);
        self.counted.hot += u64::from(warmth == Warmth::Hot);
    }

    /// The open block is complete: its content, uncompressed.
    pub(in crate::table) fn keep(&mut self, content: &[u8]) {
        let Counted { entries, warm, hot } = std::mem::take(&mut self.counted);
        let at = self.at;
        self.at += 1;
        let warmth = match (hot * HOT_PART >= entries, hot + warm) {
            (_, 0) => return,
            (true, _) => Warmth::Hot,
            (false, _) => Warmth::Warm,
        };
        if let Some(room) = self.room.checked_sub(content.len()) {
            self.room = room;
            self.blocks.push(KeptBlock { at, content: Slice::from_long(content), warmth });
        }
    }

    /// Whether the file may be kept open until it is synced. If not, it must be synced before [`Keeper::finish`].
    pub(in crate::table) fn may_keep_file(&self) -> bool {
        self.kept.has_room()
    }

    /// The table is finished; this is its file, unless it was synced already.
    pub(in crate::table) fn finish(&mut self, table: TableId, file: Option<Arc<dyn File>>) {
        let blocks = std::mem::take(&mut self.blocks);
        let mut finished = self.kept.finished();
        if !blocks.is_empty() {
            finished.blocks.insert(table, blocks);
        }
        if let Some(file) = file {
            finished.files.insert(table, Written { file, through_cache: self.through_cache });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;

    fn file() -> Arc<dyn File> {
        Memory(Disk::new(true)).create(Path::new("a")).unwrap()
    }

    #[test]
    fn blocks_are_kept_that_have_entries_of_blocks_that_are_wanted_up_to_the_room() {
        let kept = Arc::<KeptBlocks>::default();
        let mut keeper = Keeper::new(Arc::clone(&kept), 450, true);
        let block = |cold, warm, hot, len: u8| ([cold, warm, hot], len);
        let blocks = [
            block(9, 0, 0, 100),
            block(9, 1, 0, 101),
            block(9, 0, 1, 102),
            block(5, 1, 5, 103),
            block(5, 0, 5, 104),
            block(0, 0, 1, 105),
            block(0, 0, 1, 40),
            block(1, 0, 0, 1),
        ];
        for (entries, len) in blocks {
            for (count, warmth) in entries.into_iter().zip([Warmth::Cold, Warmth::Warm, Warmth::Hot]) {
                (0..count).for_each(|_| keeper.count(warmth));
            }
            keeper.keep(&vec![len; usize::from(len)]);
        }
        assert!(kept.take_blocks(TableId(1)).is_none(), "not finished");
        keeper.finish(TableId(1), Some(file()));
        let blocks: Vec<_> = kept.take_blocks(TableId(1)).unwrap();
        let blocks = blocks.iter().map(|block| (block.at, block.content.len(), block.warmth));
        let (warm, hot) = (Warmth::Warm, Warmth::Hot);
        let expected = [(1, 101, warm), (2, 102, warm), (3, 103, warm), (4, 104, hot), (6, 40, hot)];
        assert_eq!(blocks.collect::<Vec<_>>(), expected);
        assert!(kept.take_blocks(TableId(1)).is_none(), "taken");
    }

    #[test]
    fn the_file_stays_open_until_it_is_synced_or_the_table_removed() {
        let kept = Arc::<KeptBlocks>::default();
        let files = [file(), file()];
        for (id, file) in (1..).zip(&files) {
            Keeper::new(Arc::clone(&kept), 0, id == 2).finish(TableId(id), Some(Arc::clone(file)));
        }
        assert!(!kept.is_through_cache(TableId(1)) && kept.is_through_cache(TableId(2)));
        assert!(Arc::ptr_eq(&kept.file(TableId(1)).unwrap(), &files[0]));
        assert_eq!(kept.files(), 2);
        kept.forget_file(TableId(1));
        assert!(kept.file(TableId(1)).is_none(), "synced");
        kept.forget(TableId(2));
        assert_eq!(kept.files(), 0);
        assert_eq!(files.each_ref().map(Arc::strong_count), [1, 1]);
    }
}
