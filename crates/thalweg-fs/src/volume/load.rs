//! From a name to an inode in use: reads rows and enters nodes.

use super::Volume;
use crate::error::{Error, Result};
use crate::node::{Pin, Place, Removals, State};
use crate::row::{Attributes, DirectoryRow, EntryRow, IS_OBJECT, Ino, Kind, inode_key};
use crate::store::Space;

impl Volume {
    /// The row of the entry `name` of a directory. The caller has a lock on the directory, or must check later that
    /// the row is still the same.
    pub(crate) fn entry_row(&self, directory: Ino, name: &[u8]) -> Result<Option<EntryRow>> {
        let row = self.store.entry(directory, name)?;
        row.map(|row| EntryRow::decode(directory, name, &row)).transpose()
    }

    /// The inode of the entry `name`, in use. The caller has a lock on the directory, or must check later that the
    /// entry is still the same. Without a lock, inode and entry may be removed after the entry was read: it is read
    /// again then.
    ///
    /// # Errors
    /// `ENOENT`, `EIO`.
    pub(crate) fn find(&self, directory: Ino, name: &[u8]) -> Result<Pin<'_>> {
        loop {
            let seen = self.nodes.removals();
            let row = self.entry_row(directory, name)?.ok_or(Error::posix(libc::ENOENT))?;
            match self.enter(directory, name, row.clone(), &seen) {
                Ok(Some(pin)) => return Ok(pin),
                Ok(None) => {}
                // Numbers of inodes never come back: an entry that is still there was there all the time.
                Err(error) if self.entry_row(directory, name)?.as_ref() == Some(&row) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Enters the inode of an entry that was read after `seen`. `None`: it must be read again.
    pub(crate) fn enter(&self, directory: Ino, name: &[u8], row: EntryRow, seen: &Removals) -> Result<Option<Pin<'_>>> {
        if let Some(pin) = self.nodes.try_pin(row.ino()) {
            return Ok(Some(pin));
        }
        let state = match row {
            EntryRow::Whole(attributes, target) => {
                let place = Place::Entry { directory, name: name.into() };
                State::new(self.with_object(attributes)?, place, target)
            }
            EntryRow::Pointer(ino, Kind::Directory) => self.directory_state(ino)?,
            EntryRow::Pointer(ino, _) => self.inode_state(ino)?,
        };
        Ok(self.nodes.enter(seen, state))
    }

    /// The state that a directory's own row gives.
    pub(crate) fn directory_state(&self, ino: Ino) -> Result<State> {
        let missing = || Error::damaged(format!("directory {ino}"), "its own row is missing");
        let row = self.store.entry(ino, DirectoryRow::NAME)?.ok_or_else(missing)?;
        let DirectoryRow { attributes, parent, entries } = DirectoryRow::decode(ino, &row)?;
        Ok(State::new(attributes, Place::Directory { parent, entries }, Box::default()))
    }

    /// The state that the row in `inodes` gives.
    pub(crate) fn inode_state(&self, ino: Ino) -> Result<State> {
        let missing = || Error::damaged(format!("inode {ino}"), "its row is missing");
        let row = self.store.row(Space::Inodes, &inode_key(ino))?.ok_or_else(missing)?;
        let (attributes, target) = EntryRow::decode_inode(ino, &row)?;
        Ok(State::new(self.with_object(attributes)?, Place::Inode, target))
    }

    /// Attributes of a file as its object has them. An object whose file is missing has no bytes: a power cut may take
    /// a file that was never synced.
    pub(crate) fn with_object(&self, mut attributes: Attributes) -> Result<Attributes> {
        if attributes.has(IS_OBJECT) {
            match self.objects.attributes(attributes.ino)? {
                Some(object) => {
                    (attributes.size, attributes.bytes) = (object.size, object.bytes);
                    attributes.mtime = object.mtime;
                    attributes.ctime = attributes.ctime.max(object.ctime);
                }
                None => (attributes.size, attributes.bytes) = (0, 0),
            }
        }
        Ok(attributes)
    }
}
