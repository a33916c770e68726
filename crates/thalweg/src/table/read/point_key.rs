//! [`PointKey`]: the key of a point read, with what tables derive from it; and [`BlockNumber`], where it leads.

use super::fence::Fence;
use crate::format::SeqNo;
use crate::table::format::filter;

/// The key of a point read. Hash and fence are computed once a read, not once a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointKey<'a> {
    pub(super) key: &'a [u8],
    pub(super) seq: SeqNo,
    pub(super) hash: u64,
    pub(super) fence: Fence,
}

impl<'a> PointKey<'a> {
    /// Looks for the newest version of `key` at or below `seq`.
    pub(crate) fn new(key: &'a [u8], seq: SeqNo) -> Self {
        PointKey { key, seq, hash: filter::hash(key), fence: Fence::new(key) }
    }
}

/// The number of the only data block of a table that may have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockNumber(pub(super) usize);
