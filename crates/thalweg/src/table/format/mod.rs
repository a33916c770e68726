//! The bytes of a table file (`docs/format/table.md`): encoding and decoding, no I/O.
//!
//! - `damage`: what is wrong inside a block
//! - `block/`: blocks and their entries
//! - `filter`: the Bloom filter
//! - `prefix_tree`: finds a key's place among sorted keys
//! - `index`: the place and the last key of each data block
//! - `footer`: the places of the other blocks
//! - `properties`: counts over a table

pub(super) mod block;
pub(super) mod damage;
pub(super) mod filter;
pub(super) mod footer;
pub(super) mod index;
mod prefix_tree;
pub(super) mod properties;
