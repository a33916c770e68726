//! Open, close and sync of files.

use crate::caller::Caller;
use crate::error::{Result, refuse};
use crate::node::{Pin, Place};
use crate::planted::{Bug, planted};
use crate::row::{Attributes, Ino};
use crate::store::{Batch, Promise};
use crate::volume::Volume;

impl Volume {
    /// Opens a file or a directory for `access` ([`READ`](crate::READ), [`WRITE`](crate::WRITE)). The inode stays while
    /// it is open, also without a name. The open is a reference of its own to the inode; [`Volume::release`] ends it.
    ///
    /// # Errors
    /// `EACCES`; `EISDIR` for a directory and writing; `ESTALE` for an inode that is gone.
    pub fn open(&self, caller: &Caller<'_>, ino: Ino, access: u8) -> Result<Attributes> {
        let pin = self.nodes.pin(ino)?;
        if pin.is_directory() && access & crate::caller::WRITE != 0 {
            return refuse(libc::EISDIR);
        }
        let mut state = pin.write();
        // A removed directory may be somebody's working directory, and has no entries.
        if state.is_dead() && !pin.is_directory() {
            return refuse(libc::ESTALE);
        }
        caller.check(&state.attributes, access)?;
        // These attributes are not kept in the state: an open tells the kernel none, and the end of a share compares
        // with those that the kernel was told.
        let attributes = self.attributes_of(&state)?;
        state.opens += 1;
        pin.keep();
        Ok(attributes)
    }

    /// Ends an open. The end of the last open removes a file without a name.
    ///
    /// # Errors
    /// `EIO`, `EROFS`: the open has ended; a file without a name goes with the next mount.
    pub fn release(&self, ino: Ino) -> Result<()> {
        let pin = self.nodes.pin(ino)?;
        let done = self.release_pinned(&pin);
        self.forget(ino, 1);
        done
    }

    fn release_pinned(&self, pin: &Pin<'_>) -> Result<()> {
        let mut state = pin.write();
        state.opens = state.opens.saturating_sub(1);
        if state.opens > 0 || !state.is_orphan() {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.set_frees_space();
        self.remove_rows(&state, &mut batch)?;
        self.commit_counted(&batch, -1)?;
        state.place = Place::Dead;
        self.note_dropped(&state);
        Ok(())
    }

    /// Makes everything durable that was done to an inode, its name and its bytes.
    ///
    /// # Errors
    /// `EIO`, `EROFS`: it may not be durable.
    pub fn sync_file(&self, ino: Ino) -> Result<()> {
        self.sync_object_of(ino)?;
        if planted(Bug::SyncDoesNotWait) { Ok(()) } else { self.store.promise()?.wait() }
    }

    /// Makes the object's bytes durable, which is the first half of a sync. This waits for the device. The second half
    /// need not wait: the returned promise tells when it is done.
    ///
    /// # Errors
    /// `EIO`, `EROFS`.
    pub fn begin_sync(&self, ino: Ino) -> Result<Box<dyn Promise>> {
        self.sync_object_of(ino)?;
        self.store.promise()
    }

    /// Whether a sync of an inode waits for the device itself, and not only for the log.
    pub fn has_object(&self, ino: Ino) -> bool {
        self.nodes.try_pin(ino).is_some_and(|pin| pin.read().is_object())
    }

    fn sync_object_of(&self, ino: Ino) -> Result<()> {
        let pin = self.nodes.pin(ino)?;
        // From here on no promotion may skip its sync: the rows will be durable when the caller is told so.
        pin.write().first_write = None;
        self.sync_if_dirty(&pin)
    }

    /// Syncs an object's bytes if they are dirty. Must precede the replacement of another file by the object, or a
    /// power cut could leave neither.
    pub(crate) fn sync_if_dirty(&self, pin: &Pin<'_>) -> Result<()> {
        let state = pin.read();
        let (is_there, attributes) = (state.is_object() && !state.is_dead(), state.attributes);
        drop(state);
        if !is_there {
            return Ok(());
        }
        self.sync_inherited_objects()?;
        let done = self.with_file(&attributes, || self.sync_object(attributes.ino));
        // Its last name may have gone meanwhile, and its file with it.
        if done.is_err() && pin.read().is_dead() { Ok(()) } else { done }
    }
}
