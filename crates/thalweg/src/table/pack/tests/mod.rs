//! Blocks, extents and contents hold what was put in, and any damage to them is found.

mod blocks;
mod contents;

use super::Place;
use crate::format::TableId;
use std::path::Path;

fn place(offset: u64) -> Place<'static> {
    Place { path: Path::new("a.table"), pack: TableId(7), offset }
}
