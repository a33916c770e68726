//! `dump`: one file of a database in readable form, for people who look at what went wrong.

use crate::error::{Error, Result};
use crate::storage::{LinuxStorage, Storage};
use crate::{fast_table, lineage, log, table};
use std::fmt::Arguments;
use std::io;
use std::path::Path;

/// Writes one file of a database (a log segment, a manifest, `CURRENT`, a table or a fast table) in readable form, a
/// line at a time. The name of the file, as the database gives it, says which kind of file it is. Changes nothing and
/// takes no lock.
///
/// # Errors
/// `InvalidInput` when the name is not that of a database's file; `Corruption` where the file cannot be read further
/// (lines before that were given); `Io`, also when `line` gives an error.
pub fn dump(path: impl AsRef<Path>, line: &mut dyn FnMut(Arguments<'_>) -> io::Result<()>) -> Result<()> {
    dump_with(&LinuxStorage, path.as_ref(), line)
}

fn dump_with(storage: &dyn Storage, path: &Path, line: &mut dyn FnMut(Arguments<'_>) -> io::Result<()>) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.ends_with(".table") {
        table::dump(storage, path, line)
    } else if name.ends_with(".fast") {
        fast_table::dump(storage, path, line)
    } else if name.ends_with(".log") {
        log::dump(storage, path, line)
    } else if name == "CURRENT" || name.starts_with("manifest-") {
        lineage::dump(storage, path, line)
    } else {
        Err(Error::invalid_input(format!(
            "{} is not a file that can be dumped: give a log segment (*.log), a manifest (manifest-*, CURRENT), \
             a table (*.table) or a fast table (*.fast) of a database",
            path.display()
        )))
    }
}
