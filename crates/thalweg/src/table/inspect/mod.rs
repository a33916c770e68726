//! Reads of whole table files, outside the reads of a running database.
//!
//! - `verify`: verification against the manifest, for recovery
//! - `check`: checks everything in a table, for `thalweg check`
//! - `dump`: prints a table, for `thalweg dump`
//! - `fuzz`, `fuzz_pack`: entry points for fuzzers

pub(super) mod check;
pub(super) mod dump;
#[cfg(any(test, feature = "simulation"))]
pub(super) mod fuzz;
#[cfg(feature = "simulation")]
pub(super) mod fuzz_pack;
pub(super) mod verify;
