//! The rows beside the tree, and the comparison of all with all.

use super::{Check, Seen};
use crate::data::CHUNK_BYTES;
use crate::error::{Error, Result};
use crate::object::ObjectStore;
use crate::row::{Debt, EntryRow, IS_OBJECT, IS_ORPHAN, Ino, Kind, ROOT, data_offset, inode_key, inode_of, xattr_name};
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
                    let seen = self.inodes.entry(ino).or_insert_with(|| Seen::new(attributes));
                    if seen.is_whole {
                        self.finding(format!("inode {ino}"), "it has a row in its entry and another in `inodes`");
                    } else {
                        (seen.attributes, seen.is_whole) = (attributes, true);
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
        self.read_objects(rows, (store, objects), object_files)
    }

    fn see_data(&mut self, ino: Ino, offset: Option<u64>, bytes: u64) {
        self.report.row_bytes += bytes;
        let about = || format!("data of inode {ino}");
        let Some(offset) = offset else { return self.finding(about(), "a key is no offset") };
        let Some(seen) = self.inodes.get_mut(&ino) else {
            return self.finding(about(), format!("the row at {offset} is of no inode"));
        };
        let overlaps = seen.end > offset;
        let leaves_chunk = offset % CHUNK_BYTES + bytes > CHUNK_BYTES || bytes == 0;
        (seen.bytes, seen.end) = (seen.bytes + bytes, offset + bytes);
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
            let ino = inode_of(&row?.0).unwrap_or(0);
            self.count_row();
            known.insert(ino);
            self.report.objects += 1;
            if !self.inodes.get(&ino).is_some_and(|seen| seen.attributes.has(IS_OBJECT)) {
                self.finding(format!("object {ino}"), "its inode is not there, or has its bytes in rows");
            } else if objects.attributes(ino)?.is_none() && store.row(Space::Objects, &inode_key(ino))?.is_some() {
                // Not one that was removed after the snapshot.
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
                    let is_orphan = |seen: &Seen| seen.attributes.has(IS_ORPHAN) && seen.names == 0;
                    if !self.inodes.get(&ino).is_some_and(is_orphan) {
                        self.finding(format!("inode {ino}"), "it is to be removed, and is there");
                    }
                }
                Err(error) => self.fault(format!("debt of inode {ino}"), &error),
            }
        }
        for ino in object_files {
            let is_missing = |space| Ok::<_, Error>(store.row(space, &inode_key(*ino))?.is_none());
            // A file that went, or was just promoted, has changed its rows since.
            let is_unknown = !known.contains(ino) && !owed.contains(ino) && objects.attributes(*ino)?.is_some();
            if is_unknown && is_missing(Space::Objects)? && is_missing(Space::Reclaim)? {
                self.note(format!("object {ino}"), "a file that no row knows; the next mount removes it");
            }
        }
        let unlisted: Vec<Ino> = self
            .inodes
            .values()
            .filter(|seen| seen.attributes.has(IS_OBJECT))
            .map(|seen| seen.attributes.ino)
            .collect();
        for ino in unlisted.into_iter().filter(|ino| !known.contains(ino)) {
            self.finding(format!("inode {ino}"), "its bytes are in an object that no row knows");
        }
        Ok(())
    }

    /// Compares what was read.
    pub(super) fn compare(&mut self) {
        let mut findings = Vec::new();
        for (&ino, seen) in &self.inodes {
            let mut wrong = |what: String| findings.push((ino, what));
            let attributes = &seen.attributes;
            if !seen.is_whole {
                wrong(format!("{} names lead to it, and it has no row", seen.names));
                continue;
            }
            if attributes.kind == Kind::Directory {
                let nlink = 2 + seen.xattrs;
                if seen.entries != seen.rows || attributes.size != seen.rows {
                    wrong(format!("it counts {} entries and has {}", seen.entries, seen.rows));
                }
                if u64::from(attributes.nlink) != nlink {
                    wrong(format!("it counts {} links and has {nlink}", attributes.nlink));
                }
                let entered_by = if ino == ROOT { ROOT } else { seen.entered_by };
                if seen.parent != entered_by {
                    wrong(format!("it names {} as the directory it is in, and is in {entered_by}", seen.parent));
                }
                continue;
            }
            let names = if attributes.has(IS_ORPHAN) { 0 } else { u64::from(attributes.nlink) };
            if seen.names != names {
                wrong(format!("it counts {} names and has {}", attributes.nlink, seen.names));
            }
            if attributes.has(IS_OBJECT) {
                if seen.bytes > 0 {
                    wrong("it is an object and has rows of bytes".to_owned());
                }
            } else if seen.bytes != attributes.bytes || seen.end > attributes.size {
                let (rows, row, size, end) = (seen.bytes, attributes.bytes, attributes.size, seen.end);
                wrong(format!("it counts {row} bytes of {size} and has {rows}, up to {end}"));
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
        for seen in self.inodes.values().filter(|seen| seen.attributes.kind == Kind::Directory) {
            let (mut at, mut way) = (seen.attributes.ino, Vec::new());
            while !reachable.contains(&at) && way.len() <= self.inodes.len() {
                way.push(at);
                match self.inodes.get(&at) {
                    Some(next) if next.entered_by != 0 => at = next.entered_by,
                    _ => break,
                }
            }
            if reachable.contains(&at) { reachable.extend(way) } else { unreachable.push(seen.attributes.ino) }
        }
        unreachable
    }
}
