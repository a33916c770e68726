//! Blocks, extents and contents hold what was put in, and any damage to them is found. A fixed pack has fixed bytes.
//! Blocks lie within pages.

mod blocks;
mod contents;
mod golden;
mod pages;

use super::Place;
use crate::format::TableId;
use std::path::Path;

fn place(offset: u64) -> Place<'static> {
    Place { path: Path::new("a.table"), pack: TableId(7), offset }
}
