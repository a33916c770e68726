//! [`PointKey`]: the key of a point read, with the values that tables derive from it; and [`BlockNumber`], the block
//! that it leads to.

use super::fence::Fence;
use crate::format::SeqNo;
use crate::table::format::filter;

/// The key of a point read. Hash and fence are computed once per read, not once per table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointKey<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(super) hash: u64,
    pub(super) fence: Fence,
}

impl<'a> PointKey<'a> {
    /// Returns the key of a read of the newest version of `key` at or below `seq`.
    pub(crate) fn new(key: &'a [u8], seq: SeqNo) -> Self {
        PointKey { key, seq, hash: filter::hash(key), fence: Fence::new(key) }
    }

    /// Returns the hash of the key, by which filters know it.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// The number of the only data block of a table that may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockNumber(pub(super) usize);
