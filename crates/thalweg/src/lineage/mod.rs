//! Lineage: the set of live files, the edits that change it, the manifest, and recovery (`docs/durability.md`,
//! `docs/format/manifest.md`).
//!
//! A predecessor stays on its medium until everything that succeeds it is durable. An [`Edit`] changes the [`State`],
//! the set of live files. [`Lineage::install`] writes the edit to the manifest and makes readers use it; background
//! rounds settle it. [`Recovered::run`] finds the state again.
//!
//! Files, in reading order:
//! - `state`: the set of live files and what an edit means.
//! - `files`: names of manifests and tables.
//! - `manifest`: the bytes and files of the manifest.
//! - `recovery`: what an open finds.
//! - `log_and_tables`: the log and the tables, as lineage uses them.
//! - `book`: the data under the lock of an open lineage.
//! - `open`: the lineage of an open database, and its locks.
//! - `settle`: installs edits, makes them durable, settles them, replaces the manifest.
//! - `removal`: drops the handles and removes the files of replaced tables.
//! - `close`: waits until edits are settled; the clean close.
//! - `begin`: begins a lineage, and starts its coroutines.

mod begin;
mod book;
mod close;
mod files;
mod log_and_tables;
mod manifest;
mod open;
mod recovery;
mod removal;
mod settle;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use files::{FAST, Homes};
pub(crate) use manifest::check::check;
pub(crate) use manifest::dump::dump;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use manifest::reader::fuzz_manifest;
pub(crate) use manifest::write::write_checkpoint_manifest;
pub(crate) use open::{Lineage, Settling};
pub(crate) use recovery::Recovered;
pub(crate) use removal::retained::Handle;
pub use settle::backend::DurabilityBackend;
pub(crate) use settle::pressure::RETAINED_BYTES_MAX;
pub(crate) use state::edit::{Change, Edit, FastPlace};
pub(crate) use state::keyspace::KeyspaceState;
pub(crate) use state::live::State;
