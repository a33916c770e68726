//! [`Damage`]: what is wrong inside a block, before it is known which file and offset the block came from.

use crate::error::Error;
use std::path::Path;

/// A fault in the content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Bytes from the start of the (uncompressed) block.
    pub(in crate::table) at: usize,
    pub(in crate::table) expected: String,
    pub(in crate::table) found: String,
}

impl Damage {
    pub(in crate::table) fn new(at: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Damage { at, expected: expected.into(), found: found.into() }
    }

    /// The error for the block at `offset` of `path`.
    pub(in crate::table) fn in_block(self, path: &Path, offset: u64) -> Error {
        Error::corruption(path, offset, format!("{} at byte {} of the block", self.expected, self.at), self.found)
    }
}
