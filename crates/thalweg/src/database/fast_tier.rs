//! [`FastTier`]: what a caller asks for.

use std::path::{Path, PathBuf};

/// The fast tier may pin this many times its capacity of the log,
const LOG_TIMES: u64 = 3;

/// and at least this many segments.
const SEGMENTS_MIN: u64 = 4;

/// Where level 0 of ordered keyspaces is kept before it is written to files; `docs/fast-tier.md` says when that pays.
///
/// ```
/// use thalweg::{Database, FastTier};
/// # let directory = std::env::temp_dir().join(format!("thalweg-tier-{}", std::process::id()));
/// let database = Database::builder(&directory).fast_tier(FastTier::Memory, 256 << 20).open()?;
/// # drop(database);
/// # std::fs::remove_dir_all(&directory).ok();
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FastTier {
    /// In plain memory. The log keeps what is there until it is evicted, so nothing depends on it.
    Memory,
    /// In files in this directory, which should be on a faster device than the database: also in persistent memory, by
    /// a file system that is mounted for direct access (`docs/persistent-tier.md`). One that is not there is created,
    /// with its parents.
    ///
    /// The directory belongs to this database alone, and **the database is lost with it**. A copy of the database's own
    /// directory is incomplete without it; a checkpoint has all. Opened without a fast tier, the database empties the
    /// directory, to be used without it afterwards. A directory that the database has its tables in and that is gone is
    /// refused, and so is one of another database, one within `tables` or `log` of this one, one kept in memory
    /// (`tmpfs`), and one with too little room.
    Directory(PathBuf),
}

/// The fast tier that a builder asks for.
#[derive(Clone, Debug)]
pub(super) struct FastTierOptions {
    pub(super) medium: FastTier,
    pub(super) capacity_bytes: u64,
}

impl FastTierOptions {
    /// Bytes of the log that the tier may pin, if that was not set. Each byte in the tier was a byte of the log; so
    /// were older versions that an internal compaction has dropped, and what lies between and is in tables.
    pub(super) fn log_bytes_max(&self, segment_bytes: u32) -> u64 {
        let least = SEGMENTS_MIN * u64::from(segment_bytes);
        self.capacity_bytes.saturating_mul(LOG_TIMES).max(least)
    }

    /// The directory, and the bytes that it is to hold.
    pub(super) fn directory(&self) -> Option<(&Path, u64)> {
        match &self.medium {
            FastTier::Memory => None,
            FastTier::Directory(path) => Some((path, self.capacity_bytes)),
        }
    }
}
