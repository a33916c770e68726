//! [`FHashStatistics`]: the counters of the f-hashes of a keyspace, and their size.

/// The f-hashes of a directory keyspace ([`crate::DirectoryStructures::Paper`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FHashStatistics {
    /// Directories that have an f-hash.
    pub f_hashes: u64,
    /// F-hashes that cannot be used, because of an error or too many equal hashes.
    pub lost: u64,
    /// Bytes of memory, those in the f-cache included.
    pub memory_bytes: u64,
    /// Bytes in the f-cache.
    pub cached_bytes: u64,
    /// Bytes of f-hashes in the scratch file.
    pub scratch_bytes: u64,
    /// Lookups since the open.
    pub lookups: u64,
    /// Lookups that found their page in the f-cache.
    pub hits: u64,
    /// Pages of 4 KiB that were read from the file, by lookups, flushes and merges.
    pub reads: u64,
    /// F-hashes that were read because they share a page with another.
    pub prefetched: u64,
    /// Pages of 4 KiB that were written to the file.
    pub writes: u64,
}
