//! [`durability`], [`refused`]: what the benchmark says, in Thalweg's words, and the other way round.

use crate::error::Error;
use thalweg::Durability;

/// When a write returns.
pub(super) fn durability(sync: bool) -> Durability {
    if sync { Durability::Sync } else { Durability::Buffered }
}

/// The error of an operation.
pub(super) fn refused(operation: &'static str, error: thalweg::Error) -> Error {
    Error::engine("thalweg", operation, error)
}
