//! Compactions that a caller asks for: [`Keyspace::compact_range`], [`DirectoryKeyspace::compact`].

use super::directory_keyspace::DirectoryKeyspace;
use super::key_bounds::{KeyBounds, key_range};
use super::keyspace::Keyspace;
use crate::error::Result;
use arc_swap::Guard;

impl Keyspace {
    /// Flushes, compacts the keys in `range` down to the last level that has any of them, and returns when that is
    /// done. Of the writes before the call, the range then has no tombstone, and no version that no snapshot sees.
    ///
    /// It is never needed: background compactions do what pays. It is for data that is read often and no longer
    /// written, and for the rest after a large part was removed. [`Database::settle`](crate::Database::settle) then
    /// removes the files. It reads and writes up to the whole range once for each level, and takes the tables of level
    /// 0 as a whole. Writes go on meanwhile; large jobs are cut by key range, and all compaction threads take part
    /// (PMB-16). Several calls may run at once.
    ///
    /// ```
    /// # fn main() -> thalweg::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("thalweg-doc-compact-{}", std::process::id()));
    /// # let db = thalweg::Database::open(&dir)?;
    /// let readings = db.keyspace("readings")?;
    /// for hour in 0..48_u32 {
    ///     readings.insert(hour.to_be_bytes(), "1233 mm")?;
    /// }
    /// for hour in 0..24_u32 {
    ///     readings.remove(hour.to_be_bytes())?;
    /// }
    /// readings.compact_range(..24_u32.to_be_bytes())?;
    /// let levels = &db.statistics().keyspaces[0].levels;
    /// assert_eq!(levels.iter().map(|level| level.entries).sum::<u64>(), 24);
    /// # db.close()?; let _ = std::fs::remove_dir_all(dir);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error that keeps a flush or a compaction from being done; the background tries it again later. `NoKeyspace`
    /// after a drop; `Poisoned`, `Closed`.
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        let ordered = Guard::into_inner(self.ordered()?);
        match key_range(&range) {
            Some(range) => self.engine().writable()?.compact_range(&ordered, range)?,
            None => return Ok(()),
        }
        self.ordered().map(drop)
    }
}

impl DirectoryKeyspace {
    /// As [`Keyspace::compact_range`] of all entries: afterwards all entries of a directory lie together.
    ///
    /// # Errors
    /// As for [`Keyspace::compact_range`].
    pub fn compact(&self) -> Result<()> {
        self.inner().compact_range(..)
    }
}
