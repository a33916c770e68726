//! Listing: the entries of a directory, from any place in it on.

use crate::error::{Result, refuse};
use crate::node::{Pin, Place};
use crate::planted::{Bug, planted};
use crate::row::{Attributes, DirectoryRow, EntryRow, Ino, Kind};
use crate::volume::Volume;

/// The offsets after "." and "..". Those of other entries are higher.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

/// An entry of a directory that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode; 0 if the entry's row is damaged.
    pub ino: Ino,
    /// Its kind; a file if the entry's row is damaged.
    pub kind: Kind,
    /// The entry's name.
    pub name: Box<[u8]>,
    /// Where the listing goes on after this entry.
    pub offset: u64,
    /// The attributes, if they were wanted. The caller refers to the inode then. Not of "." and "..", and not of an
    /// inode that cannot be read.
    pub attributes: Option<Attributes>,
}

impl Volume {
    /// Lists a directory from `offset` on: 0, or [`Entry::offset`] of an entry. Returns at most `entries_max` entries,
    /// or more if several names have one offset; at the end of the directory, none. With `with_attributes` the caller
    /// refers to each inode whose attributes it gets.
    ///
    /// An entry whose inode cannot be read is listed without attributes: a caller that asks for it meets the fault.
    ///
    /// An entry that is there from the beginning of a listing to its end is listed once, whatever happens to others.
    /// Two names whose hashes are equal (once in 2⁶³ pairs) have one offset: a listing that goes on between them
    /// repeats the first.
    ///
    /// # Errors
    /// `ENOTDIR`, `ESTALE`, `EIO`.
    pub fn list(&self, directory: Ino, offset: u64, entries_max: usize, with_attributes: bool) -> Result<Vec<Entry>> {
        let pin = self.nodes.pin(directory)?;
        if !pin.is_directory() {
            return refuse(libc::ENOTDIR);
        }
        let mut entries = Vec::with_capacity(entries_max.min(1024));
        let mut pins: Vec<Option<Pin<'_>>> = Vec::new();
        {
            let state = pin.read();
            let Place::Directory { parent, .. } = state.place else { return Ok(entries) };
            for (at, name, ino) in [(DOT, &b"."[..], directory), (DOT_DOT, b"..", parent)] {
                if offset < at && entries.len() < entries_max {
                    let (kind, name, attributes) = (Kind::Directory, name.into(), None);
                    entries.push(Entry { ino, kind, name, offset: at, attributes });
                    pins.push(None);
                }
            }
            self.list_rows(directory, offset, entries_max, &mut entries, with_attributes.then_some(&mut pins))?;
        }
        // Attributes are read after the directory's lock is released: locks of directories are taken by number, not
        // from above.
        for (entry, pin) in entries.iter_mut().zip(&pins) {
            if let Some(pin) = pin {
                entry.attributes = self.pinned_attributes(pin).ok();
                entry.attributes.iter().for_each(|_| pin.keep());
            }
        }
        Ok(entries)
    }

    fn list_rows<'v>(
        &'v self,
        directory: Ino,
        offset: u64,
        entries_max: usize,
        entries: &mut Vec<Entry>,
        mut pins: Option<&mut Vec<Option<Pin<'v>>>>,
    ) -> Result<()> {
        // The offset before the entries with the current cursor, and the index of their first one in `entries`.
        let (mut before, mut group, mut cursor) = (offset.max(DOT_DOT), entries.len(), None);
        loop {
            let seen = self.nodes.removals();
            let mut is_entered = true;
            // One entry more than wanted: that of the next cursor.
            for listed in self.store.list(directory, before, entries_max.saturating_add(1)) {
                let listed = listed?;
                if *listed.name == *DirectoryRow::NAME {
                    continue;
                }
                if cursor != Some(listed.cursor) || planted(Bug::TwinLost) {
                    if entries.len() >= entries_max {
                        return Ok(());
                    }
                    before = cursor.unwrap_or(before);
                    (group, cursor) = (entries.len(), Some(listed.cursor));
                } else if let Some(twin) = entries.last_mut() {
                    twin.offset = before;
                }
                let row = EntryRow::decode(directory, &listed.name, &listed.row).ok();
                let (ino, kind) = row.as_ref().map_or((0, Kind::File), |row| (row.ino(), row.kind()));
                let attributes = None;
                if let Some(pins) = &mut pins {
                    let entered = row.map(|row| self.enter(directory, &listed.name, row, &seen));
                    if let Some(Ok(None)) = entered {
                        is_entered = false;
                        break;
                    }
                    pins.push(entered.and_then(Result::ok).flatten());
                }
                entries.push(Entry { ino, kind, name: listed.name, offset: listed.cursor, attributes });
            }
            if is_entered {
                return Ok(());
            }
            // Another thread dropped inodes: this cursor's entries are read again.
            entries.truncate(group);
            if let Some(pins) = &mut pins {
                pins.truncate(group);
            }
            cursor = None;
        }
    }
}
