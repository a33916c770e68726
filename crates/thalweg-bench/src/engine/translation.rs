//! [`durability`], [`refused`]: translate the benchmark's terms to Thalweg's, and Thalweg's errors to the benchmark's.

use crate::error::Error;
use thalweg::Durability;

/// Returns the durability of a write: with `sync`, the write returns when it is durable.
pub(super) fn durability(sync: bool) -> Durability {
    if sync { Durability::Sync } else { Durability::Buffered }
}

/// Converts the error of an operation.
pub(super) fn refused(operation: &'static str, error: thalweg::Error) -> Error {
    Error::engine("thalweg", operation, error)
}
