//! [`SimulatedDisk`]: a disk in memory that loses, tears, reorders, corrupts and refuses, repeatably from a seed.
//!
//! It keeps apart what is *live* (in the page cache) from what is *durable* (on the medium), per 4 KiB page of a file,
//! per file length and per directory entry. A sync of a file makes its pages and length durable and nothing else; a
//! sync of a directory makes its names durable. [`SimulatedDisk::background_writeback`] lets the kernel write something
//! back by itself; [`SimulatedDisk::crash`] ends a run and gives the disk that the next one finds.
//!
//! A failed sync leaves *phantoms*: pages that are clean in the cache and not on the medium, which no later sync writes
//! (as Linux does). A write-back that fails when it is begun, or that the kernel loses by itself
//! (`SimulatedDisk::lose_writeback`), leaves phantoms or holes of which no sync tells. Phantoms are seen by reads with
//! [`super::OpenMode::ReadMedium`], and healed by writing them again.
//!
//! The same seed and the same calls, in the same order, give the same answers and the same bytes. One mutex a disk,
//! taken for one call at a time and never while calling out.

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
