//! [`work`]: one workload on one engine, in a process of its own.

use super::task::{DIRECTORIES_DEPTH_MAX, FILES_DEPTH_MAX, FILES_EACH, Phase, Run, Task, Workload};
use super::tree::Tree;
use crate::volume::{Store, open};
use std::io::Write;
use std::time::{Duration, Instant};
use thalweg_bench::distribution::{Permutation, scrambled};
use thalweg_bench::engine::Null;
use thalweg_bench::machine::Probe;
use thalweg_bench::{Error, Result};
use thalweg_fs::{Caller, NewInode, Volume};

const ME: Caller<'static> = Caller::ROOT;
/// Entries that a listing takes at once.
const LISTED_AT_ONCE: usize = 1024;
/// The number of operations between two looks at the clock.
const CLOCK_INTERVAL: u64 = 32;

/// Carries out the task that standard input has, and writes its [`Run`] to `output`.
pub fn work(output: &mut dyn Write) -> Result<()> {
    let task: Task = serde_json::from_reader(std::io::stdin())
        .map_err(|error| Error::Usage(format!("standard input has no task: {error}")))?;
    let worker = Worker { store: open(&task.store, &task.folder, &task.parameters.settings)?, task };
    let phases = match worker.task.workload {
        Workload::Directories => worker.directories()?,
        Workload::Files => worker.files()?,
    };
    let (volume, description) = (worker.store.volume, worker.store.description);
    volume.close().map_err(|error| failed("close", &error))?;
    let Task { store, workload, .. } = worker.task;
    let run = Run { store, workload, round: 0, description, phases };
    serde_json::to_writer(output, &run).map_err(|error| Error::io("write what was measured", error.into()))
}

/// The store under measurement, and what is done with it.
struct Worker {
    store: Store,
    task: Task,
}

impl Worker {
    fn volume(&self) -> &Volume {
        &self.store.volume
    }

    fn tree(&self, depth_max: u8) -> Tree {
        let parameters = &self.task.parameters;
        Tree::new(self.task.workload.directories(parameters.scale), depth_max, parameters.seed)
    }

    fn directories(&self) -> Result<Vec<Phase>> {
        let tree = self.tree(DIRECTORIES_DEPTH_MAX);
        let count = u64::from(tree.count());
        let mkdir = self.count("mkdir", count, |number| self.make_directory(&tree, number as u32 + 1))?;
        let settle = self.settle()?;
        let list = self.time("list", |draw| self.list(&tree, (draw % count) as u32 + 1))?;
        Ok(vec![mkdir, settle, list])
    }

    fn files(&self) -> Result<Vec<Phase>> {
        let tree = self.tree(FILES_DEPTH_MAX);
        for directory in 1..=tree.count() {
            self.make_directory(&tree, directory)?;
        }
        let files = u64::from(tree.count()) * FILES_EACH;
        let order = Permutation::new(files, self.task.parameters.seed);
        let create = self.count("create", files, |number| self.create(&tree, order.number(number)))?;
        let settle = self.settle()?;
        let query = self.time("query", |draw| self.query(&tree, draw % files))?;
        Ok(vec![create, settle, query])
    }

    /// Runs a number of operations.
    fn count(&self, name: &str, operations: u64, mut operation: impl FnMut(u64) -> Result<u64>) -> Result<Phase> {
        let probe = Probe::start(&self.task.folder, &Null)?;
        for number in 0..operations {
            operation(number)?;
        }
        Ok(Phase { name: name.to_owned(), operations, entries: 0, usage: probe.usage(&Null)? })
    }

    /// Runs operations with random numbers for the time that the task says, after the ramp.
    fn time(&self, name: &str, mut operation: impl FnMut(u64) -> Result<u64>) -> Result<Phase> {
        let parameters = &self.task.parameters;
        let mut draw = scrambled(parameters.seed ^ 0x5155_4552);
        let mut run = |seconds: f64| {
            let (end, mut operations, mut entries) = (Instant::now() + Duration::from_secs_f64(seconds), 0, 0);
            while operations % CLOCK_INTERVAL != 0 || Instant::now() < end {
                draw = scrambled(draw);
                entries += operation(draw)?;
                operations += 1;
            }
            Ok((operations, entries))
        };
        run(parameters.ramp_seconds)?;
        let probe = Probe::start(&self.task.folder, &Null)?;
        let (operations, entries) = run(parameters.seconds)?;
        Ok(Phase { name: name.to_owned(), operations, entries, usage: probe.usage(&Null)? })
    }

    fn settle(&self) -> Result<Phase> {
        let probe = Probe::start(&self.task.folder, &Null)?;
        self.store.settle()?;
        Ok(Phase { name: "settle".to_owned(), operations: 0, entries: 0, usage: probe.usage(&Null)? })
    }

    /// Resolves the path of a directory, does something there, and forgets it.
    fn within<T>(&self, path: &str, operation: impl FnOnce(u64) -> thalweg_fs::Result<T>) -> thalweg_fs::Result<T> {
        let path = if path.is_empty() { "/" } else { path };
        let found = self.volume().resolve(&ME, path.as_bytes())?;
        let done = operation(found.ino);
        self.volume().forget(found.ino, 1);
        done
    }

    fn make(&self, path: &str, name: &str, new: NewInode<'_>) -> thalweg_fs::Result<u64> {
        self.within(path, |parent| {
            let made = self.volume().create(&ME, parent, name.as_bytes(), new)?;
            self.volume().forget(made.ino, 1);
            Ok(0)
        })
    }

    fn make_directory(&self, tree: &Tree, directory: u32) -> Result<u64> {
        let (path, name) = (tree.path(tree.parent(directory)), tree.name(u64::from(directory)));
        self.make(&path, &name, NewInode::directory(0o755)).map_err(|error| failed("mkdir", &error))
    }

    fn create(&self, tree: &Tree, file: u64) -> Result<u64> {
        let path = tree.path((file / FILES_EACH) as u32 + 1);
        self.make(&path, &file_name(tree, file), NewInode::file(0o644)).map_err(|error| failed("create", &error))
    }

    fn query(&self, tree: &Tree, file: u64) -> Result<u64> {
        let path = tree.path((file / FILES_EACH) as u32 + 1) + "/" + &file_name(tree, file);
        self.within(&path, |_| Ok(0)).map_err(|error| failed("query", &error))
    }

    fn list(&self, tree: &Tree, directory: u32) -> Result<u64> {
        let listed = self.within(&tree.path(directory), |directory| {
            let (mut listed, mut offset) = (0, 0);
            loop {
                let entries = self.volume().list(directory, offset, LISTED_AT_ONCE, false)?;
                listed += entries.len() as u64;
                match entries.last() {
                    Some(last) if entries.len() >= LISTED_AT_ONCE => offset = last.offset,
                    _ => return Ok(listed),
                }
            }
        });
        listed.map_err(|error| failed("list", &error))
    }
}

/// No directory has this name: numbers of files go on after those of directories.
fn file_name(tree: &Tree, file: u64) -> String {
    tree.name(u64::from(tree.count()) + 1 + file)
}

fn failed(operation: &'static str, error: &thalweg_fs::Error) -> Error {
    Error::engine("volume", operation, error)
}
