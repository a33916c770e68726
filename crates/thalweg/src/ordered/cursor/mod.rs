//! Cursors over the memtables and tables of a partition: merged, concatenated, cut down to what a reader may see.
//!
//! In reading order: `bounds` (which keys of a range are wanted), `child` (one input of a merge), `level`, `merging`,
//! `visible`, `range`.
//!
//! Bottom up: a [`LevelCursor`] walks the disjoint tables of one level; a [`MergingCursor`] walks memtables, level 0
//! and levels as one sorted sequence of internal entries; a [`VisibleCursor`] gives of that sequence the user's
//! entries at a snapshot, within [`Bounds`]; a [`DoubleEnded`] walks a range from both ends.

mod bounds;
mod child;
mod level;
mod merging;
mod range;
#[cfg(test)]
mod tests;
mod visible;

pub(crate) use bounds::Bounds;
pub(crate) use child::Child;
pub(crate) use level::{LevelCursor, LevelTables, Source};
pub(crate) use merging::MergingCursor;
pub(crate) use range::{DoubleEnded, Open};
