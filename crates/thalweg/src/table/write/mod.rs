//! Writing a table.

pub(super) mod cache_handover;
pub(super) mod output;
pub(super) mod writer;
