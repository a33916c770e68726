//! [`Charged`]: the kinds of memory that are charged to a cache.

/// The memory that blocks make room for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Charged {
    /// The memory of a database outside its blocks. It counts if the cache has a budget for all of the database's
    /// memory.
    Others,
    /// Blocks that will be cached.
    ComingBlocks,
}
