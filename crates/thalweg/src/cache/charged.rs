//! [`Charged`]: what is charged to a cache.

/// Whose memory it is that blocks make room for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Charged {
    /// The memory of a database outside its blocks. It counts if the cache has a budget for all of it.
    Others,
    /// Blocks that will be cached.
    ComingBlocks,
}
