//! [`Warmth`]: how often a block is read, as far as the cache knows.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Warmth {
    /// The block is not cached, or was not hit since it came.
    Cold,
    /// The block was hit once, and is still cached.
    Warm,
    /// The block was hit since its most recent turn in a queue.
    Hot,
}
