//! Reading a table file as a whole: verification, `thalweg check`, `thalweg dump`, fuzzing.

pub(super) mod dump;
#[cfg(any(test, feature = "simulation"))]
pub(super) mod fuzz;
pub(super) mod verify;
