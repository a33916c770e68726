//! The atomics of the arena and the list: the standard library's, or loom's models of them.

#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
