//! Sequential reads of tables, for compactions.

mod chunks;
pub(super) mod table_scan;
