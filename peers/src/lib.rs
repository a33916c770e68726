//! Other engines behind the traits of `thalweg-bench`, each behind a feature of its own.
//!
//! `rocksdb` and `leveldb` load a shared library when a database is opened; `fjall` and `lmdb` are compiled in. `syncs`
//! takes the place of the C library's syncs, so that the syncs of every peer are counted the same way.
//!
//! `volume` has the file system of `thalweg-fs` on these engines; `figure14` measures it.
//!
//! What an engine lacks it refuses, or names in its description; nothing is emulated.

mod description_builder;
pub mod figure14;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "leveldb")]
pub mod leveldb;
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
mod library;
#[cfg(feature = "lmdb")]
pub mod lmdb;
mod partitions;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod syncs;
pub mod volume;

use thalweg_bench::engine::{Factory, Null, Thalweg};
use thalweg_bench::process::Host;

/// Every engine that was compiled in.
pub const FACTORIES: &[&dyn Factory] = &[
    &Thalweg,
    &Null,
    #[cfg(feature = "rocksdb")]
    &rocksdb::RocksDb,
    #[cfg(feature = "leveldb")]
    &leveldb::LevelDb,
    #[cfg(feature = "fjall")]
    &fjall::Fjall,
    #[cfg(feature = "lmdb")]
    &lmdb::Lmdb,
];

/// The program `thalweg-peers`, as the instrument sees it.
pub const HOST: Host = Host {
    command: "thalweg-peers",
    worker: &["worker"],
    factories: FACTORIES,
    engines: if cfg!(feature = "rocksdb") { &["thalweg", "rocksdb"] } else { &["thalweg"] },
};
