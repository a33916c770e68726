//! [`Volume::check`]: reads every row of a volume and compares the rows with each other.
//!
//! - `tree.rs`: directories and entries.
//! - `rows.rs`: the other rows, and the comparison.
//! - `seen.rs`: what a check keeps of an inode until the comparison.
//! - `dump.rs`: [`Volume::dump_at`], every row as text.
//!
//! It reads a snapshot, so it may run while the volume is used. Memory: 41 bytes for each inode and 49 more for each
//! directory, times 1.2 to 2.3 for the room in hash tables, and half of that more while they grow.
//!
//! It checks this: every row decodes and stands at its own key; every directory is entered once, has the parent that
//! enters it, and leads to the root; counts of entries and links; files with several names have that many; orphans have
//! a debt and no name; bytes lie in rows of files that are there, within their size, and add up; objects have a row,
//! and a file unless it is empty; no row belongs to an inode that is not there.

mod dump;
mod rows;
mod seen;
#[cfg(test)]
mod tests;
mod tree;

use crate::error::{Error, Result};
use crate::object::ObjectStore;
use crate::row::{Ino, Totals};
use crate::store::MetaStore;
use crate::volume::{Volume, read_number};
use seen::{Seen, SeenDirectory};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// Something that is wrong with a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The subject: an inode, an entry, a row.
    pub about: String,
    /// The fault.
    pub what: String,
    /// Whether a power cut may leave this of files that were never synced. It is then no damage.
    pub is_note: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_note { "note" } else { "finding" };
        write!(f, "{word}: {}: {}", self.about, self.what)
    }
}

/// The counts of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Directories.
    pub directories: u64,
    /// Files and everything else that is no directory.
    pub files: u64,
    /// Names.
    pub entries: u64,
    /// Bytes of files in rows.
    pub row_bytes: u64,
    /// Files whose bytes are in objects.
    pub objects: u64,
    /// Files without a name, which go with the next mount or when they are closed.
    pub orphans: u64,
    /// States that a power cut may leave.
    pub notes: u64,
    /// Faults.
    pub findings: u64,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    /// Inodes that were looked at.
    pub inodes: u64,
    /// The inodes that the volume counts. After a crash the number may be off.
    pub inodes_total: u64,
    /// Rows that were looked at, those of inodes and all others.
    pub rows: u64,
}

/// The events of a check while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckEvent {
    /// Something is wrong.
    Found(Finding),
    /// This much is done: told after every 1 024 rows.
    Progress(CheckProgress),
}

/// Rows between two reports of progress.
const ROWS_PER_REPORT: u64 = 1024;

/// A check that runs.
pub(crate) struct Check<'c> {
    pub report: CheckReport,
    inodes: HashMap<Ino, Seen>,
    directories: HashMap<Ino, SeenDirectory>,
    /// The inode of the last row of bytes, and the end of that row. Rows of bytes come in the order of their inodes.
    last_data: (Ino, u64),
    inodes_total: u64,
    rows: u64,
    tell: &'c mut dyn FnMut(CheckEvent),
}

impl Check<'_> {
    pub(crate) fn finding(&mut self, about: impl Into<String>, what: impl Into<String>) {
        self.report.findings += 1;
        (self.tell)(CheckEvent::Found(Finding { about: about.into(), what: what.into(), is_note: false }));
    }

    /// Something that a power cut may leave.
    pub(crate) fn note(&mut self, about: impl Into<String>, what: impl Into<String>) {
        self.report.notes += 1;
        (self.tell)(CheckEvent::Found(Finding { about: about.into(), what: what.into(), is_note: true }));
    }

    /// Counts a row that is looked at.
    pub(crate) fn count_row(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_PER_REPORT) {
            let inodes = self.report.directories + self.report.files;
            let progress = CheckProgress { inodes, inodes_total: self.inodes_total, rows: self.rows };
            (self.tell)(CheckEvent::Progress(progress));
        }
    }

    /// Makes a finding of an error.
    pub(crate) fn fault(&mut self, about: impl Into<String>, error: &Error) {
        self.finding(about, error.to_string());
    }
}

impl Volume {
    /// Checks the volume as it is at this moment, and calls `found` for everything that is wrong. The volume may be
    /// used meanwhile.
    ///
    /// # Errors
    /// `EIO` when the snapshot cannot be read.
    pub fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<CheckReport> {
        self.check_with(&mut |event| {
            if let CheckEvent::Found(finding) = event {
                found(finding);
            }
        })
    }

    /// As [`Volume::check`], and also tells how far it is.
    ///
    /// # Errors
    /// As for [`Volume::check`].
    pub fn check_with(&self, tell: &mut dyn FnMut(CheckEvent)) -> Result<CheckReport> {
        Self::check_on(&*self.store, &*self.objects, tell)
    }

    /// Checks a volume that is not open, in the folder `path`. Its database is recovered, as by an open. Calls `tell`
    /// for everything that is wrong, and for progress.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EBUSY` while it is open; `EIO` when it cannot be read.
    pub fn check_at(path: impl AsRef<Path>, tell: &mut dyn FnMut(CheckEvent)) -> Result<CheckReport> {
        let (store, objects) = Self::stores_at(path.as_ref(), |builder| builder)?;
        let report = Self::check_on(&store, &objects, tell)?;
        store.close()?;
        Ok(report)
    }

    fn check_on(
        store: &dyn MetaStore,
        objects: &dyn ObjectStore,
        tell: &mut dyn FnMut(CheckEvent),
    ) -> Result<CheckReport> {
        // Listed before the snapshot: a file that is created after it may have an object that the snapshot does not
        // know.
        let object_files = objects.list()?;
        let snapshot = store.snapshot()?;
        let inodes_total = read_number(store, Totals::KEY).ok().flatten().unwrap_or(0);
        let (report, inodes, directories) = (CheckReport::default(), HashMap::new(), HashMap::new());
        let mut check = Check { report, inodes, directories, last_data: (0, 0), inodes_total, rows: 0, tell };
        check.read_tree(&*snapshot);
        check.read_rows(&*snapshot, (store, objects), &object_files)?;
        check.compare();
        Ok(check.report)
    }
}
