//! Memory: where buffers come from, and where they go when nothing references them.
//!
//! - `pages`: a block of 2 MiB on a huge page
//! - `spans`: memory for the blocks of caches, cut from such pages
//! - `buffer`: shared bytes, of the allocator or of the spans
//! - `region`: memory for the tables of a fast tier

mod buffer;
mod pages;
mod region;
mod spans;

pub(crate) use buffer::Buffer;
pub(crate) use pages::{PAGES_BYTES, Pages};
pub(crate) use region::{NewPiece, Region};
