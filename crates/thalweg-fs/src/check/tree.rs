//! The tree: directories and their entries.

use super::{Check, Seen};
use crate::row::{Attributes, DirectoryRow, EntryRow, Ino, Kind, ROOT};
use crate::store::RowReader;

impl Seen {
    pub(super) fn new(attributes: Attributes) -> Self {
        let (names, bytes, rows, end, xattrs, entered_by, parent, entries) = (0, 0, 0, 0, 0, 0, 0, 0);
        Seen { attributes, names, bytes, rows, end, xattrs, entered_by, parent, entries, is_whole: false }
    }

    /// An inode of which only an entry is known so far.
    fn pointed_at(ino: Ino, kind: Kind) -> Self {
        Seen::new(Attributes::new(ino, kind, 0, (0, 0), crate::row::Time::default()))
    }
}

impl Check<'_> {
    /// Reads all entries of all directories.
    pub(super) fn read_tree(&mut self, rows: &dyn RowReader) {
        for directory in rows.directories() {
            match directory {
                Ok(directory) => self.read_directory(rows, directory),
                Err(error) => self.fault("the list of directories", &error),
            }
        }
        if !self.inodes.get(&ROOT).is_some_and(|root| root.is_whole) {
            self.finding("the root directory", "its row is missing");
        }
    }

    fn read_directory(&mut self, rows: &dyn RowReader, directory: Ino) {
        let mut has_own = false;
        for listed in rows.list(directory, 0, usize::MAX) {
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) => return self.fault(format!("directory {directory}"), &error),
            };
            if *listed.name == *DirectoryRow::NAME {
                has_own = true;
                match DirectoryRow::decode(directory, &listed.row) {
                    Ok(row) => self.see_directory(&row),
                    Err(error) => self.fault(format!("directory {directory}"), &error),
                }
                continue;
            }
            self.count_row();
            match EntryRow::decode(directory, &listed.name, &listed.row) {
                Ok(row) => self.see_entry(directory, &listed.name, row),
                Err(error) => self.fault(entry_name(directory, &listed.name), &error),
            }
        }
        if !has_own {
            self.finding(format!("directory {directory}"), "it has entries, and no row of its own");
        }
    }

    fn see_directory(&mut self, row: &DirectoryRow) {
        self.report.directories += 1;
        let ino = row.attributes.ino;
        let seen = self.inodes.entry(ino).or_insert_with(|| Seen::pointed_at(ino, Kind::Directory));
        (seen.attributes, seen.parent, seen.entries, seen.is_whole) = (row.attributes, row.parent, row.entries, true);
    }

    fn see_entry(&mut self, directory: Ino, name: &[u8], row: EntryRow) {
        self.report.entries += 1;
        // What the directory counts is compared with what is counted here.
        let of_directory = self.inodes.entry(directory).or_insert_with(|| Seen::pointed_at(directory, Kind::Directory));
        of_directory.rows += 1;
        let (ino, kind) = (row.ino(), row.kind());
        let twice = self.inodes.get(&ino).is_some_and(|seen| seen.names > 0);
        let seen = self.inodes.entry(ino).or_insert_with(|| Seen::pointed_at(ino, kind));
        seen.names += 1;
        let is_other_kind = seen.is_whole && seen.attributes.kind != kind;
        match row {
            EntryRow::Whole(attributes, _) => {
                (seen.attributes, seen.is_whole) = (attributes, true);
                self.report.files += 1;
                if twice {
                    self.finding(entry_name(directory, name), format!("inode {ino} has another name"));
                }
            }
            EntryRow::Pointer(_, Kind::Directory) => {
                seen.entered_by = directory;
                if let Some(above) = self.inodes.get_mut(&directory) {
                    above.xattrs += 1;
                }
                if twice {
                    self.finding(entry_name(directory, name), format!("directory {ino} has another name"));
                }
            }
            EntryRow::Pointer(..) => {}
        }
        if is_other_kind {
            self.finding(entry_name(directory, name), format!("inode {ino} is of another kind than its entry"));
        }
    }
}

fn entry_name(directory: Ino, name: &[u8]) -> String {
    format!("entry \"{}\" of directory {directory}", name.escape_ascii())
}
