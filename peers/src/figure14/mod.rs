//! `thalweg-peers figure14`: the `PhatKV` paper's figure 14 (PHAT-E7), a file system's metadata on several engines.
//!
//! The file system is `thalweg-fs`: the paper's is `TableFS`. The sizes are the paper's times `--scale`: 50 M
//! directories of depth 19 at most, which are made and listed; and 10 000 directories of depth 12 at most with 5 000
//! files each, which are created and queried. Every operation is given a path, resolves it from the root, and forgets
//! the inodes that it used: no inode but the root's stays in memory.
//!
//! - `arguments.rs`: the command line.
//! - `tree.rs`: [`Tree`](tree::Tree), a tree of directories.
//! - `task.rs`: what one process does, and what it measured.
//! - `worker.rs`: that process: one workload, on one engine.
//! - `parent.rs`: starts the processes, each in a memory control group.
//! - `table.rs`: the figures beside the paper's.

mod arguments;
mod parent;
mod table;
mod task;
mod tree;
mod worker;

pub use arguments::Figure14;

use std::io::Write;
use std::path::Path;
use thalweg_bench::{Error, Result};

/// Reads a report that was written with `--json`.
fn stored(file: &Path) -> Result<task::Report> {
    let failed = |error| Error::of_path(format!("read {}", file.display()), error);
    let bytes = std::fs::read(file).map_err(failed)?;
    serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))
}

/// Executes the command.
///
/// # Errors
/// `Usage` for arguments that make no sense; else the failure.
pub fn run(arguments: &Figure14, output: &mut dyn Write) -> Result<()> {
    if arguments.worker {
        return worker::work(output);
    }
    if !arguments.from.is_empty() {
        let reports = arguments.from.iter().map(|file| stored(file)).collect::<Result<Vec<_>>>()?;
        let text = table::markdown(&reports)?;
        return write!(output, "{text}").map_err(|error| Error::io("print the table", error));
    }
    let report = parent::measure(arguments)?;
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| Error::io("make the report", error.into()))?;
        std::fs::write(file, text + "\n")
            .map_err(|error| Error::of_path(format!("write {}", file.display()), error))?;
    }
    write!(output, "{}", table::render(&report)).map_err(|error| Error::io("print the table", error))
}
