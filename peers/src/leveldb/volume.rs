//! [`open_rows`]: the rows of a file system in LevelDB, as `TableFS` has them.

use super::native::{Database, RowDatabase};
use super::{NAME, configure, load, refused, settle};
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
    let (options, description) = configure(&settings.alike(Some(Compression::Snappy)))?;
    let database = Database::open(library, path, &options).map_err(|error| refused("open", error))?;
    Ok((RowDatabase::new(database), description.build(NAME, library.version())))
}

impl OrderedEngine for RowDatabase {
    fn snapshot(&self) -> Box<dyn OrderedReader + '_> {
        Box::new(RowDatabase::snapshot(self))
    }

    fn write(&self, changes: &[Change<'_>]) -> std::result::Result<(), String> {
        RowDatabase::write(self, changes, false)
    }

    /// A synced write without changes. It leaves out an earlier log whose memtable is not flushed yet.
    fn sync(&self) -> std::result::Result<(), String> {
        RowDatabase::write(self, &[], true)
    }

    fn settle(&self) -> std::result::Result<(), String> {
        settle::settle(self.database())
    }
}
