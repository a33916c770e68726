//! Blocks, extents and contents hold what was put in, and any damage to them is found. A fixed pack has fixed bytes.
//! Blocks lie within pages. A page in the cache is verified block by block.

mod blocks;
mod contents;
mod golden;
mod pages;
mod verified;

use super::{Format, Place};
use crate::format::TableId;
use std::path::Path;

/// The directory of blocks.
const DIRECTORY: u64 = 5;

fn place(offset: u64) -> Place<'static> {
    Place { path: Path::new("a.table"), pack: TableId(7), offset, format: Format::Two }
}
