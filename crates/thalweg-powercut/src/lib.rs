//! Power cuts on real file systems and whole machines: the library of the programs of `tests/powercut`.
//!
//! `powercut-writer` writes a workload that its seed determines, and reports each promise of the engine;
//! `powercut-checker` judges the database after a power cut; `powercut-disk` is a disk that loses its volatile cache;
//! `powercut-full` fills a disk.
//!
//! In reading order: `random` and `options` follow from a seed; `workload` has the writes, which the `writer` makes;
//! `judge` finds the prefix that a state holds, for the `checker`; `disk` and `full` belong to the programs of these
//! names. Nothing here depends on how the engine makes data durable: a new back-end needs a row in
//! [`options::BACKENDS`].

pub mod checker;
pub mod disk;
pub mod full;
pub mod judge;
pub mod options;
pub mod random;
pub mod workload;
pub mod writer;
