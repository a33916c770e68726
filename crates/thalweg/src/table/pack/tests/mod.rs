//! Blocks, extents and contents hold what was put in, and any damage to them is found. A fixed pack has fixed bytes.
//! Blocks lie within pages. A page in the cache is verified block by block.

mod blocks;
mod contents;
mod golden;
mod pages;
mod verified;

use super::Place;
use crate::format::TableId;
use std::path::Path;

fn place(offset: u64) -> Place<'static> {
    Place { path: Path::new("a.table"), pack: TableId(7), offset }
}
