//! Removing: unlink and rmdir. The last name of a file that is not open takes the file's rows with it, in one batch.

use super::check_name;
use crate::caller::Caller;
use crate::error::{Result, refuse};
use crate::node::{Locked, Pin, Place, State};
use crate::planted::{Bug, planted};
use crate::row::{Debt, DirectoryRow, HAS_XATTRS, IS_ORPHAN, Ino, Kind, Time, data_key, encode_number, inode_key};
use crate::store::{Batch, Space};
use crate::volume::Volume;

impl Volume {
    /// Removes the entry `name` of a directory, which must not be a directory itself. The file is removed with its last
    /// name, once nobody has it open.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `ENOTDIR`, `EACCES`, `EPERM` in a sticky directory, `EROFS`, `EIO`.
    pub fn unlink(&self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        if matches!(name, b"." | b"..") {
            return refuse(libc::EISDIR);
        }
        let parent = self.nodes.pin(directory)?;
        if !parent.is_directory() {
            return refuse(libc::ENOTDIR);
        }
        let mut parent_state = parent.write();
        caller.check(&parent_state.attributes, crate::caller::EXECUTE)?;
        let file = self.find(directory, name)?;
        if file.is_directory() {
            // `EISDIR` only if the caller may remove at all, as the system call checks that first.
            drop(parent_state);
            let locked = Locked::new(&[&parent, &file]);
            caller.check_removal(&locked.get(directory).attributes, &locked.get(file.ino()).attributes)?;
            return refuse(libc::EISDIR);
        }
        let mut state = file.write();
        caller.check_removal(&parent_state.attributes, &state.attributes)?;
        let now = self.now();
        let mut left = state.clone();
        let next = parent_state.with_entries(-1, 0, now);
        let mut batch = Batch::new();
        if !planted(Bug::RemovalNeedsRoom) {
            batch.set_frees_space();
        }
        batch.remove_entry(directory, name);
        self.drop_name(&mut left, now, &mut batch)?;
        next.put(&mut batch);
        left.put(&mut batch);
        self.commit_counted(&batch, left.dead())?;
        drop(batch);
        self.note_dropped(&left);
        *state = left;
        *parent_state = next;
        Ok(())
    }

    /// Removes the entry `name` of a directory, which must be an empty directory itself.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EINVAL` for ".", `EACCES`, `EPERM` in a sticky directory, `EROFS`, `EIO`.
    pub fn remove_directory(&self, caller: &Caller<'_>, directory: Ino, name: &[u8]) -> Result<()> {
        match name {
            b"." => return refuse(libc::EINVAL),
            b".." => return refuse(libc::ENOTEMPTY),
            _ => check_name(name)?,
        }
        let parent = self.nodes.pin(directory)?;
        if !parent.is_directory() {
            return refuse(libc::ENOTDIR);
        }
        loop {
            caller.check(&parent.read().attributes, crate::caller::EXECUTE)?;
            let child = self.find(directory, name)?;
            let mut locked = Locked::new(&[&parent, &child]);
            if self.entry_row(directory, name)?.is_none_or(|row| row.ino() != child.ino()) {
                continue;
            }
            let removed = locked.get(child.ino());
            caller.check_removal(&locked.get(directory).attributes, &removed.attributes)?;
            if !child.is_directory() {
                return refuse(libc::ENOTDIR);
            }
            if removed.entries() != 0 {
                return refuse(libc::ENOTEMPTY);
            }
            let now = self.now();
            let mut gone = removed.clone();
            let next = locked.get(directory).with_entries(-1, -1, now);
            let mut batch = Batch::new();
            batch.set_frees_space();
            batch.remove_entry(directory, name);
            self.drop_directory(&mut gone, now, &mut batch)?;
            next.put(&mut batch);
            self.commit_counted(&batch, -1)?;
            drop(batch);
            *locked.get_mut(child.ino()) = gone;
            *locked.get_mut(directory) = next;
            return Ok(());
        }
    }

    /// Removes one name of a file. With the last name the file's rows are removed, or the file becomes an orphan if it
    /// is open. The caller writes the entry itself and the row that is left.
    pub(super) fn drop_name(&self, file: &mut State, now: Time, batch: &mut Batch<'_>) -> Result<()> {
        file.attributes.ctime = now;
        file.attributes.nlink = file.attributes.nlink.saturating_sub(1);
        if file.attributes.nlink > 0 {
            return Ok(());
        }
        let ino = inode_key(file.attributes.ino);
        if file.opens > 0 {
            file.place = Place::Inode;
            file.attributes.flags |= IS_ORPHAN;
            batch.put(Space::Reclaim, ino, Debt::Orphan.encode(&ino));
            return Ok(());
        }
        self.remove_rows(file, batch)?;
        file.place = Place::Dead;
        Ok(())
    }

    /// Removes every row of a file that has no name: its own, those of its bytes and of its extended attributes. The
    /// file of an object is left to the background.
    pub(crate) fn remove_rows(&self, file: &State, batch: &mut Batch<'_>) -> Result<()> {
        let number = file.attributes.ino;
        let ino = inode_key(number);
        if file.place == Place::Inode {
            batch.remove(Space::Inodes, ino);
        }
        if file.is_object() {
            batch.remove(Space::Objects, ino);
            batch.put(Space::Reclaim, ino, Debt::Object.encode(&ino));
        } else if file.is_orphan() {
            batch.remove(Space::Reclaim, ino);
        }
        let leaves_data = planted(Bug::UnlinkLeavesData);
        if !leaves_data && !file.is_object() && file.attributes.kind == Kind::File && file.attributes.bytes > 0 {
            for row in self.store.rows(Space::Data, &data_key(number, 0), &data_key(number, u64::MAX)) {
                batch.remove(Space::Data, &*row?.0);
            }
        }
        self.remove_xattrs(file, batch)
    }

    /// Removes every row of an empty directory; the caller removes its entry.
    pub(super) fn drop_directory(&self, directory: &mut State, now: Time, batch: &mut Batch<'_>) -> Result<()> {
        batch.remove_entry(directory.attributes.ino, DirectoryRow::NAME);
        self.remove_xattrs(directory, batch)?;
        directory.place = Place::Dead;
        (directory.attributes.nlink, directory.attributes.ctime) = (0, now);
        Ok(())
    }

    fn remove_xattrs(&self, state: &State, batch: &mut Batch<'_>) -> Result<()> {
        if state.attributes.has(HAS_XATTRS) && !planted(Bug::XattrsLeft) {
            let ino = state.attributes.ino;
            for row in self.store.rows(Space::Xattrs, &inode_key(ino), &inode_key(ino + 1)) {
                batch.remove(Space::Xattrs, &*row?.0);
            }
        }
        Ok(())
    }

    /// Updates the memory after the batch that removed a name.
    pub(crate) fn note_dropped(&self, file: &State) {
        if file.is_dead() && file.is_object() {
            let mut tasks = self.tasks();
            tasks.dirty.remove(&file.attributes.ino);
            tasks.failed.remove(&file.attributes.ino);
            tasks.unlinked.insert(file.attributes.ino);
        }
    }

    /// Stores that an object has a file of its own.
    pub(crate) fn put_object(batch: &mut Batch<'_>, ino: Ino, epoch: u32) {
        batch.put(Space::Objects, inode_key(ino), encode_number(&inode_key(ino), u64::from(epoch)));
    }

    /// The file of a pin, if it is one.
    ///
    /// # Errors
    /// `EISDIR` for a directory, `EINVAL` for anything else that is no file.
    pub(crate) fn check_file(pin: &Pin<'_>) -> Result<()> {
        match pin.kind() {
            Kind::File => Ok(()),
            Kind::Directory => refuse(libc::EISDIR),
            _ => refuse(libc::EINVAL),
        }
    }
}
