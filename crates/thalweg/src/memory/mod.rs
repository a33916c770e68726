//! Memory: where buffers come from, and where they go when nothing references them.
//!
//! - `pages`: a block of 2 MiB on a huge page
//! - `spans`: memory for the blocks of caches, cut from such pages
//! - `runs`: memory for chunks of memtables and buffers of I/O, cut from such pages
//! - `buffer`: shared bytes, of the allocator, the spans or the runs
//! - `region`: memory for the tables of a fast tier

mod buffer;
mod pages;
mod region;
mod runs;
mod spans;

pub(crate) use buffer::Buffer;
pub(crate) use pages::{PAGES_BYTES, Pages};
pub(crate) use region::{NewPiece, Region};
pub(crate) use runs::{RunPlace, give as give_run, rest as rest_runs, take as take_run};
