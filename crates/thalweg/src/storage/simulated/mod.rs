//! [`SimulatedDisk`]: a disk in memory that loses, tears, reorders, corrupts and refuses, repeatably from a seed.
//!
//! It keeps *live* state (in the page cache) apart from *durable* state (on the medium): per 4 KiB page of a file, per
//! file length and per directory entry. A sync of a file makes its pages and length durable and nothing else. A sync of
//! a directory makes its names durable. [`SimulatedDisk::background_writeback`] lets the kernel write something back by
//! itself. [`SimulatedDisk::crash`] ends a run and gives the disk that the next run finds.
//!
//! A failed sync leaves *phantoms*: pages that are clean in the cache and missing on the medium, which no later sync
//! writes (as on Linux). A write-back that fails when it is begun, or that the kernel loses by itself
//! (`SimulatedDisk::lose_writeback`), leaves phantoms or holes that no sync reports. Reads with
//! [`super::OpenMode::ReadMedium`] see phantoms, and writing them again heals them.
//!
//! The same seed and the same calls, in the same order, give the same answers and the same bytes. Each disk has one
//! mutex, held for one call at a time and never while calling out.
//!
//! Files, in reading order:
//! - `disk.rs`: [`SimulatedDisk`], with its crashes and faults; `storage.rs`: its calls as a storage;
//! - `file.rs`, `mapping.rs`: handles and mappings; `opened.rs`: the open file description that they share;
//! - `fault.rs`: which operation fails; `crash.rs`: what a crash leaves;
//! - `state.rs`: the state behind the mutex: handles, locks, faults;
//! - `image.rs`: the file system; `inode.rs`: the bytes of one file; `random.rs`: the random numbers.

mod crash;
mod disk;
mod fault;
mod file;
mod image;
mod inode;
mod mapping;
mod opened;
mod random;
mod state;
mod storage;
#[cfg(test)]
mod tests;

pub use crash::Strictness;
pub use disk::SimulatedDisk;
pub use fault::{FaultPlan, OperationKinds};
