//! How edits are installed, become durable, and are settled (`docs/durability.md`).
//!
//! - `ledger`: which edits are durable and which are settled. Pure.
//! - `backend`: the ways to make outputs durable.
//! - `append`: appends records to the manifest and syncs it.
//! - `install`: installs an edit.
//! - `pressure`: why edits should be settled before the interval is over.
//! - `round`: makes many edits durable together.
//! - `rotate`: replaces a manifest that has grown long.
//! - `settler`: the coroutine that runs rounds and rotations.
//! - `planted`: what some planted bugs do.

mod append;
pub(super) mod backend;
mod install;
pub(super) mod ledger;
mod planted;
pub(super) mod pressure;
mod rotate;
mod round;
pub(super) mod settler;
