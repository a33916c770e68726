//! Objects that somebody reads and writes without the volume, as the kernel does by FUSE passthrough.
//!
//! The volume does not see these writes. So from the first open for writing on, as long as the inode is in use:
//! - size and times are those of the object's file, each time they are asked for ([`Volume::attributes_of`]);
//! - the file is *watched*: each look for dirty objects compares the file's attributes with those of the previous look,
//!   and an object whose file has changed is dirty. A file may be mapped, and written after its last close; but then
//!   the kernel refers to the inode. So a file is watched until the inode is forgotten.

use crate::error::Result;
use crate::node::{Pin, State};
use crate::object::ObjectAttributes;
use crate::row::{Attributes, Ino, Time};
use crate::store::Promise;
use crate::volume::{Looks, Volume, Watched};
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

/// After this many looks without a change, an object that nobody has open is looked at more rarely.
const QUIET_LOOKS: u32 = 60;
/// Such an object is looked at once in this many looks.
const RARELY: u64 = 60;
/// Milliseconds after a change in which a second change may leave the file's time as it is.
const SAME_TIME_MS: i64 = 2000;

/// An object that somebody reads and writes without the volume.
pub struct SharedObject {
    /// Its file.
    pub file: Arc<File>,
    /// The promise of the row that leads to the object, if a power cut may still take that row. Until the row is
    /// durable, no sync of the file promises anything.
    pub row: Option<Box<dyn Promise>>,
}

impl Volume {
    /// Returns the file of an object. The caller has the inode open, and may read and write the file without the
    /// volume. If it writes, it calls [`Volume::end_share`] at the end. `None`: the bytes are in rows, or there is no
    /// file.
    ///
    /// # Errors
    /// `ESTALE`, `EIO`.
    pub fn share(&self, ino: Ino, is_written: bool) -> Result<Option<SharedObject>> {
        let pin = self.nodes.pin(ino)?;
        if !pin.read().is_object() {
            return Ok(None);
        }
        let mut state = pin.write();
        if state.is_dead() {
            return Ok(None);
        }
        let Some(file) = self.objects.file(ino)? else { return Ok(None) };
        if !is_written {
            return Ok(Some(SharedObject { file, row: None }));
        }
        let row = self.pending_row(&mut state)?;
        state.is_shared = true;
        let mut tasks = self.tasks();
        let watched = tasks.shared.entry(ino).or_default();
        (watched.writers, watched.quiet_looks) = (watched.writers + 1, 0);
        watched.shares += 1;
        Ok(Some(SharedObject { file, row }))
    }

    /// Ends what [`Volume::share`] began for writing. Returns whether the file has changed since anybody was told its
    /// size and times.
    ///
    /// # Errors
    /// `ESTALE`, `EIO`.
    pub fn end_share(&self, ino: Ino) -> Result<bool> {
        if let Some(watched) = self.tasks().shared.get_mut(&ino) {
            (watched.writers, watched.quiet_looks) = (watched.writers.saturating_sub(1), 0);
        }
        let pin = self.nodes.pin(ino)?;
        let mut state = pin.write();
        let before = state.attributes;
        self.refresh(&mut state)?;
        Ok(state.attributes != before)
    }

    /// The objects whose file others have changed since the last call, as the syncs in the background have seen it.
    pub fn take_changed(&self) -> BTreeSet<Ino> {
        std::mem::take(&mut self.tasks().changed)
    }

    /// The promise of the row of an object, if the row is of this mount and a power cut may take it.
    fn pending_row(&self, state: &mut State) -> Result<Option<Box<dyn Promise>>> {
        if state.attributes.epoch != self.epoch {
            return Ok(None);
        }
        let promoted = match &state.promoted {
            Some(promoted) => Arc::clone(promoted),
            // The inode was forgotten since its promotion, perhaps at once.
            None => Arc::from(self.store.promise()?),
        };
        state.promoted = Some(Arc::clone(&promoted));
        if promoted.is_durable() { Ok(None) } else { self.store.promise().map(Some) }
    }

    /// Attributes of an inode as they are now: those of a shared object are its file's.
    pub(crate) fn attributes_of(&self, state: &State) -> Result<Attributes> {
        let is_told_by_file = state.is_shared && !state.is_dead();
        if is_told_by_file { self.with_object(state.attributes) } else { Ok(state.attributes) }
    }

    pub(crate) fn pinned_attributes(&self, pin: &Pin<'_>) -> Result<Attributes> {
        self.attributes_of(&pin.read())
    }

    /// Takes size and times of a shared object from its file.
    pub(crate) fn refresh(&self, state: &mut State) -> Result<()> {
        state.attributes = self.attributes_of(state)?;
        Ok(())
    }

    /// Looks at the files of shared objects, and lists those that have changed as dirty. A file that cannot be looked
    /// at does not hold up the others; the first error is returned.
    pub(crate) fn look_at_shared(&self, looks: Looks) -> Result<()> {
        let watched: Vec<(Ino, Watched)> = {
            let mut tasks = self.tasks();
            tasks.looks += 1;
            let is_all = looks == Looks::All || tasks.looks.is_multiple_of(RARELY);
            let is_due = |watched: &Watched| is_all || watched.writers > 0 || watched.quiet_looks < QUIET_LOOKS;
            tasks.shared.iter().filter(|(_, watched)| is_due(watched)).map(|(&ino, &watched)| (ino, watched)).collect()
        };
        let mut looked = Ok(());
        for (ino, before) in watched {
            // Read before the look: nobody can write once the inode is forgotten.
            let is_in_use = self.nodes.try_pin(ino).is_some();
            let object = match self.objects.attributes(ino) {
                Ok(object) => object,
                Err(error) => {
                    looked = looked.and(Err(error));
                    continue;
                }
            };
            let has_changed = object.is_some() && object != before.seen;
            let mut tasks = self.tasks();
            if has_changed {
                tasks.dirty.insert(ino);
                tasks.changed.insert(ino);
            }
            let Some(watched) = tasks.shared.get_mut(&ino) else { continue };
            // An object that was opened during the look may be mapped, and is in use again.
            let is_as_before = watched.shares == before.shares;
            if is_as_before && (object.is_none() || !is_in_use && watched.writers == 0) {
                tasks.shared.remove(&ino);
            } else {
                watched.seen = object.filter(|object| self.is_settled(object));
                watched.quiet_looks = if has_changed { 0 } else { watched.quiet_looks.saturating_add(1) };
            }
        }
        looked
    }

    /// Whether a further change of a file would give it another time.
    fn is_settled(&self, object: &ObjectAttributes) -> bool {
        let ms = |time: Time| i128::from(time.seconds) * 1000 + i128::from(time.nanoseconds / 1_000_000);
        ms(self.now()) - ms(object.ctime) > i128::from(SAME_TIME_MS)
    }
}
