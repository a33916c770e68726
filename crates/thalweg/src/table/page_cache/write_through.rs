//! [`WriteThroughPolicy`]: whether a new table is written through the page cache or past it, and when to the device.
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
//! **Late.** A table of the upper levels is often replaced before a settle round needs it on the medium. So it is
//! written into the page cache, and to the device only by the round that finds it in use. One that was replaced before
//! is never written, and its compaction reads nothing from the device (`docs/io.md`). A crash loses it like any other
//! unsynced table: its inputs, or the log, are still there. The bytes of late tables are bounded, because the kernel
//! must write dirty pages before it can use their memory for something else.
//!
//! A replaced table counts until it has no handle and its pages were dropped ([`StalePages`]). Otherwise the next table
//! would go past the page cache for pages that are not read.
//!
//! Invariant: `live_bytes` is the sum of [`CountedBytes`] of the tables with a handle and of the
//! [`StalePages`]; `late_bytes` is that of the late tables which were neither synced nor removed. No locks.

use crate::storage::Storage;
use crate::table::options::TableWrites;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables from this level on are not replaced soon. They are most of a database that fits in memory.
const LASTING_LEVEL: usize = 2;

/// Late tables may take one part in this many of the room that memory has for files. The kernel begins to write dirty
/// pages by itself once they are a tenth of it (`vm.dirty_background_ratio`).
const LATE_PART: u64 = 10;

/// See the module.
pub(in crate::table) struct WriteThroughPolicy {
    writes: TableWrites,
    /// Whether a settle round makes tables durable, so that they may be written late.
    may_be_late: bool,
    live_bytes: Arc<AtomicU64>,
    late_bytes: Arc<AtomicU64>,
}

/// How a new table is written.
pub(in crate::table) enum WriteWay {
    /// Past the page cache.
    Direct,
    /// Through the page cache. The write-back of each piece begins at once.
    Cached,
    /// Into the page cache. Its sync writes it to the device.
    Late(CountedBytes),
}

/// A table's part of a sum of bytes. Dropping it subtracts the part.
pub(in crate::table) struct CountedBytes {
    bytes: u64,
    sum: Arc<AtomicU64>,
}

/// The pages of a replaced table that are still in the page cache.
pub(in crate::table) struct StalePages {
    pub(in crate::table) path: PathBuf,
    pub(in crate::table) bytes: u64,
    pub(in crate::table) _counted: CountedBytes,
}

impl WriteThroughPolicy {
    pub(in crate::table) fn new(writes: TableWrites, may_be_late: bool) -> Self {
        WriteThroughPolicy { writes, may_be_late, live_bytes: Arc::default(), late_bytes: Arc::default() }
    }

    /// Counts a table of `bytes`.
    pub(in crate::table) fn count(&self, bytes: u64) -> CountedBytes {
        let mut counted = CountedBytes { bytes: 0, sum: Arc::clone(&self.live_bytes) };
        counted.add(bytes);
        counted
    }

    /// How a new table of `level` is written. `is_read`: tables are being read.
    pub(in crate::table) fn way(&self, storage: &dyn Storage, level: usize, is_read: bool) -> WriteWay {
        if self.writes == TableWrites::Automatic && self.may_be_late && level < LASTING_LEVEL {
            let room = storage.file_room_bytes().unwrap_or(0);
            if self.late_bytes() < room / LATE_PART {
                return WriteWay::Late(CountedBytes { bytes: 0, sum: Arc::clone(&self.late_bytes) });
            }
        }
        self.way_at_once(storage, level, is_read)
    }

    /// The same for a table that is not written late.
    pub(in crate::table) fn way_at_once(&self, storage: &dyn Storage, level: usize, is_read: bool) -> WriteWay {
        let is_cached = match self.writes {
            TableWrites::PageCache => true,
            TableWrites::Direct => false,
            TableWrites::Automatic => (is_read || level >= LASTING_LEVEL) && self.fits(storage),
        };
        if is_cached { WriteWay::Cached } else { WriteWay::Direct }
    }

    /// Whether a table that is read is brought into the page cache.
    pub(in crate::table) fn is_warmed(&self, storage: &dyn Storage) -> bool {
        self.writes != TableWrites::Direct && self.fits(storage)
    }

    /// The bytes of all live tables.
    pub(in crate::table) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// The bytes of late tables that were neither synced nor removed.
    pub(in crate::table) fn late_bytes(&self) -> u64 {
        self.late_bytes.load(Ordering::Relaxed)
    }

    /// Whether memory has room for all live tables.
    fn fits(&self, storage: &dyn Storage) -> bool {
        storage.file_room_bytes().is_some_and(|room| self.live_bytes() <= room)
    }
}

impl CountedBytes {
    pub(in crate::table) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.sum.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
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

    /// How tables of levels 0 and 2 are written, not read and read: `D`irect, `C`ached or `L`ate.
    fn ways(policy: &WriteThroughPolicy, storage: &dyn Storage) -> String {
        let name = |way| match way {
            WriteWay::Direct => 'D',
            WriteWay::Cached => 'C',
            WriteWay::Late(_) => 'L',
        };
        let cases = [(0, false), (0, true), (LASTING_LEVEL, false), (LASTING_LEVEL, true)];
        cases.map(|(level, is_read)| name(policy.way(storage, level, is_read))).iter().collect()
    }

    #[test]
    fn tables_that_are_read_or_lasting_go_through_the_page_cache_while_all_fit() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, false);
        let storage = storage(100);
        let first = policy.count(60);
        assert_eq!(ways(&policy, &storage), "DCCC");
        let second = policy.count(41);
        assert_eq!(ways(&policy, &storage), "DDDD");
        assert!(!policy.is_warmed(&storage));
        drop(first);
        assert_eq!(ways(&policy, &storage), "DCCC");
        assert!(policy.is_warmed(&storage));
        drop(second);
    }

    #[test]
    fn tables_of_the_upper_levels_are_late_while_they_take_little_of_the_room() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, true);
        let storage = storage(100);
        let all = policy.count(101);
        assert_eq!(ways(&policy, &storage), "LLDD");
        let WriteWay::Late(mut late) = policy.way(&storage, 1, false) else { panic!("not late") };
        late.add(9);
        assert_eq!(ways(&policy, &storage), "LLDD");
        late.add(1);
        assert_eq!((ways(&policy, &storage).as_str(), policy.late_bytes()), ("DDDD", 10));
        drop(all);
        assert_eq!(ways(&policy, &storage), "DCCC");
        drop(late);
        assert_eq!(ways(&policy, &storage), "LLCC");
    }

    #[test]
    fn a_fixed_choice_ignores_memory_and_nothing_fits_where_its_size_is_unknown() {
        let unknown = Memory(Disk::new(true));
        let ways = |writes| ways(&WriteThroughPolicy::new(writes, true), &unknown);
        assert_eq!([TableWrites::PageCache, TableWrites::Direct, TableWrites::Automatic].map(ways), ["CCCC", "DDDD", "DDDD"]);
        assert!(!WriteThroughPolicy::new(TableWrites::Direct, true).is_warmed(&storage(100)));
    }
}
