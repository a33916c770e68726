//! Lists directories, in parts that fill the kernel's answer.

use crate::convert::{attributes, bare, file_type};
use crate::daemon::{Daemon, FOREVER, GENERATION};
use crate::operations::Operation;
use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use thalweg_fs::{Entry, Error};

/// Entries that are listed at once.
const LISTED: usize = 128;
/// As above with attributes. References to the entries that do not fit the answer must be given back.
const LISTED_PLUS: usize = 32;
/// The number of a listed entry whose row is damaged: C libraries skip 0.
const UNKNOWN: u64 = u64::MAX;

impl Daemon {
    /// Answers with names.
    pub(crate) fn list_names(&self, ino: INodeNo, offset: u64, mut reply: ReplyDirectory) {
        let begun = self.begin(Operation::readdir);
        let listed = self.list(ino, offset, (LISTED, false), |entries| {
            entries.iter().any(|entry| {
                let name = OsStr::from_bytes(&entry.name);
                let ino = if entry.ino == 0 { UNKNOWN } else { entry.ino };
                reply.add(INodeNo(ino), entry.offset, file_type(entry.kind), name)
            })
        });
        match self.end(&begun, ino, listed) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    /// Answers with names and attributes. The kernel refers to each inode that it gets.
    pub(crate) fn list_entries(&self, ino: INodeNo, offset: u64, mut reply: ReplyDirectoryPlus) {
        let begun = self.begin(Operation::readdirplus);
        let listed = self.list(ino, offset, (LISTED_PLUS, true), |entries| {
            let mut is_full = false;
            for entry in entries {
                let is_dot = matches!(&*entry.name, b"." | b"..");
                let found = match &entry.attributes {
                    Some(found) => attributes(found),
                    None if is_dot => bare(entry.ino),
                    // Number 0 tells the kernel that it has the name alone; it looks the entry up when it is used.
                    None => fuser::FileAttr { kind: file_type(entry.kind), ..bare(0) },
                };
                let name = OsStr::from_bytes(&entry.name);
                is_full = is_full || reply.add(found.ino, entry.offset, name, &FOREVER, &found, GENERATION);
                if is_full && entry.attributes.is_some() {
                    self.volume.forget(entry.ino, 1);
                }
            }
            is_full
        });
        match self.end(&begun, ino, listed) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    /// Gives the entries from `offset` on to `add`, part by part, until it says that the answer is full.
    fn list(
        &self,
        ino: INodeNo,
        offset: u64,
        (entries_max, with_attributes): (usize, bool),
        mut add: impl FnMut(&[Entry]) -> bool,
    ) -> Result<(), Error> {
        let mut at = offset;
        loop {
            let entries = match self.volume.list(ino.0, at, entries_max, with_attributes) {
                Ok(entries) => entries,
                // The entries before the fault are answered; the next request meets the fault.
                Err(_) if at != offset => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(last) = entries.last().map(|entry| entry.offset) else { return Ok(()) };
            if add(&entries) {
                return Ok(());
            }
            at = last;
        }
    }
}
