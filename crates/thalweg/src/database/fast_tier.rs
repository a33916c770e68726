//! [`FastTier`]: the fast tier that a caller asks for.

use std::path::{Path, PathBuf};

/// The fast tier may pin log of this many times its capacity.
const LOG_TIMES: u64 = 3;

/// The fast tier may pin at least this many segments of the log.
const SEGMENTS_MIN: u64 = 4;

/// The medium of a fast tier, which keeps level 0 of ordered keyspaces before it goes to the disk. `docs/fast-tier.md`
/// says when that pays.
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
    /// Plain memory. The log keeps the records of the tier until they are evicted, so no durability depends on it.
    Memory,
    /// Files in this directory, which should be on a faster device than the database. It may be persistent memory, by a
    /// file system that is mounted for direct access (`docs/persistent-tier.md`). A missing directory is created, with
    /// its parents.
    ///
    /// The directory belongs to this database alone, and **the database is lost with it**. A copy of the database's own
    /// directory is incomplete without it; a checkpoint has everything. An open without a fast tier empties the
    /// directory; after that the database needs it no more. An open refuses a directory that had tables of the database
    /// and is gone, one of another database, one within `tables` or `log` of this one, one in memory (`tmpfs`), and one
    /// with too little room.
    Directory(PathBuf),
}

/// The fast tier that a builder asks for.
#[derive(Clone, Debug)]
pub(super) struct FastTierOptions {
    pub(super) medium: FastTier,
    pub(super) capacity_bytes: u64,
}

impl FastTierOptions {
    /// Bytes of the log that the tier may pin, if that was not set. Each byte in the tier was a byte of the log. The
    /// log also has the older versions that internal compactions have dropped, and records in between that are in
    /// tables.
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
