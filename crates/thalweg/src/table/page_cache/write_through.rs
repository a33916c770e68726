//! [`WriteThroughPolicy`]: whether a new table is written through the page cache or past it.
//!
//! A table written through the page cache is read from memory from the start. The price is a copy of each byte into
//! pages that must be found first. While the database is read, that is worth it for every table. In a load that is not
//! read, it is worth it for the lower levels only: tables of the upper levels are replaced before they are read. They
//! go past the page cache; a later read brings them there ([`super::warming`]).
//!
//! Tables that do not fit would push out what is read. So for each new table the policy compares the bytes of all live
//! tables with the room that memory has for files. A database that outgrows its memory goes over to direct writes by
//! itself, as does one whose neighbours take the memory (`docs/io.md`).
//!
//! A replaced table counts until it has no handle and its pages were dropped ([`StalePages`]). Otherwise the next table
//! would go past the page cache for pages that are not read.
//!
//! Invariant: `live_bytes` is the sum of [`LiveBytesGuard::bytes`] of the tables with a handle and of the
//! [`StalePages`]. No locks.

use crate::storage::Storage;
use crate::table::options::TableWrites;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables from this level on are not replaced soon. They are most of a database that fits in memory.
const LASTING_LEVEL: usize = 2;

/// See the module.
pub(in crate::table) struct WriteThroughPolicy {
    writes: TableWrites,
    live_bytes: Arc<AtomicU64>,
}

/// A table's part of the live bytes. Dropping it subtracts the part.
pub(in crate::table) struct LiveBytesGuard {
    bytes: u64,
    live_bytes: Arc<AtomicU64>,
}

/// The pages of a replaced table that are still in the page cache.
pub(in crate::table) struct StalePages {
    pub(in crate::table) path: PathBuf,
    pub(in crate::table) bytes: u64,
    pub(in crate::table) _counted: LiveBytesGuard,
}

impl WriteThroughPolicy {
    pub(in crate::table) fn new(writes: TableWrites) -> Self {
        WriteThroughPolicy { writes, live_bytes: Arc::default() }
    }

    /// Counts a table of `bytes`.
    pub(in crate::table) fn count(&self, bytes: u64) -> LiveBytesGuard {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
        LiveBytesGuard { bytes, live_bytes: Arc::clone(&self.live_bytes) }
    }

    /// Whether a new table of `level` is written through the page cache. `is_read`: tables are being read.
    pub(in crate::table) fn is_through_cache(&self, storage: &dyn Storage, level: usize, is_read: bool) -> bool {
        match self.writes {
            TableWrites::PageCache => true,
            TableWrites::Direct => false,
            TableWrites::Automatic => (is_read || level >= LASTING_LEVEL) && self.fits(storage),
        }
    }

    /// Whether a table that is read is brought into the page cache.
    pub(in crate::table) fn is_warmed(&self, storage: &dyn Storage) -> bool {
        self.writes != TableWrites::Direct && self.fits(storage)
    }

    /// The bytes of all live tables.
    pub(in crate::table) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// Whether memory has room for all live tables.
    fn fits(&self, storage: &dyn Storage) -> bool {
        storage.file_room_bytes().is_some_and(|room| self.live_bytes() <= room)
    }
}

impl Drop for LiveBytesGuard {
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
    fn tables_that_are_read_or_lasting_go_through_the_page_cache_while_all_fit() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic);
        let storage = storage(100);
        let choices = |policy: &WriteThroughPolicy| {
            [(0, false), (0, true), (LASTING_LEVEL, false), (LASTING_LEVEL, true)]
                .map(|(level, is_read)| policy.is_through_cache(&storage, level, is_read))
        };
        let first = policy.count(60);
        assert_eq!(choices(&policy), [false, true, true, true]);
        let second = policy.count(41);
        assert_eq!(choices(&policy), [false; 4]);
        assert!(!policy.is_warmed(&storage));
        drop(first);
        assert_eq!(choices(&policy), [false, true, true, true]);
        assert!(policy.is_warmed(&storage));
        drop(second);
    }

    #[test]
    fn a_fixed_choice_ignores_memory_and_nothing_fits_where_its_size_is_unknown() {
        let unknown = Memory(Disk::new(true));
        let is = |writes, is_read| WriteThroughPolicy::new(writes).is_through_cache(&unknown, LASTING_LEVEL, is_read);
        assert!(
            is(TableWrites::PageCache, false) && !is(TableWrites::Direct, true) && !is(TableWrites::Automatic, true)
        );
        assert!(!WriteThroughPolicy::new(TableWrites::Direct).is_warmed(&storage(100)));
    }
}
