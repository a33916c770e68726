//! [`PageCacheRoom`]: whether the page cache has room for all tables, or for more of them than it has.
//!
//! If all tables fit, reads may bring whole pieces into the page cache. If they do not fit, pages that nobody has read
//! only evict others. But while the page cache has less than there is room for, a read through it costs nothing: after
//! a merge, or when memory has become free.
//!
//! The share of the tables that the page cache has is an estimate. Now and then a read checks whether a random page of
//! its table is there, and the share is a moving mean of these checks over all tables. Reads that prefer some tables
//! make the estimate too high. Pieces that are read again soon still get into the page cache then
//! ([`super::recent_reads`]).
//!
//! Counts of reads decide when to ask and to check, not time. No locks: relaxed atomics; a lost update is one check
//! less.

use crate::storage::Storage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The room is asked for again after this many reads. It takes a tenth of a millisecond.
const ASK_EVERY: u32 = 4096;

/// One read of this many checks a random page.
const SAMPLE_EVERY: u32 = 4;

/// A share of one, in the mean.
const ONE: u32 = 1 << 20;

/// One check has one part in this many in the mean, once there were that many checks. If the page cache has a quarter
/// of the tables, the mean then strays by 4 %. That is well within the gap between [`FULL_PARTS`] and the share of a
/// full page cache. (With 128 the mean would stray by 10 %. A full page cache would be taken for one with room several
/// times a second, and turn over every ten seconds, for nothing.)
const SAMPLE_PART: u32 = 1024;

/// The page cache is full when it has this part of the room, because other files of the process have some room, too.
const FULL_PARTS: (u64, u64) = (7, 8);

/// A full page cache has room again when it has less than this part.
const ROOM_PARTS: (u64, u64) = (3, 4);

/// Memory is tight if all tables leave less than this part of the room.
const SLACK_PART: u64 = 16;

/// How much of the tables memory has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Room {
    /// All tables, or the room is not known.
    All,
    /// More of them than the page cache has.
    More,
    /// About as many bytes as the page cache has.
    Full,
}

/// See the module.
pub(in crate::table) struct PageCacheRoom {
    storage: Arc<dyn Storage>,
    reads: AtomicU32,
    /// The bytes there is room for; all bits set if that is not known.
    bytes: AtomicU64,
    /// The part of the tables that the page cache has, of [`ONE`].
    share: AtomicU32,
    /// The checks in `share`, up to [`SAMPLE_PART`].
    samples: AtomicU32,
    is_full: AtomicBool,
}

impl PageCacheRoom {
    pub(in crate::table) fn new(storage: &Arc<dyn Storage>) -> Self {
        PageCacheRoom {
            storage: Arc::clone(storage),
            reads: AtomicU32::new(0),
            bytes: AtomicU64::new(u64::MAX),
            share: AtomicU32::new(0),
            samples: AtomicU32::new(0),
            is_full: AtomicBool::new(false),
        }
    }

    /// Whether memory has room for all tables, which have `live_bytes`, as far as is known.
    #[inline]
    pub(in crate::table) fn has_all(&self, live_bytes: u64) -> bool {
        live_bytes <= self.bytes.load(Ordering::Relaxed)
    }

    /// Whether memory has room for all tables, which have `live_bytes`, and for little else. A block cache that grew
    /// would then evict pages of tables.
    #[inline]
    pub(in crate::table) fn is_tight(&self, live_bytes: u64) -> bool {
        let room = self.bytes.load(Ordering::Relaxed);
        live_bytes <= room && live_bytes > room - room / SLACK_PART
    }

    /// Counts reads, and asks for the room when it is time. Returns the number of reads before these.
    pub(in crate::table) fn count(&self, reads: u32) -> u32 {
        let before = self.reads.fetch_add(reads, Ordering::Relaxed);
        if before.wrapping_neg() % ASK_EVERY < reads {
            self.bytes.store(self.storage.file_room_bytes().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        before
    }

    /// Returns how much room there is for tables that have `live_bytes`. Counts a read. Given a random number,
    /// `is_cached` says whether a page of the read's table is in the page cache.
    pub(in crate::table) fn look(&self, live_bytes: u64, is_cached: impl FnOnce(u64) -> Option<bool>) -> Room {
        let read = self.count(1);
        if self.has_all(live_bytes) {
            return Room::All;
        }
        let room = self.bytes.load(Ordering::Relaxed);
        if read.is_multiple_of(SAMPLE_EVERY)
            && let Some(is_cached) = is_cached(scatter(read))
        {
            self.sample(is_cached);
        }
        let share = u128::from(self.share.load(Ordering::Relaxed));
        let cached = (u128::from(live_bytes) * share / u128::from(ONE)) as u64;
        let was_full = self.is_full.load(Ordering::Relaxed);
        let (part, of) = if was_full { ROOM_PARTS } else { FULL_PARTS };
        let is_full = cached >= room / of * part;
        if is_full != was_full {
            self.is_full.store(is_full, Ordering::Relaxed);
        }
        if is_full { Room::Full } else { Room::More }
    }

    /// Adds a check to the mean. The first checks count equally, so that the mean is right from the beginning.
    fn sample(&self, is_cached: bool) {
        let samples = (self.samples.load(Ordering::Relaxed) + 1).min(SAMPLE_PART);
        self.samples.store(samples, Ordering::Relaxed);
        let share = self.share.load(Ordering::Relaxed);
        let of_sample = if is_cached { ONE / samples } else { 0 };
        self.share.store(share - share / samples + of_sample, Ordering::Relaxed);
    }
}

/// A number that looks random: the finalizer of splitmix64.
fn scatter(number: u32) -> u64 {
    let mut hash = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::disk::{Disk, Memory};

    #[test]
    fn reads_fill_the_page_cache_up_to_its_room() {
        let disk = Disk::new(true);
        disk.file_room.store(800, Ordering::Relaxed);
        let storage: Arc<dyn Storage> = Arc::new(Memory(Arc::clone(&disk)));
        let room = PageCacheRoom::new(&storage);
        assert_eq!(room.look(800, |_| None), Room::All);
        assert_eq!(room.look(801, |_| None), Room::More);
        // Of 2000 bytes the page cache has a quarter, then a half: of 800 it may have 700.
        let look = |parts: u64| (0..20_000).fold(Room::All, |_, _| room.look(2000, |random| Some(random % 4 < parts)));
        assert_eq!(look(1), Room::More);
        assert_eq!(look(2), Room::Full);
        assert_eq!(look(1), Room::More);
        disk.file_room.store(2000, Ordering::Relaxed);
        assert_eq!(look(1), Room::All);
    }

    #[test]
    fn a_full_page_cache_stays_full_although_the_estimate_strays() {
        let disk = Disk::new(true);
        disk.file_room.store(800, Ordering::Relaxed);
        let storage: Arc<dyn Storage> = Arc::new(Memory(disk));
        let room = PageCacheRoom::new(&storage);
        // Of 2000 bytes the page cache has 770: less than its room of 800, as other files have some, too.
        let look = || room.look(2000, |random| Some(random % 2000 < 770));
        (0..20_000).for_each(|_| _ = look());
        assert!((0..1_000_000).all(|_| look() == Room::Full));
    }

    #[test]
    fn memory_is_tight_where_all_tables_just_fit() {
        let disk = Disk::new(true);
        disk.file_room.store(1600, Ordering::Relaxed);
        let storage: Arc<dyn Storage> = Arc::new(Memory(disk));
        let room = PageCacheRoom::new(&storage);
        assert!(!room.is_tight(1600), "not asked yet");
        room.count(1);
        let is_tight = [1500, 1501, 1600, 1601].map(|live_bytes| room.is_tight(live_bytes));
        assert_eq!(is_tight, [false, true, true, false]);
    }

    #[test]
    fn where_the_room_is_not_known_all_fits() {
        let storage: Arc<dyn Storage> = Arc::new(Memory(Disk::new(true)));
        assert_eq!(PageCacheRoom::new(&storage).look(u64::MAX, |_| Some(false)), Room::All);
    }
}
