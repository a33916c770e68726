//! Foreground reads of tables: `get`, `multi_get` and ranges.
//!
//! - `file`: an open table file
//! - `file_reads`: the way each read of a file takes
//! - `open_table`: an open table
//! - `read_ahead`: blocks that a cursor reads before it reaches them
//! - `fence`: the first bytes of a key
//! - `table`: the handle of a table, and its blocks
//! - `point_key`: the key of a point read
//! - `batch`: blocks of several tables read at once
//! - `point`: point reads
//! - `cursor`: a position in a table

pub(super) mod batch;
pub(super) mod cursor;
mod fence;
pub(super) mod file;
pub(super) mod file_reads;
pub(super) mod open_table;
mod point;
pub(super) mod point_key;
mod read_ahead;
pub(super) mod table;
