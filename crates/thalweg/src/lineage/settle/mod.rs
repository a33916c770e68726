//! How edits become durable, and settled.

pub(super) mod backend;
pub(super) mod install;
pub(super) mod ledger;
pub(super) mod rotate;
pub(super) mod round;
pub(super) mod settler;
