//! [`KeptBlocks`]: what is kept of a table just written: blocks on their way to the block cache, and the file on its
//! way to its sync.
//!
//! Whoever reads a new table that was written past the page cache would wait for the device. While anybody reads at
//! all, the writer of such a table keeps copies of its first blocks, and when it is taken into use they go into the
//! cache; the blocks of the tables that it replaces leave the cache at the same moment. A load that nobody reads
//! meanwhile copies nothing.
//!
//! Bytes that the page cache took are written back at any time, and when that fails the kernel tells it to a sync of a
//! descriptor that was open then. So the writer's own stays open, here, until the table was synced through it.
//!
//! Locks: `finished` is held for an insertion or a removal.

use crate::format::{Slice, TableId};
use crate::storage::File;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What finished tables kept, until they are taken into use or removed.
#[derive(Default)]
pub(super) struct KeptBlocks {
    finished: Mutex<Finished>,
}

#[derive(Default)]
struct Finished {
    blocks: BTreeMap<TableId, Vec<Slice>>,
    files: BTreeMap<TableId, Written>,
}

struct Written {
    file: Arc<dyn File>,
    through_cache: bool,
}

impl KeptBlocks {
    fn finished(&self) -> MutexGuard<'_, Finished> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first blocks of `table`, and takes them away.
    pub(super) fn take_blocks(&self, table: TableId) -> Option<Vec<Slice>> {
        self.finished().blocks.remove(&table)
    }

    /// The file of `table`, open since it was created.
    pub(super) fn file(&self, table: TableId) -> Option<Arc<dyn File>> {
        self.finished().files.get(&table).map(|written| Arc::clone(&written.file))
    }

    /// How many files are kept open.
    pub(super) fn files(&self) -> usize {
        self.finished().files.len()
    }

    /// Lets go of the file of `table`.
    pub(super) fn forget_file(&self, table: TableId) {
        let file = self.finished().files.remove(&table);
        drop(file);
    }

    /// Whether `table`, whose file is here, was written through the page cache.
    pub(super) fn is_through_cache(&self, table: TableId) -> bool {
        self.finished().files.get(&table).is_some_and(|written| written.through_cache)
    }

    /// Lets go of what is kept of `table`.
    pub(super) fn forget(&self, table: TableId) {
        drop(self.take_blocks(table));
        self.forget_file(table);
    }
}

/// What a writer keeps of the table it writes: nothing, or up to a number of bytes.
pub(super) struct Keeper {
    kept: Arc<KeptBlocks>,
    /// Contents of data blocks, from the first on without a gap.
    blocks: Vec<Slice>,
    room: usize,
    through_cache: bool,
}

impl Keeper {
    /// Keeps at most `room` bytes.
    pub(super) fn new(kept: Arc<KeptBlocks>, room: usize, through_cache: bool) -> Self {
        Keeper { kept, blocks: Vec::new(), room, through_cache }
    }

    /// The next data block, uncompressed.
    pub(super) fn keep(&mut self, content: &[u8]) {
        match self.room.checked_sub(content.len()) {
            Some(room) => {
                self.room = room;
                self.blocks.push(Slice::from_long(content));
            }
            // Blocks are numbered by their order: none may be left out.
            None => self.room = 0,
        }
    }

    /// The table is finished; this is its file.
    pub(super) fn finish(&mut self, table: TableId, file: Arc<dyn File>) {
        let blocks = std::mem::take(&mut self.blocks);
        let mut finished = self.kept.finished();
        if !blocks.is_empty() {
            finished.blocks.insert(table, blocks);
        }
        finished.files.insert(table, Written { file, through_cache: self.through_cache });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::disk::{Disk, Memory};
    use super::*;
    use crate::storage::Storage;
    use std::path::Path;

    fn file() -> Arc<dyn File> {
        Memory(Disk::new(true)).create(Path::new("a")).unwrap()
    }

    #[test]
    fn the_first_blocks_are_kept_up_to_the_room_without_a_gap() {
        let kept = Arc::<KeptBlocks>::default();
        let mut keeper = Keeper::new(Arc::clone(&kept), 250, true);
        for len in [100, 100, 100, 10] {
            keeper.keep(&vec![len as u8; len]);
        }
        assert!(kept.take_blocks(TableId(1)).is_none(), "not finished");
        keeper.finish(TableId(1), file());
        let blocks = kept.take_blocks(TableId(1)).unwrap();
        assert_eq!(blocks, [[100; 100], [100; 100]]);
        assert!(kept.take_blocks(TableId(1)).is_none(), "taken");
    }

    #[test]
    fn the_file_stays_open_until_it_is_synced_or_the_table_removed() {
        let kept = Arc::<KeptBlocks>::default();
        let files = [file(), file()];
        for (id, file) in (1..).zip(&files) {
            Keeper::new(Arc::clone(&kept), 0, id == 2).finish(TableId(id), Arc::clone(file));
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
