//! Foreground reads of tables.

pub(super) mod batch;
pub(super) mod cursor;
mod fence;
pub(super) mod file;
pub(super) mod open_table;
mod read_ahead;
pub(super) mod table;
