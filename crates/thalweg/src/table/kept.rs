//! [`KeptBlocks`]: the content of blocks just written, on its way from their writer to the block cache.
//!
//! Tables are written past the page cache, so whoever reads a new one first would wait for the device. While anybody
//! reads at all, a writer keeps copies of its first blocks, and when the table is taken into use they go into the
//! cache; the blocks of the tables that it replaces leave the cache at the same moment. A load that nobody reads
//! meanwhile copies nothing.
//!
//! Locks: `finished` is held for an insertion or a removal.

use crate::format::{Slice, TableId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What finished tables kept, until they are taken into use or removed.
#[derive(Default)]
pub(super) struct KeptBlocks {
    finished: Mutex<BTreeMap<TableId, Vec<Slice>>>,
}

impl KeptBlocks {
    /// The first blocks of `table`, and takes them away.
    pub(super) fn take(&self, table: TableId) -> Option<Vec<Slice>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).remove(&table)
    }
}

/// What a writer keeps of the table it writes: nothing, or up to a number of bytes.
pub(super) struct Keeper {
    kept: Arc<KeptBlocks>,
    /// Contents of data blocks, from the first on without a gap.
    blocks: Vec<Slice>,
    room: usize,
}

impl Keeper {
    /// Keeps at most `room` bytes.
    pub(super) fn new(kept: Arc<KeptBlocks>, room: usize) -> Self {
        Keeper { kept, blocks: Vec::new(), room }
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

    /// The table is finished.
    pub(super) fn finish(&mut self, table: TableId) {
        let blocks = std::mem::take(&mut self.blocks);
        if !blocks.is_empty() {
            self.kept.finished.lock().unwrap_or_else(PoisonError::into_inner).insert(table, blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_blocks_are_kept_up_to_the_room_without_a_gap() {
        let kept = Arc::<KeptBlocks>::default();
        let mut keeper = Keeper::new(Arc::clone(&kept), 250);
        for len in [100, 100, 100, 10] {
            keeper.keep(&vec![len as u8; len]);
        }
        assert!(kept.take(TableId(1)).is_none(), "not finished");
        keeper.finish(TableId(1));
        let blocks = kept.take(TableId(1)).unwrap();
        assert_eq!(blocks, [[100; 100], [100; 100]]);
        assert!(kept.take(TableId(1)).is_none(), "taken");
    }
}
