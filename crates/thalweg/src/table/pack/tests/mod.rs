//! Blocks, extents and contents hold what was put in, and any damage to them is found. A fixed pack has fixed bytes.

mod blocks;
mod contents;
mod golden;

use super::Place;
use crate::format::TableId;
use std::path::Path;

fn place(offset: u64) -> Place<'static> {
    Place { path: Path::new("a.table"), pack: TableId(7), offset }
}
