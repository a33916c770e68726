//! [`Space`]: what room the file system of a database has, and how much of it is spoken for.
//!
//! A database that fills its disk to the last block could not free anything: removals must be logged, memtables
//! flushed, and compactions write before they remove. So *room* is what is free beyond what that takes. Whoever knows
//! what is spoken for tells with [`Space::look`]; from then on memtables and log segments are small in proportion to
//! the room that is left, and puts are refused when there is none. What is spoken for:
//!
//! - the memtables that are not flushed, which become tables before their log goes;
//! - the tables of level 0, which are written once more before they go;
//! - a few tables and some log ([`Space::kept_bytes`]): the compactions that free space go on in steps of this size.
//!
//! Memtables do not become arbitrarily small: each may have every table below it written anew.
//!
//! For what others take from the same disk there is the [`Reserve`], a file that is given up when a write finds no
//! room.

use super::reserve::Reserve;
use crate::storage::Storage;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A memtable or log segment may take this part of the room.
const PART: u64 = 4;

/// A database is *short* of space when it has room for fewer memtables than this.
const MEMTABLES_FEW: u64 = 8;

/// A table may take this part of a file system: compactions need room for a few.
const CAPACITY_PART: u64 = 64;

/// Tables that there is room for when puts are refused.
const TABLES_KEPT: u64 = 4;

/// A memtable is not sealed before it has this part of a table.
const MEMTABLE_PART: u64 = 2;

/// Log for removals while nothing else may be written.
const LOG_BYTES: u64 = 512 << 10;

/// See the module.
pub(crate) struct Space {
    storage: Arc<dyn Storage>,
    root: PathBuf,
    memtable_bytes: u64,
    table_bytes: u64,
    reserve: Reserve,
    /// The room at the last look, or `u64::MAX` where nobody knows.
    room: AtomicU64,
    /// Asked with every write.
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
    /// Of the database in `root`, with these options: a memtable and a table have at most so many bytes.
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

    /// Bytes of a table: no more than a small file system has room for several times.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// What is left free for the compactions that free space, and for the log of removals.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let log = LOG_BYTES.min(self.memtable_bytes.saturating_mul(MEMTABLES_FEW));
        self.table_bytes.saturating_mul(TABLES_KEPT).saturating_add(log)
    }

    /// Bytes that can be written to the file system; `None` where nobody knows.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.storage.free_bytes(&self.root)
    }

    /// Looks how much room there is when `spoken_for` bytes are, beside [`Space::kept_bytes`].
    pub(crate) fn look(&self, spoken_for: u64) -> Room {
        let Some(free) = self.free_bytes() else { return Room { bytes: u64::MAX, for_removals: true } };
        let room = free.saturating_sub(spoken_for).saturating_sub(self.kept_bytes());
        self.room.store(room, Ordering::Relaxed);
        self.is_short.store(room < self.memtable_bytes.saturating_mul(MEMTABLES_FEW), Ordering::Relaxed);
        self.is_full.store(room == 0, Ordering::Relaxed);
        // Compactions keep the other half.
        Room { bytes: room, for_removals: free > self.kept_bytes() / 2 }
    }

    /// Whether there was little room at the last look.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Whether there was none.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The bytes at which a memtable is sealed: `most`, or less where room is short.
    pub(crate) fn memtable_bytes(&self, most: usize) -> usize {
        if !self.is_short() {
            return most;
        }
        let part = usize::try_from(self.part(most as u64)).unwrap_or(most);
        let least = usize::try_from(self.table_bytes / MEMTABLE_PART).unwrap_or(most);
        part.max(least.min(most))
    }

    /// The bytes of a new log segment of at most `most`, where room is short.
    pub(crate) fn segment_bytes(&self, most: u32) -> u32 {
        if !self.is_short() {
            return most;
        }
        u32::try_from(self.part(u64::from(most))).unwrap_or(most)
    }

    fn part(&self, most: u64) -> u64 {
        (self.room.load(Ordering::Relaxed) / PART).min(most)
    }

    /// Gives the reserve up, because a write found no room. Whether that may have made some.
    pub(crate) fn give_up_reserve(&self) -> bool {
        self.reserve.give_up(&*self.storage)
    }

    /// Makes the reserve as large as a database with `live_bytes` of tables should have, where there is room.
    pub(crate) fn replenish_reserve(&self, live_bytes: u64) {
        self.reserve.replenish(&*self.storage, live_bytes, self.free_bytes());
    }
}

/// What a look at the space found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that may still be written. 0: puts are refused.
    pub(crate) bytes: u64,
    /// Whether removals may go on.
    pub(crate) for_removals: bool,
}

/// The bytes of a table on the file system of `root`, which may not be there yet.
fn table_bytes_on(storage: &dyn Storage, root: &Path, table_bytes: u64) -> u64 {
    let capacity = storage.capacity_bytes(root).unwrap_or(u64::MAX);
    table_bytes.min((capacity / CAPACITY_PART).max(TABLE_BYTES_MIN))
}

/// Smaller tables would be too many files.
const TABLE_BYTES_MIN: u64 = 256 << 10;
