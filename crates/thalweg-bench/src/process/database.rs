//! [`Database`]: the worker's database: emptied, opened, drained, measured, closed.
//!
//! The engine alone uses the subdirectory `database` of the task's directory. The file that warms memory lies beside
//! it, so that it is neither measured nor opened, and is always removed with the task's directory.

use super::Task;
use crate::engine::{Description, Engine, Factory};
use crate::error::{Error, Result};
use crate::machine;
use crate::plan::Step;
use crate::settings::Settings;
use crate::workload::Dataset;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// An engine's database, and the data loaded into it.
pub struct Database<'a> {
    task: &'a Task,
    factory: &'a dyn Factory,
    settings: Settings,
    directory: PathBuf,
    opened: Option<Opened>,
}

/// An open database.
pub struct Opened {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// The records in the database.
    pub dataset: Arc<Dataset>,
}

impl<'a> Database<'a> {
    /// A database that does not exist yet.
    pub fn new(task: &'a Task, factory: &'a dyn Factory) -> Database<'a> {
        let directory = task.directory.join("database");
        Database { task, factory, settings: task.parameters.engine_settings(), directory, opened: None }
    }

    /// The directory of the database.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Closes and removes the current database, and opens an empty one for `step`, which is a load.
    ///
    /// # Errors
    /// The engine's, or the file system's.
    pub fn renew(&mut self, step: &Step) -> Result<Description> {
        self.close()?;
        let refused = |what: &str, error| Error::io(format!("{what} {}", self.directory.display()), error);
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(refused("empty", error)),
            _ => {}
        }
        fs::create_dir(&self.directory).map_err(|error| refused("make", error))?;
        let partitions = self.settings.partitions.unwrap_or(1);
        let splits = match partitions {
            0 | 1 => Vec::new(),
            _ => (step.workload.splits)(&self.task.parameters, step.records, partitions),
        };
        let engine = self.factory.open(&self.directory, &self.settings, &splits)?;
        let description = engine.describe();
        let kind = step.workload.dataset;
        let (next, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
        let dataset = Arc::new(Dataset { kind, records: step.records, next, acknowledged });
        self.opened = Some(Opened { engine, dataset });
        Ok(description)
    }

    /// Returns the open database.
    ///
    /// # Errors
    /// `Said`: no database is open, because no step began with an empty one.
    pub fn opened(&self) -> Result<&Opened> {
        self.opened.as_ref().ok_or_else(|| Error::Said("no step has loaded a database".into()))
    }

    /// Makes all writes durable and waits until no flush or compaction is due and the file system has written every
    /// page. The counters read afterwards then include the whole cost. `false`: the engine cannot wait for its flushes
    /// and compactions.
    ///
    /// # Errors
    /// The engine's, or the file system's.
    pub fn drain(&self) -> Result<bool> {
        let engine = &self.opened()?.engine;
        engine.persist()?;
        let settled = engine.settle()?;
        self.quiet()?;
        Ok(settled)
    }

    /// Leaves the engine alone for a while, and drains it again.
    ///
    /// # Errors
    /// As [`Database::drain`].
    pub fn rest(&self, seconds: f64) -> Result<()> {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        self.drain().map(drop)
    }

    /// Waits until the file system has written every dirty page to its device.
    ///
    /// # Errors
    /// The file system's.
    pub fn quiet(&self) -> Result<()> {
        let refused = |error| Error::io(format!("sync the file system of {}", self.directory.display()), error);
        let directory = fs::File::open(&self.directory).map_err(refused)?;
        rustix::fs::syncfs(&directory).map_err(|error| refused(error.into()))
    }

    /// Bytes on disk of the database, by kind of file.
    ///
    /// # Errors
    /// The file system's.
    pub fn space_by_kind(&self) -> Result<BTreeMap<String, u64>> {
        machine::allocated(&self.directory)
    }

    /// Closes the database, if it is open.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(&mut self) -> Result<()> {
        self.opened.take().map_or(Ok(()), |opened| opened.engine.close())
    }
}
