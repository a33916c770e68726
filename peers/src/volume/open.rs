//! [`open`]: a volume on an engine by name.

use super::{OrderedEngine, OrderedStore};
use std::path::Path;
use std::sync::Arc;
use thalweg_bench::engine::{Description, Thalweg};
use thalweg_bench::{Error, Result, Settings};
use thalweg_fs::{EngineStore, FolderObjects, FormatOptions, MetaStore, OpenOptions, SystemClock, Volume};

/// The engines that a volume can be on.
pub const STORES: &[&str] = &[
    "thalweg",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    #[cfg(feature = "leveldb")]
    "leveldb",
];

/// An open volume, and what its engine is.
pub struct Store {
    /// The volume.
    pub volume: Volume,
    /// The engine.
    pub description: Description,
    settle: Box<dyn Fn() -> Result<()> + Send + Sync>,
}

impl Store {
    /// Flushes memtables and waits until no compaction is due.
    ///
    /// # Errors
    /// The engine's.
    pub fn settle(&self) -> Result<()> {
        (self.settle)()
    }
}

/// Opens the volume in the folder `path` on the engine `store`, and makes it if the folder is empty.
///
/// # Errors
/// `Usage` for an unknown engine; `Engine` for what it refuses, also that its library cannot be loaded.
pub fn open(store: &str, path: &Path, settings: &Settings) -> Result<Store> {
    let database = path.join("db");
    std::fs::create_dir_all(&database).map_err(|error| Error::io(format!("make {}", database.display()), error))?;
    match store {
        "thalweg" => {
            let (database, description) = Thalweg::open_database(&database, settings)?;
            let store = EngineStore::new(database.clone()).map_err(|error| refused("open", &error))?;
            let settle = move || {
                let failed = |error: thalweg::Error| Error::engine("thalweg", "settle", error);
                database.flush().map_err(failed)?;
                database.tidy().map_err(failed)?;
                database.settle().map_err(failed)
            };
            Ok(Store { volume: volume(Box::new(store), path)?, description, settle: Box::new(settle) })
        }
        #[cfg(feature = "rocksdb")]
        "rocksdb" => {
            let (engine, description) = crate::rocksdb::open_rows(&database, settings)?;
            ordered(engine, description, path)
        }
        #[cfg(feature = "leveldb")]
        "leveldb" => {
            let (engine, description) = crate::leveldb::open_rows(&database, settings)?;
            ordered(engine, description, path)
        }
        _ => Err(Error::Usage(format!("no volume can be on {store}; choose from {}", STORES.join(", ")))),
    }
}

fn ordered(engine: impl OrderedEngine, description: Description, path: &Path) -> Result<Store> {
    let store = OrderedStore::new(engine).map_err(|error| refused("open", &error))?;
    let engine: Arc<dyn OrderedEngine> = store.engine();
    let name = description.name.clone();
    let settle = move || engine.settle().map_err(|error| Error::engine(&name, "settle", error));
    Ok(Store { volume: volume(Box::new(store), path)?, description, settle: Box::new(settle) })
}

fn volume(store: Box<dyn MetaStore>, path: &Path) -> Result<Volume> {
    let objects = FolderObjects::new(path.join("objects")).map_err(|error| refused("open", &error))?;
    match Volume::format_on(&*store, FormatOptions::default(), &SystemClock) {
        Err(error) if error.errno() != libc::EEXIST => return Err(refused("format", &error)),
        _ => {}
    }
    OpenOptions::new().open_on(store, Box::new(objects)).map_err(|error| refused("open", &error))
}

fn refused(operation: &'static str, error: &thalweg_fs::Error) -> Error {
    Error::engine("volume", operation, error)
}
