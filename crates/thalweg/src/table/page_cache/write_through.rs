//! [`WriteThroughPolicy`]: whether a new table is written through the page cache or past it, and when to the device.
//!
//! A table written through the page cache is read from memory: by gets, and by the compaction that replaces it. The
//! price is a copy of each byte into pages that must be found first. A compaction that reads from the device waits for
//! the device, and takes device time from others. So the price is worth paying even if not all tables fit: of two files
//! the kernel keeps the one that is used. If memory has room for only a small part of a database, a table's pages are
//! gone before its compaction. Then tables go past the page cache, unless tables are read: the newest tables are read
//! most.
//!
//! **Late.** A table of the upper levels is often replaced before a settle round needs it on the medium. So it is
//! written into the page cache, and a settle round that finds it in use writes it to the device. A table that is
//! replaced before such a round is never written to the device. A crash loses it like any other unsynced table: its
//! inputs, or the log, are still there. The bytes of late tables are bounded, because their pages are dirty. When
//! memory is short and the kernel finds a dirty page, it writes all dirty pages at once, and reads wait for these
//! writes. The rest of a table that reaches the bound is written to the device. The file system must keep space for
//! dirty pages from the write on. Otherwise a full disk would show only in a settle round, which poisons the database
//! ([`Storage::keeps_space_for_writes`]).
//!
//! **Reserved.** Space for a table is reserved ahead in two cases. The first is a table that goes past the page cache,
//! because the kernel serialises direct writes that extend a file (E4). The second is a file system that does not keep
//! space for dirty pages. A file with reserved space must be cut to its length in the end. In the page cache the cut
//! waits for the write-back of the page where the file ends, and a flush that waits so long makes writers wait. So
//! space is not reserved in any other case.
//!
//! **Packs** are replaced less often. While all tables fit into the page cache, a pack goes through it if packs are
//! read or the pack is of a level that lasts. Other packs go past it, because they can be brought there at any time:
//! all of them fit ([`super::warming`]). If not all tables fit, nothing brings them there but the reads themselves, a
//! page at a time. So packs then go through the page cache as tables do, and it is full when the reads begin.
//!
//! A replaced table counts only until it has no handle and its pages were dropped ([`StalePages`]). If it counted
//! longer, tables would seem not to fit because of pages that are not read.
//!
//! Invariant: `live_bytes` is the sum of [`CountedBytes`] of the tables with a handle and of the [`StalePages`];
//! `late_bytes` is that of the late tables which were neither synced nor removed. No locks.

use crate::storage::Storage;
use crate::table::options::TableWrites;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packs from this level on are not replaced soon. Tables of levels above may be late.
const LASTING_LEVEL: usize = 2;

/// Late tables may take one part in this many of the room that memory has for files.
const LATE_PART: u64 = 128;

/// New tables that are not read, and packs, go through the page cache only if all tables have at most this many times
/// the room.
const LIVE_TIMES_MAX: u64 = 8;

/// The room is asked for again when the tables written since have one part in this many of it. Asking takes a tenth of
/// a millisecond.
const ASK_PART: u64 = 64;

/// See the module.
pub(in crate::table) struct WriteThroughPolicy {
    writes: TableWrites,
    /// Whether tables may be written late.
    may_be_late: bool,
    /// As [`Storage::keeps_space_for_writes`].
    keeps_space: bool,
    live_bytes: Arc<AtomicU64>,
    late_bytes: Arc<AtomicU64>,
    /// The latest known room that memory has for files, and the bytes of the tables written since.
    room: AtomicU64,
    bytes_since: AtomicU64,
}

/// How a new table is written.
pub(in crate::table) enum WriteWay {
    /// Past the page cache.
    Direct,
    /// Through the page cache. The write-back of each piece begins at once.
    Cached,
    /// Into the page cache. Its sync writes it to the device.
    Late(LateBytes),
}

/// A late table's part of the late bytes, and the most that all late tables may have.
pub(in crate::table) struct LateBytes {
    counted: CountedBytes,
    all_max: u64,
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
    /// `settles`: whether a settle round makes tables durable. `keeps_space`: as [`Storage::keeps_space_for_writes`].
    pub(in crate::table) fn new(writes: TableWrites, settles: bool, keeps_space: bool) -> Self {
        WriteThroughPolicy {
            writes,
            may_be_late: settles && keeps_space,
            keeps_space,
            live_bytes: Arc::default(),
            late_bytes: Arc::default(),
            room: AtomicU64::new(0),
            bytes_since: AtomicU64::new(0),
        }
    }

    /// Counts a table of `bytes`.
    pub(in crate::table) fn count(&self, bytes: u64) -> CountedBytes {
        self.bytes_since.fetch_add(bytes, Ordering::Relaxed);
        let mut counted = CountedBytes { bytes: 0, sum: Arc::clone(&self.live_bytes) };
        counted.add(bytes);
        counted
    }

    /// How a new sorted table of `level` is written. `is_read`: tables are being read.
    pub(in crate::table) fn way(&self, storage: &dyn Storage, level: usize, is_read: bool) -> WriteWay {
        match self.writes {
            TableWrites::PageCache => WriteWay::Cached,
            TableWrites::Direct => WriteWay::Direct,
            TableWrites::Automatic => match self.room(storage) {
                0 => WriteWay::Direct,
                room if self.may_be_late && level < LASTING_LEVEL && self.late_bytes() < room / LATE_PART => {
                    let counted = CountedBytes { bytes: 0, sum: Arc::clone(&self.late_bytes) };
                    WriteWay::Late(LateBytes { counted, all_max: room / LATE_PART })
                }
                room if is_read || self.keeps_much(room) => WriteWay::Cached,
                _ => WriteWay::Direct,
            },
        }
    }

    /// How a new pack of `level` is written.
    pub(in crate::table) fn way_of_pack(&self, storage: &dyn Storage, level: usize, is_read: bool) -> WriteWay {
        let is_cached = match self.writes {
            TableWrites::PageCache => true,
            TableWrites::Direct => false,
            TableWrites::Automatic if self.fits(storage) => is_read || level >= LASTING_LEVEL,
            TableWrites::Automatic => self.keeps_much(self.room(storage)),
        };
        if is_cached { WriteWay::Cached } else { WriteWay::Direct }
    }

    /// Whether space is reserved for a table that is written in this way.
    pub(in crate::table) fn is_reserved(&self, way: &WriteWay) -> bool {
        matches!(way, WriteWay::Direct) || !self.keeps_space
    }

    /// Whether a table that is read is brought into the page cache.
    pub(in crate::table) fn is_warmed(&self, storage: &dyn Storage) -> bool {
        // The room is asked for once per table, perhaps long after the latest table was written.
        let room = self.ask(storage);
        self.writes != TableWrites::Direct && room > 0 && self.live_bytes() <= room
    }

    /// Whether memory has room for all live tables.
    pub(in crate::table) fn fits(&self, storage: &dyn Storage) -> bool {
        let room = self.room(storage);
        room > 0 && self.live_bytes() <= room
    }

    /// Whether the page cache, if it has `room`, keeps enough of all live tables.
    fn keeps_much(&self, room: u64) -> bool {
        room > 0 && self.live_bytes() / LIVE_TIMES_MAX <= room
    }

    /// The bytes of all live tables.
    pub(in crate::table) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// The bytes of the late tables that no round has synced and that still have a file.
    pub(in crate::table) fn late_bytes(&self) -> u64 {
        self.late_bytes.load(Ordering::Relaxed)
    }

    /// The bytes of files that memory has room for; 0 if that is not known.
    fn room(&self, storage: &dyn Storage) -> u64 {
        let known = self.room.load(Ordering::Relaxed);
        if self.bytes_since.load(Ordering::Relaxed) < known / ASK_PART {
            return known;
        }
        self.ask(storage)
    }

    fn ask(&self, storage: &dyn Storage) -> u64 {
        let room = storage.file_room_bytes().unwrap_or(0);
        self.bytes_since.store(0, Ordering::Relaxed);
        self.room.store(room, Ordering::Relaxed);
        room
    }
}

impl LateBytes {
    /// Counts `bytes` more, if that many may be late.
    pub(in crate::table) fn add_within(&mut self, bytes: u64) -> bool {
        let is_within = self.counted.sum.load(Ordering::Relaxed).saturating_add(bytes) <= self.all_max;
        if is_within {
            self.counted.add(bytes);
        }
        is_within
    }
}

impl CountedBytes {
    fn add(&mut self, bytes: u64) {
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

    /// How tables of levels 0 and 2 are written, first not read and then read: Direct, Cached or Late.
    fn named(way: impl Fn(usize, bool) -> WriteWay) -> String {
        let name = |way| match way {
            WriteWay::Direct => 'D',
            WriteWay::Cached => 'C',
            WriteWay::Late(_) => 'L',
        };
        let cases = [(0, false), (0, true), (LASTING_LEVEL, false), (LASTING_LEVEL, true)];
        cases.map(|(level, is_read)| name(way(level, is_read))).iter().collect()
    }

    #[test]
    fn tables_go_through_the_page_cache_if_it_has_room_for_enough_of_them_or_they_are_read() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, false, true);
        let storage = storage(100);
        let ways = || named(|level, is_read| policy.way(&storage, level, is_read));
        assert_eq!(ways(), "CCCC");
        let few = policy.count(800);
        assert_eq!(ways(), "CCCC");
        let many = policy.count(8);
        assert_eq!(ways(), "DCDC");
        drop((few, many));
        assert_eq!(ways(), "CCCC");
    }

    #[test]
    fn packs_go_through_the_page_cache_if_they_are_read_or_lasting_or_not_all_fit() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, true, true);
        let storage = storage(100);
        let ways = || named(|level, is_read| policy.way_of_pack(&storage, level, is_read));
        let first = policy.count(60);
        assert_eq!(ways(), "DCCC");
        let second = policy.count(41);
        assert_eq!(ways(), "CCCC");
        assert!(!policy.is_warmed(&storage));
        let third = policy.count(707);
        assert_eq!(ways(), "DDDD", "too many to keep enough of them");
        drop((first, third));
        assert_eq!(ways(), "DCCC");
        assert!(policy.is_warmed(&storage));
        drop(second);
    }

    #[test]
    fn tables_of_the_upper_levels_are_late_while_they_take_little_of_the_room() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, true, true);
        let storage = storage(10 * LATE_PART);
        let ways = || named(|level, is_read| policy.way(&storage, level, is_read));
        let all = policy.count(100 * LATE_PART);
        assert_eq!(ways(), "LLDC");
        let WriteWay::Late(mut late) = policy.way(&storage, 1, false) else { panic!("not late") };
        assert!(late.add_within(9));
        assert_eq!(ways(), "LLDC");
        assert!(!late.add_within(2), "what is beyond is written at once");
        assert!(late.add_within(1));
        assert_eq!((ways().as_str(), policy.late_bytes()), ("DCDC", 10));
        drop(all);
        assert_eq!(ways(), "CCCC");
        drop(late);
        assert_eq!(ways(), "LLCC");
    }

    #[test]
    fn space_is_reserved_past_the_page_cache_and_where_dirty_pages_have_none() {
        let reserved = |keeps_space| {
            let policy = WriteThroughPolicy::new(TableWrites::Automatic, true, keeps_space);
            [&WriteWay::Direct, &WriteWay::Cached].map(|way| policy.is_reserved(way))
        };
        assert_eq!((reserved(true), reserved(false)), ([true, false], [true, true]));
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, true, false);
        assert_eq!(named(|level, is_read| policy.way(&storage(10 * LATE_PART), level, is_read)), "CCCC", "none late");
    }

    #[test]
    fn the_room_is_asked_for_again_once_tables_were_written() {
        let policy = WriteThroughPolicy::new(TableWrites::Automatic, false, true);
        let storage = storage(6400);
        assert!(policy.fits(&storage));
        let first = policy.count(99);
        storage.0.file_room.store(98, Ordering::Relaxed);
        assert!(policy.fits(&storage), "it is not asked for again so soon");
        let second = policy.count(1);
        assert!(!policy.fits(&storage));
        drop((first, second));
    }

    #[test]
    fn a_fixed_choice_ignores_memory_and_nothing_fits_where_its_size_is_unknown() {
        let unknown = Memory(Disk::new(true));
        let ways = |writes| {
            let policy = WriteThroughPolicy::new(writes, true, true);
            [
                named(|level, is_read| policy.way(&unknown, level, is_read)),
                named(|level, is_read| policy.way_of_pack(&unknown, level, is_read)),
            ]
        };
        assert_eq!(ways(TableWrites::PageCache), ["CCCC"; 2]);
        assert_eq!(ways(TableWrites::Direct), ["DDDD"; 2]);
        assert_eq!(ways(TableWrites::Automatic), ["DDDD"; 2]);
        assert!(!WriteThroughPolicy::new(TableWrites::Direct, true, true).is_warmed(&storage(100)));
    }
}
