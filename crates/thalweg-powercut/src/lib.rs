//! Power cuts on real file systems and whole machines: what the programs of `tests/powercut` are made of.
//!
//! `powercut-writer` writes a workload that its seed decides and reports each promise that the engine made;
//! `powercut-checker` judges what a power cut left; `powercut-disk` is a disk with a volatile cache, which forgets;
//! `powercut-full` fills a disk.
//! Nothing here knows how the engine makes things durable: a new back-end needs a row in [`options::BACKENDS`].

pub mod checker;
pub mod disk;
pub mod full;
pub mod judge;
pub mod options;
pub mod random;
pub mod workload;
pub mod writer;
