//! [`Space`]: how much space the file system of a database has, and how much of it is committed.
//!
//! A database that fills its disk to the last block could not free anything: removals must be logged, memtables
//! flushed, and compactions write before they remove. So the *room* is the free space minus what this work needs. The
//! caller of [`Space::look`] reports the committed bytes. From then on memtables and log segments are small in
//! proportion to the room, and puts are refused when there is none. These bytes are committed:
//!
//! - the memtables that are not flushed, which become tables before their log is released;
//! - the tables of level 0, which are written once more before they are removed;
//! - a few tables and some log ([`Space::kept_bytes`]): compactions that free space proceed in steps of this size.
//!
//! Memtables do not become arbitrarily small, because each flush may rewrite every table below it.
//!
//! Other programs may take space of the same disk. For that there is the [`Reserve`], a file that is removed when a
//! write finds no space.

use super::reserve::Reserve;
use crate::storage::Storage;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A memtable or log segment may use 1/`PART` of the room.
const PART: u64 = 4;

/// A database is *short* of space when its room is less than this number of memtables.
const MEMTABLES_FEW: u64 = 8;

/// A table has at most 1/`CAPACITY_PART` of the file system, because compactions need space for several.
const CAPACITY_PART: u64 = 64;

/// The number of tables for which space is kept while puts are refused.
const TABLES_KEPT: u64 = 4;

/// A memtable is not sealed before it has 1/`MEMTABLE_PART` of a table's bytes.
const MEMTABLE_PART: u64 = 2;

/// Bytes of log that are kept for removals while puts are refused.
const LOG_BYTES: u64 = 512 << 10;

/// The space of one database.
pub(crate) struct Space {
    storage: Arc<dyn Storage>,
    root: PathBuf,
    memtable_bytes: u64,
    table_bytes: u64,
    reserve: Reserve,
    /// The room at the last look, or `u64::MAX` where it is not known.
    room: AtomicU64,
    /// Whether the room is short. Every write reads this.
    is_short: AtomicBool,
    is_full: AtomicBool,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let room = self.room.load(Ordering::Relaxed);
        f.debug_struct("Space").field("root", &self.root).field("room", &room).finish_non_exhaustive()
    }
}

impl Space {
    /// The space of the database in `root`, whose memtables and tables have at most these bytes.
    pub(crate) fn new(storage: Arc<dyn Storage>, root: &Path, memtable_bytes: u64, table_bytes: u64) -> Arc<Space> {
        Arc::new(Space {
            reserve: Reserve::new(root),
            root: root.to_path_buf(),
            memtable_bytes,
            table_bytes: table_bytes_on(&*storage, root, table_bytes),
            storage,
            room: AtomicU64::new(u64::MAX),
            is_short: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
        })
    }

    /// The directory of the database.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The bytes of a table; fewer on a small file system, which must have space for several.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Bytes that are kept free for compactions that free space, and for the log of removals.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let log = LOG_BYTES.min(self.memtable_bytes.saturating_mul(MEMTABLES_FEW));
        self.table_bytes.saturating_mul(TABLES_KEPT).saturating_add(log)
    }

    /// Bytes that can be written to the file system; `None` where that is not known.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.storage.free_bytes(&self.root)
    }

    /// Reads the free space and updates the room, with `committed_bytes` besides [`Space::kept_bytes`].
    pub(crate) fn look(&self, committed_bytes: u64) -> Room {
        let Some(free) = self.free_bytes() else { return Room { bytes: u64::MAX, for_removals: true } };
        let room = free.saturating_sub(committed_bytes).saturating_sub(self.kept_bytes());
        self.room.store(room, Ordering::Relaxed);
        self.is_short.store(room < self.memtable_bytes.saturating_mul(MEMTABLES_FEW), Ordering::Relaxed);
        self.is_full.store(room == 0, Ordering::Relaxed);
        // The other half of the kept bytes is for compactions.
        Room { bytes: room, for_removals: free > self.kept_bytes() / 2 }
    }

    /// Whether the room was short at the last look.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Whether there was no room at the last look.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The bytes at which a memtable is sealed: `most`, or fewer where room is short.
    pub(crate) fn memtable_bytes(&self, most: usize) -> usize {
        if !self.is_short() {
            return most;
        }
        let part = usize::try_from(self.part(most as u64)).unwrap_or(most);
        let least = usize::try_from(self.table_bytes / MEMTABLE_PART).unwrap_or(most);
        part.max(least.min(most))
    }

    /// The bytes of a new log segment: `most`, or fewer where room is short.
    pub(crate) fn segment_bytes(&self, most: u32) -> u32 {
        if !self.is_short() {
            return most;
        }
        u32::try_from(self.part(u64::from(most))).unwrap_or(most)
    }

    /// The bytes of log segments that may be made ready ahead.
    pub(crate) fn log_ahead_bytes(&self) -> u64 {
        self.part(u64::MAX)
    }

    fn part(&self, most: u64) -> u64 {
        (self.room.load(Ordering::Relaxed) / PART).min(most)
    }

    /// Removes the reserve, because a write found no space. Returns whether that may have freed some.
    pub(crate) fn give_up_reserve(&self) -> bool {
        self.reserve.give_up(&*self.storage)
    }

    /// Makes or extends the reserve of a database with `live_bytes` of tables, where there is space.
    pub(crate) fn replenish_reserve(&self, live_bytes: u64) {
        self.reserve.replenish(&*self.storage, live_bytes, self.free_bytes());
    }
}

/// The result of [`Space::look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that may be written. 0: puts are refused.
    pub(crate) bytes: u64,
    /// Whether removals are accepted.
    pub(crate) for_removals: bool,
}

/// The bytes of a table on the file system of `root`, which may not exist yet.
fn table_bytes_on(storage: &dyn Storage, root: &Path, table_bytes: u64) -> u64 {
    let capacity = storage.capacity_bytes(root).unwrap_or(u64::MAX);
    table_bytes.min((capacity / CAPACITY_PART).max(TABLE_BYTES_MIN))
}

/// The smallest table on a small file system; smaller ones would be too many files.
const TABLE_BYTES_MIN: u64 = 256 << 10;
