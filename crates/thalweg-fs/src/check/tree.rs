//! The tree: directories and their entries.

use super::Check;
use super::seen::Seen;
use crate::row::{DirectoryRow, EntryRow, Ino, Kind, ROOT};
use crate::store::RowReader;

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
        let (mut has_own, mut entries, mut directories) = (false, 0, 0);
        let mut failure = None;
        for listed in rows.list(directory, 0, usize::MAX) {
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
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
                Ok(row) => {
                    entries += 1;
                    directories += u64::from(row.kind() == Kind::Directory);
                    self.see_entry(directory, &listed.name, &row);
                }
                Err(error) => self.fault(entry_name(directory, &listed.name), &error),
            }
        }
        if entries > 0 {
            // A directory without a row of its own is found in the comparison, too.
            self.inodes.entry(directory).or_insert_with(|| Seen::pointed_at(Kind::Directory));
            let seen = self.directories.entry(directory).or_default();
            (seen.entries_found, seen.directories_found) = (entries, directories);
        }
        match failure {
            Some(error) => self.fault(format!("directory {directory}"), &error),
            None if !has_own => {
                self.finding(format!("directory {directory}"), "it has entries, and no row of its own");
            }
            None => {}
        }
    }

    fn see_directory(&mut self, row: &DirectoryRow) {
        self.report.directories += 1;
        let ino = row.attributes.ino;
        self.inodes.entry(ino).or_insert_with(|| Seen::pointed_at(Kind::Directory)).take(&row.attributes);
        let seen = self.directories.entry(ino).or_default();
        (seen.parent, seen.entries) = (row.parent, row.entries);
    }

    fn see_entry(&mut self, directory: Ino, name: &[u8], row: &EntryRow) {
        self.report.entries += 1;
        let (ino, kind) = (row.ino(), row.kind());
        let seen = self.inodes.entry(ino).or_insert_with(|| Seen::pointed_at(kind));
        let twice = seen.names > 0;
        seen.names = seen.names.saturating_add(1);
        let is_other_kind = seen.is_whole && seen.kind != kind;
        match row {
            EntryRow::Whole(attributes, _) => {
                seen.take(attributes);
                self.report.files += 1;
                if twice {
                    self.finding(entry_name(directory, name), format!("inode {ino} has another name"));
                }
            }
            EntryRow::Pointer(_, Kind::Directory) => {
                self.directories.entry(ino).or_default().entered_by = directory;
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
