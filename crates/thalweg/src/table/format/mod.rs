//! The bytes of a table file (`docs/format/table.md`): encoding and decoding, no I/O.

pub(super) mod block;
pub(super) mod damage;
pub(super) mod filter;
pub(super) mod footer;
pub(super) mod index;
mod prefix_tree;
pub(super) mod properties;
