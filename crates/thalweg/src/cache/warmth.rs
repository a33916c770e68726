//! [`Warmth`]: how often a block is read, as far as the cache knows.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Warmth {
    /// The block is not cached, or it is in the small queue and was not hit.
    Cold,
    /// The block is in the main queue, and has no hits that turns have not used up.
    Warm,
    /// The block has hits that turns in a queue have not used up.
    Hot,
}
