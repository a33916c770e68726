//! [`open_rows`]: the rows of a file system in one column family of RocksDB.

use super::native::{Database, RowDatabase};
use super::{NAME, configure, load, refused, version};
use crate::volume::{Change, OrderedEngine, OrderedReader};
use std::path::Path;
use thalweg_bench::engine::Description;
use thalweg_bench::{Compression, Result, Settings};

/// Opens the database in `path` for the rows of a file system, and creates it if it is missing.
///
/// # Errors
/// `Engine`: its library cannot be loaded, or it refuses.
pub fn open_rows(path: &Path, settings: &Settings) -> Result<(impl OrderedEngine + use<>, Description)> {
    let library = load()?;
    let (options, description) = configure(&settings.alike(Some(Compression::Lz4)));
    let database = Database::open(library, path, &options, 1).map_err(|error| refused("open", error))?;
    let description = description.build(NAME, version(path).unwrap_or_else(|| "unknown".to_owned()));
    Ok((RowDatabase::new(database), description))
}

impl OrderedEngine for RowDatabase {
    fn snapshot(&self) -> Box<dyn OrderedReader + '_> {
        Box::new(RowDatabase::snapshot(self))
    }

    fn write(&self, changes: &[Change<'_>]) -> std::result::Result<(), String> {
        RowDatabase::write(self, changes, false)
    }

    fn sync(&self) -> std::result::Result<(), String> {
        self.database().sync_log()
    }

    fn settle(&self) -> std::result::Result<(), String> {
        self.database().wait_for_compactions()
    }
}
