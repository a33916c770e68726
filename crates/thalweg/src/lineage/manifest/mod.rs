//! The manifest: its bytes, and the files that hold them (`docs/format/manifest.md`).
//!
//! - `header`: the first bytes of a manifest.
//! - `fields`: fields that several kinds of record have.
//! - `change`: the bytes of an edit and its changes.
//! - `record`: what one record says, and its bytes.
//! - `fragments`: how records lie in the file; where damage begins.
//! - `current`: CURRENT, the file that names the manifest in force.
//! - `write`: writes a whole manifest and makes it the current one.
//! - `reader`: what a manifest says, from its bytes.
//! - `medium`: reads the manifest in force from the medium.
//! - `check`, `dump`: for `thalweg check` and `thalweg dump`.

mod change;
pub(super) mod check;
pub(super) mod current;
pub(super) mod dump;
pub(super) mod fields;
pub(super) mod fragments;
pub(super) mod header;
pub(super) mod medium;
pub(super) mod reader;
pub(super) mod record;
pub(super) mod write;
