//! Sequential reads of tables, for compactions.
//!
//! - `chunks`: the data of a table, read from front to back, one chunk ahead
//! - `table_scan`: the entries of a table, in order

pub(in crate::table) mod chunks;
pub(super) mod table_scan;
