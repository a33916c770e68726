//! Tests of the memtable, and the model that tests of cursors share with them.

#[cfg(not(loom))]
mod behaviour;
pub(crate) mod model;
