//! The disk seam: the only way to files, in production and in simulation.
//!
//! Calls are direct and blocking. Background coroutines go through [`crate::runtime::BackgroundFile`], which hands the
//! calls to the kernel where it can and otherwise yields around each.
//!
//! A write is *unsynced* until a sync that was issued after it returned `Ok`. A new, renamed or removed name is
//! unsynced until its directory was synced. A failed sync may have dropped the data that it covered (Linux marks the
//! pages clean), so it must not be retried.
//!
//! Every error names its path. A full disk or quota is [`crate::Error::NoSpace`].
//!
//! Files, in reading order:
//! - `seam.rs`, `file.rs`, `mapping.rs`: the traits [`Storage`], [`File`], [`Mapping`], [`ReadMapping`];
//!   `sync_in_flight.rs`: a sync that no thread waits for;
//! - `buffer.rs`: aligned memory for direct I/O;
//! - `linux/`: the operating system's files;
//! - `descriptors.rs`, `metered.rs`: decorators, which bound the open descriptors and count syncs;
//! - `simulated/`: a disk in memory that fails and crashes from a seed.
//!
//! A *decorator* implements `inner`, the methods without a default, and those that it changes. Every other call goes to
//! the decorated storage, so a method that is added to a trait cannot be forgotten in a decorator.

mod buffer;
mod descriptors;
mod file;
mod linux;
mod mapping;
mod metered;
mod seam;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
mod sync_in_flight;
#[cfg(test)]
mod tests;

pub(crate) use buffer::{ALIGNMENT, BufferPool, IoBuffer};
pub(crate) use descriptors::frugal;
pub use file::File;
pub use linux::LinuxStorage;
pub use mapping::{Mapping, ReadMapping};
pub(crate) use metered::metered;
pub use seam::{DirectoryEntry, OpenMode, Storage, StorageLock};
#[cfg(feature = "simulation")]
pub use sync_in_flight::SyncInFlight;
