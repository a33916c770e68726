//! The set of live files, and the edits that change it. Pure.
//!
//! - `edit`: an edit and its changes.
//! - `keyspace`: the partitions of a keyspace; splits and merges of them.
//! - `live`: the set of live files after some edit.
//! - `undo`: how to return to the state before an edit.
//! - `apply`: what an edit means.

pub(super) mod apply;
pub(super) mod edit;
pub(super) mod keyspace;
pub(super) mod live;
pub(super) mod undo;
