//! What is done in the background: [`Volume::work`] and [`Volume::recount`]. A volume starts no thread; whoever has it
//! calls these.
//!
//! - Objects that were written are synced, within a second of being written if `work` is called that often.
//! - The file of an object without a name goes, in steps, once no power cut can bring the name back: before, the name
//!   would lead to an empty file.
//! - Orphans of an earlier mount go: files that were open when their last name went.
//! - After a volume was left without a close: object files that no row knows go. A promotion that a crash cut short
//!   leaves one.
//!
//! `left.rs`: [`Reclaimable`], what is left to remove. `recount.rs`: [`Volume::recount`], how many inodes there are.
//!
//! On a full disk the space of files that are gone is there at once: [`Volume::make_room`].
//!
//! Locks: `syncing`, over the syncs of all dirty objects; `removing`, over the removal of objects without a name; an
//! inode's, one at a time, never over a sync; `tasks`, over the removal of a file that no row knows, so that no
//! promotion can begin to write to it.

mod left;
mod recount;

pub use left::Reclaimable;

use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use crate::row::{Debt, Ino, inode_key, inode_of};
use crate::store::{Batch, Space};
use crate::volume::{Inherited, Looks, Volume};
use std::sync::PoisonError;

/// A file is cut by this many bytes at a time before it is removed, so that no journal is full of one removal.
const CUT_BYTES: u64 = 1 << 30;
/// How many debts of an earlier mount are paid in one call.
const DEBTS_PER_CALL: usize = 256;

/// What a call of [`Volume::work`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Objects synced.
    pub synced: u64,
    /// Files of objects removed.
    pub removed: u64,
    /// Orphans of an earlier mount removed.
    pub orphans: u64,
    /// Whether work of an earlier mount is left.
    pub is_behind: bool,
}

impl Volume {
    /// Notes what an earlier mount has left.
    pub(crate) fn inherit(&self, was_clean: bool) {
        self.tasks().inherited = Inherited {
            debts_from: Some(0),
            has_unknown_objects: !was_clean,
            has_unknown_totals: !was_clean,
            has_unsynced_objects: !was_clean && !planted(Bug::KilledNotSynced),
        };
    }

    /// Whether the search for objects that no row knows is still to be done.
    pub(crate) fn has_unknown_objects(&self) -> bool {
        self.tasks().inherited.has_unknown_objects && !planted(Bug::UnknownObjectsForgotten)
    }

    /// Makes the removals of object files durable. No row remembers these objects, and after a close nobody looks for
    /// files that a power cut has brought back.
    pub(crate) fn sync_removals(&self) -> Result<()> {
        if self.tasks().has_removed {
            self.objects.sync_all()?;
            self.tasks().has_removed = false;
        }
        Ok(())
    }

    /// Does what is due in the background. To be called about once a second, and again at once while
    /// [`Work::is_behind`].
    ///
    /// # Errors
    /// `EIO`, `EROFS`, `ENOSPC`: what could not be done is tried again by a later call.
    pub fn work(&self) -> Result<Work> {
        // An object that cannot be synced holds nothing else up.
        let (mut work, synced) = (Work::default(), self.sync_objects(Looks::Recent));
        self.pay_debts(&mut work)?;
        if self.tasks().inherited.has_unknown_objects {
            work.removed += self.remove_unknown_objects()?;
            self.tasks().inherited.has_unknown_objects = false;
        }
        work.removed += self.remove_unlinked()?;
        work.is_behind = self.tasks().inherited.debts_from.is_some();
        work.synced = synced?;
        Ok(work)
    }

    /// Syncs the objects that were written, by this mount or one that was killed. Returns how many of this one.
    pub(crate) fn sync_objects(&self, looks: Looks) -> Result<u64> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_inherited_objects()?;
        self.look_at_shared(looks)?;
        let mut synced = 0;
        loop {
            let Some(ino) = self.tasks().dirty.pop_first() else { break };
            if let Some(pin) = self.nodes.try_pin(ino) {
                pin.write().is_dirty = false;
            }
            match self.sync_object(ino) {
                Ok(()) => synced += 1,
                // Unlinked meanwhile, or its promotion has failed.
                Err(_) if self.objects.attributes(ino)?.is_none() => _ = self.tasks().failed.remove(&ino),
                Err(_) if self.tasks().failed.contains(&ino) => {}
                Err(error) => {
                    self.tasks().dirty.insert(ino);
                    return Err(error);
                }
            }
        }
        match self.tasks().failed.first() {
            Some(ino) => Err(lost(*ino)),
            None => Ok(synced),
        }
    }

    /// Syncs an object. A failure lasts to the end of this mount: the next sync of the kernel's would succeed, and
    /// nothing of what was lost would be there.
    pub(crate) fn sync_object(&self, ino: Ino) -> Result<()> {
        if self.tasks().failed.contains(&ino) {
            return Err(lost(ino));
        }
        let done = self.objects.sync(ino);
        let has_failed = done.as_ref().is_err_and(|error| error.errno() == libc::EIO);
        // A file that a power cut took is missing, and nothing of it can be lost now.
        if has_failed && self.objects.attributes(ino)?.is_some() {
            self.tasks().failed.insert(ino);
        }
        done
    }

    /// Before the first sync of an object after an unclean mount: all that the process before may have left unsynced,
    /// names too, which a sync of one object makes durable only if this process gave them.
    pub(crate) fn sync_inherited_objects(&self) -> Result<()> {
        if self.tasks().inherited.has_unsynced_objects {
            self.objects.sync_all()?;
            self.tasks().inherited.has_unsynced_objects = false;
        }
        Ok(())
    }

    /// Whether [`Volume::make_room`] may give room: files are gone whose objects the background has not removed yet.
    pub fn may_make_room(&self) -> bool {
        !self.tasks().unlinked.is_empty()
    }

    /// Removes the objects of files that are gone now, instead of leaving them to [`Volume::work`]. For a caller whose
    /// operation got `ENOSPC`: it should try again. Waits until the removals of the names are durable.
    ///
    /// # Errors
    /// As for [`Volume::work`].
    pub fn make_room(&self) -> Result<()> {
        self.remove_unlinked().map(drop)
    }

    /// Removes the files of objects without a name, once that is durable.
    fn remove_unlinked(&self) -> Result<u64> {
        let _removing = self.removing.lock().unwrap_or_else(PoisonError::into_inner);
        let unlinked: Vec<Ino> = self.tasks().unlinked.iter().copied().collect();
        if unlinked.is_empty() {
            return Ok(0);
        }
        if !planted(Bug::ObjectRemovedEarly) {
            self.store.promise()?.wait()?;
        }
        let mut removed = 0;
        for &ino in &unlinked {
            // Somebody may have it mapped: its bytes stay until the kernel forgets the inode.
            let is_in_use = self.nodes.try_pin(ino).is_some();
            if is_in_use && self.objects.attributes(ino)?.is_some_and(|object| object.size > CUT_BYTES) {
                continue;
            }
            while let Some(object) = self.objects.attributes(ino)?
                && object.size > CUT_BYTES
            {
                self.objects.truncate(ino, object.size - CUT_BYTES)?;
            }
            self.objects.remove(ino)?;
            self.tasks().has_removed = true;
            let mut batch = Batch::new();
            batch.set_frees_space();
            batch.remove(Space::Reclaim, inode_key(ino));
            self.commit(&batch)?;
            self.tasks().unlinked.remove(&ino);
            removed += 1;
        }
        Ok(removed)
    }

    /// Pays some of the debts that the mount before has left.
    fn pay_debts(&self, work: &mut Work) -> Result<()> {
        let Some(from) = self.tasks().inherited.debts_from else { return Ok(()) };
        let mut debts = Vec::new();
        for row in self.store.rows(Space::Reclaim, &inode_key(from), &inode_key(Ino::MAX)).take(DEBTS_PER_CALL) {
            let (key, row) = row?;
            let ino = inode_of(&key).unwrap_or(0);
            debts.push((ino, Debt::decode(&inode_key(ino), &row)?));
        }
        for &(ino, debt) in &debts {
            match debt {
                Debt::Object => _ = self.tasks().unlinked.insert(ino),
                Debt::Orphan if planted(Bug::OrphanKept) => {}
                Debt::Orphan => work.orphans += u64::from(self.remove_orphan(ino)?),
            }
        }
        let last = debts.last().filter(|_| debts.len() == DEBTS_PER_CALL);
        self.tasks().inherited.debts_from = last.map(|(ino, _)| ino + 1);
        Ok(())
    }

    /// Removes an orphan, unless it is one of this mount that somebody has open.
    fn remove_orphan(&self, ino: Ino) -> Result<bool> {
        let pin = loop {
            let seen = self.nodes.removals();
            if let Some(pin) = self.nodes.try_pin(ino) {
                break pin;
            }
            if self.store.row(Space::Inodes, &inode_key(ino))?.is_none() {
                return Ok(false);
            }
            if let Some(pin) = self.nodes.enter(&seen, self.inode_state(ino)?) {
                break pin;
            }
        };
        let mut state = pin.write();
        if state.opens > 0 || !state.is_orphan() || state.is_dead() {
            return Ok(false);
        }
        let mut batch = Batch::new();
        batch.set_frees_space();
        self.remove_rows(&state, &mut batch)?;
        self.commit_counted(&batch, -1)?;
        state.place = crate::node::Place::Dead;
        self.note_dropped(&state);
        Ok(true)
    }

    /// Removes the files of objects that no row knows.
    fn remove_unknown_objects(&self) -> Result<u64> {
        let is_known = |ino| -> Result<bool> {
            let key = inode_key(ino);
            Ok(self.store.row(Space::Objects, &key)?.is_some() || self.store.row(Space::Reclaim, &key)?.is_some())
        };
        let mut removed = 0;
        for ino in self.objects.list()? {
            if is_known(ino)? {
                continue;
            }
            // A promotion is in `promoted` before its file is there, and until its row is: look there first.
            let mut tasks = self.tasks();
            if !tasks.promoted.contains(&ino) && !is_known(ino)? {
                // Empty for good first: a power cut may bring the name back, under which a later promotion has written.
                self.objects.truncate(ino, 0)?;
                self.objects.sync(ino)?;
                self.objects.remove(ino)?;
                tasks.has_removed = true;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn lost(ino: Ino) -> Error {
    Error::explained(libc::EIO, format!("object {ino} could not be synced, and may have lost what was written to it"))
}
