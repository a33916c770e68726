//! [`Residence`]: whether a new table is written through the page cache, to be read from memory at once, or past it.
//!
//! A table that was written through the page cache is read from memory from the start, at the price of a copy of each
//! of its bytes into pages that somebody must find first. While somebody reads, that is worth it for every table. In a
//! load that nobody reads it is for those of the lower levels: what the upper ones get is replaced before anybody wants
//! it, so it goes past the cache, and what of it is read later is brought there then ([`super::warming`]). Tables that
//! do not fit would push out what is read. So the bytes of all live tables are held against the room that memory has
//! for files, anew for each table: as a database outgrows its memory, or other memory grows, it goes over to direct
//! writes by itself (`docs/io.md`).
//!
//! A table that was replaced counts no more once nobody has it, and its pages were dropped ([`Left`]): else the next
//! one would go past the cache for what nobody reads.
//!
//! Invariant: `live_bytes` is the sum of [`Resident::bytes`] of the tables that have a handle, and of what is [`Left`]
//! of others. No locks.

use crate::storage::Storage;
use crate::table::TableWrites;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables from this level on are not replaced soon: they are most of what a database that fits in memory has.
const LASTING_LEVEL: usize = 2;

/// See the module.
pub(in crate::table) struct Residence {
    writes: TableWrites,
    live_bytes: Arc<AtomicU64>,
}

/// A table's part in the bytes of all. Dropped, it is taken off.
pub(in crate::table) struct Resident {
    bytes: u64,
    live_bytes: Arc<AtomicU64>,
}

/// What a replaced table has in the page cache, though nobody reads it.
pub(in crate::table) struct Left {
    pub(in crate::table) path: PathBuf,
    pub(in crate::table) bytes: u64,
    pub(in crate::table) _counted: Resident,
}

impl Residence {
    pub(in crate::table) fn new(writes: TableWrites) -> Self {
        Residence { writes, live_bytes: Arc::default() }
    }

    /// Counts a table of `bytes`.
    pub(in crate::table) fn count(&self, bytes: u64) -> Resident {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
        Resident { bytes, live_bytes: Arc::clone(&self.live_bytes) }
    }

    /// Whether the next table, of `level`, is written through the page cache; `is_read`: somebody reads tables.
    pub(in crate::table) fn is_through_cache(&self, storage: &dyn Storage, level: usize, is_read: bool) -> bool {
        match self.writes {
            TableWrites::PageCache => true,
            TableWrites::Direct => false,
            TableWrites::Automatic => (is_read || level >= LASTING_LEVEL) && self.fits(storage),
        }
    }

    /// Whether tables that are read are to be brought into the page cache.
    pub(in crate::table) fn is_warmed(&self, storage: &dyn Storage) -> bool {
        self.writes != TableWrites::Direct && self.fits(storage)
    }

    /// Whether memory has room for all live tables.
    fn fits(&self, storage: &dyn Storage) -> bool {
        storage.file_room_bytes().is_some_and(|room| self.live_bytes.load(Ordering::Relaxed) <= room)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.live_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::disk::{Disk, Memory};

    fn storage(room: u64) -> Memory {
        let disk = Disk::new(true);
        disk.file_room.store(room, Ordering::Relaxed);
        Memory(disk)
    }

    #[test]
    fn tables_that_are_read_or_last_go_through_the_page_cache_while_all_fit() {
        let residence = Residence::new(TableWrites::Automatic);
        let storage = storage(100);
        let choices = |residence: &Residence| {
            [(0, false), (0, true), (LASTING_LEVEL, false), (LASTING_LEVEL, true)]
                .map(|(level, is_read)| residence.is_through_cache(&storage, level, is_read))
        };
        let first = residence.count(60);
        assert_eq!(choices(&residence), [false, true, true, true]);
        let second = residence.count(41);
        assert_eq!(choices(&residence), [false; 4]);
        assert!(!residence.is_warmed(&storage));
        drop(first);
        assert_eq!(choices(&residence), [false, true, true, true]);
        assert!(residence.is_warmed(&storage));
        drop(second);
    }

    #[test]
    fn who_chooses_is_not_asked_for_room_and_where_none_is_known_nothing_fits() {
        let unknown = Memory(Disk::new(true));
        let is = |writes, is_read| Residence::new(writes).is_through_cache(&unknown, LASTING_LEVEL, is_read);
        assert!(
            is(TableWrites::PageCache, false) && !is(TableWrites::Direct, true) && !is(TableWrites::Automatic, true)
        );
        assert!(!Residence::new(TableWrites::Direct).is_warmed(&storage(100)));
    }
}
