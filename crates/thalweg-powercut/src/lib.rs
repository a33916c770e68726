//! Power cuts on real file systems and whole machines: the library of the programs of `tests/powercut`.
//!
//! `powercut-writer` writes a workload that its seed decides and reports each promise that the engine made;
//! `powercut-checker` judges what a power cut left; `powercut-disk` is a disk with a volatile cache, which it loses;
//! `powercut-full` fills a disk.
//!
//! In reading order: `random` and `options` follow from a seed; `workload` is what is written, by the `writer`;
//! `judge` finds the prefix that a state is, for the `checker`; `disk` and `full` are the programs' of those names.
//! Nothing here knows how the engine makes things durable: a new back-end needs a row in [`options::BACKENDS`].

pub mod checker;
pub mod disk;
pub mod full;
pub mod judge;
pub mod options;
pub mod random;
pub mod workload;
pub mod writer;
