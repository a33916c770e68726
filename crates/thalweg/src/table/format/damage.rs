//! [`Damage`]: what is wrong inside a block. The caller knows the file and the offset of the block, and makes the
//! error.

use crate::error::Error;
use std::path::Path;

/// A fault in the content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The offset in the uncompressed block.
    pub(in crate::table) at: usize,
    pub(in crate::table) expected: String,
    pub(in crate::table) found: String,
}

impl Damage {
    pub(in crate::table) fn new(at: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Damage { at, expected: expected.into(), found: found.into() }
    }

    /// Returns the error for the block at `offset` of `path`.
    pub(in crate::table) fn in_block(self, path: &Path, offset: u64) -> Error {
        Error::corruption(path, offset, format!("{} at byte {} of the block", self.expected, self.at), self.found)
    }
}
