//! [`State`]: what is known of an inode in use, and [`Place`]: where its row is.

use crate::row::{Attributes, DirectoryRow, EntryRow, IS_OBJECT, IS_ORPHAN, Ino, inode_key};
use crate::store::{Batch, Promise, Space};
use std::sync::Arc;

/// Where the row of an inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its entry, the only one: a file.
    Entry { directory: Ino, name: Box<[u8]> },
    /// In `inodes`: a file with several names, or an orphan.
    Inode,
    /// In its own ".": a directory, with the directory that it is in, and how many entries it has.
    Directory { parent: Ino, entries: u64 },
    /// Nowhere: its last name is gone and nobody has it open, but a caller still has its number.
    Dead,
}

/// The state of an inode in use.
#[derive(Clone)]
pub(crate) struct State {
    pub attributes: Attributes,
    pub place: Place,
    /// The target of a symbolic link.
    pub target: Box<[u8]>,
    /// How often it is open.
    pub opens: u32,
    /// How many rows the last 64 KiB of a file have, if that is known.
    pub tail_rows: Option<u16>,
    /// The bytes of rows that were written again because a part of them was overwritten.
    pub rewritten_bytes: u32,
    /// The promise of the write that stored the file's first bytes, if the inode has been in use since then.
    pub first_write: Option<Arc<dyn Promise>>,
    /// Whether the object was written since it was last synced.
    pub is_dirty: bool,
    /// Whether somebody may write to the object's file without the volume, so that only the file knows its size and
    /// times. This stays `true` while the inode is in use, because a mapped file may be written after its last close.
    pub is_shared: bool,
    /// The promise of the batch that made an object of the file, if the inode has been in use since then.
    pub promoted: Option<Arc<dyn Promise>>,
}

impl State {
    pub(crate) fn new(attributes: Attributes, place: Place, target: Box<[u8]>) -> Self {
        let tail_rows = (attributes.size == 0).then_some(0);
        State {
            attributes,
            place,
            target,
            tail_rows,
            opens: 0,
            rewritten_bytes: 0,
            first_write: None,
            is_dirty: false,
            is_shared: false,
            promoted: None,
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.place == Place::Dead
    }

    /// The change of the number of inodes by its death: -1 if it is dead, else 0.
    pub(crate) fn dead(&self) -> i64 {
        -i64::from(self.is_dead())
    }

    pub(crate) fn is_object(&self) -> bool {
        self.attributes.has(IS_OBJECT)
    }

    pub(crate) fn is_orphan(&self) -> bool {
        self.attributes.has(IS_ORPHAN)
    }

    /// The number of entries of a directory; 0 for anything else.
    pub(crate) fn entries(&self) -> u64 {
        if let Place::Directory { entries, .. } = self.place { entries } else { 0 }
    }

    /// Writes the inode's row, with the attributes that it has now.
    pub(crate) fn put<'a>(&'a self, batch: &mut Batch<'a>) {
        match &self.place {
            Place::Entry { directory, name } => {
                let row = EntryRow::Whole(self.attributes, self.target.clone());
                batch.put_entry(*directory, name, row.encode(*directory, name));
            }
            Place::Inode => {
                let row = EntryRow::encode_inode(&self.attributes, &self.target);
                batch.put(Space::Inodes, inode_key(self.attributes.ino), row);
            }
            Place::Directory { parent, entries } => {
                let row = DirectoryRow { attributes: self.attributes, parent: *parent, entries: *entries };
                batch.put_entry(self.attributes.ino, DirectoryRow::NAME, row.encode());
            }
            Place::Dead => {}
        }
    }
}
