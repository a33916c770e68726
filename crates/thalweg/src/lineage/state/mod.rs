//! The set of live files, and the edits that change it.

pub(super) mod apply;
pub(super) mod edit;
pub(super) mod keyspace;
