//! The rows beside the tree, and the comparison of all rows.

use super::Check;
use super::seen::Seen;
use crate::data::CHUNK_BYTES;
use crate::error::{Error, Result};
use crate::object::ObjectStore;
use crate::row::{
    Debt, EntryRow, IS_OBJECT, IS_ORPHAN, Ino, Kind, ROOT, Totals, data_offset, decode_number, inode_key, inode_of,
    xattr_name,
};
use crate::store::{MetaStore, RowReader, Space};
use std::collections::HashSet;

const END: [u8; 17] = [0xff; 17];

impl Check<'_> {
    /// Reads the rows of all spaces.
    pub(super) fn read_rows(
        &mut self,
        rows: &dyn RowReader,
        (store, objects): (&dyn MetaStore, &dyn ObjectStore),
        object_files: &[Ino],
    ) -> Result<()> {
        for row in rows.rows(Space::Inodes, &[], &END) {
            let (key, row) = row?;
            self.count_row();
            let ino = inode_of(&key).unwrap_or(0);
            match EntryRow::decode_inode(ino, &row) {
                Ok((attributes, _)) => {
                    self.report.files += 1;
                    let seen = self.inodes.entry(ino).or_insert_with(|| Seen::pointed_at(attributes.kind));
                    if seen.is_whole {
                        self.finding(format!("inode {ino}"), "it has a row in its entry and another in `inodes`");
                    } else {
                        seen.take(&attributes);
                    }
                }
                Err(error) => self.fault(format!("inode {ino}"), &error),
            }
        }
        for row in rows.rows(Space::Data, &[], &END) {
            let (key, bytes) = row?;
            self.count_row();
            self.see_data(inode_of(&key).unwrap_or(0), data_offset(&key), bytes.len() as u64);
        }
        for row in rows.rows(Space::Xattrs, &[], &END) {
            let (key, _) = row?;
            self.count_row();
            let ino = inode_of(&key).unwrap_or(0);
            if !self.inodes.contains_key(&ino) {
                let name = xattr_name(&key).unwrap_or_default().escape_ascii().to_string();
                self.finding(format!("extended attribute {name}"), format!("inode {ino} is not there"));
            }
        }
        self.read_numbers(rows)?;
        self.read_objects(rows, (store, objects), object_files)
    }

    /// The numbers of the volume, without which no mount opens it.
    fn read_numbers(&mut self, rows: &dyn RowReader) -> Result<()> {
        let mut read = |key: &[u8]| -> Result<Option<u64>> {
            let Some(row) = rows.row(Space::Volume, key)? else { return Ok(None) };
            let number = decode_number(key, &row);
            Ok(number.inspect_err(|error| self.fault("the volume", error)).ok())
        };
        let (high, _) = (read(Totals::HIGH_WATER)?, read(Totals::KEY)?);
        let highest = self.inodes.keys().copied().max().unwrap_or(ROOT);
        if let Some(high) = high.filter(|high| highest >= *high) {
            self.finding(format!("inode {highest}"), format!("numbers from {high} on are given to new inodes"));
        }
        Ok(())
    }

    fn see_data(&mut self, ino: Ino, offset: Option<u64>, bytes: u64) {
        self.report.row_bytes += bytes;
        let about = || format!("data of inode {ino}");
        let Some(offset) = offset else { return self.finding(about(), "a key is no offset") };
        let Some(seen) = self.inodes.get_mut(&ino) else {
            return self.finding(about(), format!("the row at {offset} is of no inode"));
        };
        let end = offset.saturating_add(bytes);
        let overlaps = self.last_data.0 == ino && self.last_data.1 > offset;
        let leaves_chunk = offset % CHUNK_BYTES + bytes > CHUNK_BYTES || bytes == 0;
        seen.take_row(end, bytes);
        self.last_data = (ino, end);
        if overlaps || leaves_chunk {
            self.finding(about(), format!("the row at {offset} with {bytes} bytes is where it must not be"));
        }
    }

    fn read_objects(
        &mut self,
        rows: &dyn RowReader,
        (store, objects): (&dyn MetaStore, &dyn ObjectStore),
        object_files: &[Ino],
    ) -> Result<()> {
        let mut known = HashSet::new();
        for row in rows.rows(Space::Objects, &[], &END) {
            let (key, row) = row?;
            let ino = inode_of(&key).unwrap_or(0);
            self.count_row();
            known.insert(ino);
            if let Err(error) = decode_number(&inode_key(ino), &row) {
                self.fault(format!("object {ino}"), &error);
            }
            self.report.objects += 1;
            if !self.inodes.get(&ino).is_some_and(|seen| seen.has(IS_OBJECT)) {
                self.finding(format!("object {ino}"), "its inode is not there, or has its bytes in rows");
            } else if objects.attributes(ino)?.is_none() && store.row(Space::Objects, &inode_key(ino))?.is_some() {
                // The second look at the row excludes an object that was removed after the snapshot.
                self.note(format!("object {ino}"), "its file is missing: it reads as an empty file");
            }
        }
        let mut owed = HashSet::new();
        for row in rows.rows(Space::Reclaim, &[], &END) {
            let (key, row) = row?;
            self.count_row();
            let ino = inode_of(&key).unwrap_or(0);
            match Debt::decode(&inode_key(ino), &row) {
                Ok(Debt::Object) => _ = owed.insert(ino),
                Ok(Debt::Orphan) => {
                    self.report.orphans += 1;
                    match self.inodes.get_mut(&ino) {
                        Some(seen) if seen.has(IS_ORPHAN) && seen.names == 0 => seen.is_owed = true,
                        _ => self.finding(format!("inode {ino}"), "it is to be removed, and is there"),
                    }
                }
                Err(error) => self.fault(format!("debt of inode {ino}"), &error),
            }
        }
        for ino in object_files {
            let is_missing = |space| Ok::<_, Error>(store.row(space, &inode_key(*ino))?.is_none());
            // A file that was removed or just promoted has changed its rows since the snapshot.
            let is_unknown = !known.contains(ino) && !owed.contains(ino) && objects.attributes(*ino)?.is_some();
            if is_unknown && is_missing(Space::Objects)? && is_missing(Space::Reclaim)? {
                self.note(format!("object {ino}"), "a file that no row knows; the next mount removes it");
            }
        }
        let objects = self.inodes.iter().filter(|(_, seen)| seen.has(IS_OBJECT)).map(|(ino, _)| *ino);
        let unlisted: Vec<Ino> = objects.filter(|ino| !known.contains(ino)).collect();
        for ino in unlisted {
            self.finding(format!("inode {ino}"), "its bytes are in an object that no row knows");
        }
        Ok(())
    }

    /// Compares what was read.
    pub(super) fn compare(&mut self) {
        let mut findings = Vec::new();
        for (&ino, seen) in &self.inodes {
            let mut wrong = |what: String| findings.push((ino, what));
            if !seen.is_whole {
                wrong(format!("{} names lead to it, and it has no row", seen.names));
                continue;
            }
            if seen.kind == Kind::Directory {
                let directory = self.directories.get(&ino).cloned().unwrap_or_default();
                let (entries, nlink) = (directory.entries_found, 2 + directory.directories_found);
                if directory.entries != entries || seen.size != entries {
                    wrong(format!("it counts {} entries and has {entries}", directory.entries));
                }
                if u64::from(seen.nlink) != nlink {
                    wrong(format!("it counts {} links and has {nlink}", seen.nlink));
                }
                let entered_by = if ino == ROOT { ROOT } else { directory.entered_by };
                if directory.parent != entered_by {
                    let parent = directory.parent;
                    wrong(format!("it names {parent} as the directory it is in, and is in {entered_by}"));
                }
                continue;
            }
            let names = if seen.has(IS_ORPHAN) { 0 } else { seen.nlink };
            if seen.names != names {
                wrong(format!("it counts {} names and has {}", seen.nlink, seen.names));
            }
            if seen.has(IS_ORPHAN) && !seen.is_owed {
                wrong("it has no name, and no row says that it is to be removed".to_owned());
            }
            if seen.has(IS_OBJECT) {
                if seen.has_rows {
                    wrong("it is an object and has rows of bytes".to_owned());
                }
                continue;
            }
            if seen.bytes_left != 0 {
                let word = if seen.bytes_left < 0 { "more" } else { "fewer" };
                wrong(format!("its rows have {} bytes {word} than it counts", seen.bytes_left.unsigned_abs()));
            }
            if seen.is_beyond {
                wrong(format!("its rows go beyond its size of {} bytes", seen.size));
            }
        }
        findings.extend(self.unreachable().into_iter().map(|ino| (ino, "it is in no directory below the root".into())));
        findings.sort();
        for (ino, what) in findings {
            self.finding(format!("inode {ino}"), what);
        }
    }

    /// The directories from which no way leads to the root.
    fn unreachable(&self) -> Vec<Ino> {
        let mut reachable = HashSet::from([ROOT]);
        let mut unreachable = Vec::new();
        for (&ino, _) in self.inodes.iter().filter(|(_, seen)| seen.kind == Kind::Directory) {
            let (mut at, mut way) = (ino, Vec::new());
            while !reachable.contains(&at) && way.len() <= self.inodes.len() {
                way.push(at);
                match self.directories.get(&at) {
                    Some(next) if next.entered_by != 0 => at = next.entered_by,
                    _ => break,
                }
            }
            if reachable.contains(&at) { reachable.extend(way) } else { unreachable.push(ino) }
        }
        unreachable
    }
}
