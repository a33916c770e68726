//! Background work: [`Volume::work`] and [`Volume::recount`]. A volume starts no thread; its owner calls these.
//!
//! - Objects that were written are synced, within a second of being written if `work` is called that often; many of
//!   them by one sync of the file system that they are on.
//! - The file of an object without a name is removed, in steps, once no power cut can bring the name back. After an
//!   earlier removal the name could lead to an empty file.
//! - Orphans of an earlier mount are removed: files that were open when they lost their last name.
//! - After a volume was left without a close, object files that no row knows are removed. A promotion that a crash cut
//!   short leaves such a file.
//!
//! `left.rs`: [`Reclaimable`], what is left to remove. `recount.rs`: [`Volume::recount`], how many inodes there are.
//!
//! On a full disk, [`Volume::make_room`] frees the space of removed files at once.
//!
//! Locks: `syncing`, over the syncs of all dirty objects; that of an object in `object_syncs`, over its sync;
//! `removing`, over the removal of objects without a name; an inode's, one at a time, never over a sync; `searching`,
//! over the removal of a file that no row knows, so that no promotion can begin to write to it.

mod left;
mod recount;

pub use left::Reclaimable;

use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use crate::row::{Debt, Ino, inode_key, inode_of};
use crate::store::{Batch, Space};
use crate::volume::{Inherited, Looks, OBJECT_SYNCS, Volume};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// A file is cut by this many bytes at a time before it is removed, so that no journal is full of one removal.
const CUT_BYTES: u64 = 1 << 30;
/// How many debts of an earlier mount are paid in one call.
const DEBTS_PER_CALL: usize = 256;

/// The result of a call of [`Volume::work`].
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
            are_synced_singly: false,
        };
    }

    /// Whether the volume must be searched for objects that no row knows.
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
    /// `EIO`, `EROFS`, `ENOSPC`: what could not be done is tried again by a later call. The text has the errors of all
    /// parts of the work, the number is that of the first.
    pub fn work(&self) -> Result<Work> {
        // A part that fails does not hold up the others.
        let mut work = Work::default();
        let synced = self.sync_objects(Looks::Recent);
        let paid = self.pay_debts(&mut work);
        let searched = self.search_for_unknown_objects();
        let removed = self.remove_unlinked();
        work.is_behind = self.tasks().inherited.debts_from.is_some();
        let mut failures = Vec::new();
        let mut done = |part: Result<u64>| part.map_err(|error| failures.push(error)).unwrap_or(0);
        work.synced = done(synced);
        done(paid.map(|()| 0));
        work.removed = done(searched) + done(removed);
        Error::of_all(failures).map_or(Ok(work), Err)
    }

    fn search_for_unknown_objects(&self) -> Result<u64> {
        if !self.tasks().inherited.has_unknown_objects {
            return Ok(0);
        }
        let removed = self.remove_unknown_objects()?;
        self.tasks().inherited.has_unknown_objects = false;
        Ok(removed)
    }

    /// Syncs the objects that were written before this call, by this mount or by one that was killed. Returns the
    /// number of objects of this mount. Later writes are left to the next call: somebody may write to an object without
    /// a pause.
    pub(crate) fn sync_objects(&self, looks: Looks) -> Result<u64> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_inherited()?;
        let looked = self.look_at_shared(looks);
        let dirty = std::mem::take(&mut self.tasks().dirty);
        let (mut synced, mut failure) = (0, looked.err());
        let is_synced = dirty.len() > self.limits.synced_singly_max && self.sync_together(&dirty);
        if is_synced {
            synced = dirty.len() as u64;
        }
        for ino in dirty.into_iter().filter(|_| !is_synced) {
            match self.sync_dirty(ino) {
                Ok(is_synced) => synced += u64::from(is_synced),
                Err(error) => {
                    self.tasks().dirty.insert(ino);
                    failure = failure.or(Some(error));
                }
            }
        }
        let lost = self.tasks().failed.first().map(|ino| lost(*ino));
        lost.or(failure).map_or(Ok(synced), Err)
    }

    /// Syncs, by one call, many objects that were listed as dirty. Returns `false` if the call failed. The error may be
    /// of a foreign file; a sync of each object by itself tells.
    fn sync_together(&self, dirty: &BTreeSet<Ino>) -> bool {
        for ino in dirty {
            if let Some(pin) = self.nodes.try_pin(*ino) {
                pin.write().is_dirty = false;
            }
        }
        self.objects.sync_all().is_ok() || planted(Bug::SyncOfManySwallowed)
    }

    /// Syncs an object that was listed as dirty. Returns `false` for one of which nothing can be synced any more.
    ///
    /// # Errors
    /// A later call may succeed.
    fn sync_dirty(&self, ino: Ino) -> Result<bool> {
        if let Some(pin) = self.nodes.try_pin(ino) {
            // A thread that writes now has the lock, and lists the object again only after this.
            pin.write().is_dirty = false;
        }
        match self.sync_object(ino) {
            Ok(()) => Ok(true),
            // Unlinked meanwhile, or its promotion has failed.
            Err(_) if self.objects.attributes(ino)?.is_none() => {
                self.tasks().failed.remove(&ino);
                Ok(false)
            }
            Err(_) if self.tasks().failed.contains(&ino) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Syncs an object. A failure lasts to the end of this mount, because the kernel reports it only once, to one of
    /// the callers that sync at that time. The next sync would succeed, although bytes are lost. So one thread at a
    /// time syncs an object, and later callers get the error, too.
    pub(crate) fn sync_object(&self, ino: Ino) -> Result<()> {
        let alone = &self.object_syncs[(ino % OBJECT_SYNCS as u64) as usize];
        let _alone = alone.lock().unwrap_or_else(PoisonError::into_inner);
        if self.tasks().failed.contains(&ino) {
            return Err(lost(ino));
        }
        let done = self.objects.sync(ino);
        // Without a descriptor or memory nothing was tried, and nothing is lost.
        let was_tried =
            |error: &Error| !matches!(error.errno(), libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR);
        // A file that a power cut took is missing, and nothing of it can be lost now.
        if done.as_ref().is_err_and(was_tried) && self.objects.attributes(ino)?.is_some() {
            self.tasks().failed.insert(ino);
        }
        done
    }

    /// Syncs everything that an earlier process may have left unsynced. Must precede the first sync of an object after
    /// an unclean mount. Names are included, because a sync of one object makes its name durable only if this process
    /// created it.
    ///
    /// # Errors
    /// A later call tries again. What a failed sync has lost stays lost: its objects are in `failed` then.
    pub(crate) fn sync_inherited_objects(&self) -> Result<()> {
        if !self.tasks().inherited.has_unsynced_objects {
            return Ok(());
        }
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_inherited()
    }

    /// As [`Volume::sync_inherited_objects`], with `syncing` locked.
    fn sync_inherited(&self) -> Result<()> {
        let inherited = self.tasks().inherited;
        if !inherited.has_unsynced_objects {
            return Ok(());
        }
        let mut told = None;
        if !inherited.are_synced_singly {
            told = self.objects.sync_all().err();
            // The kernel reports lost bytes once. The next sync of all would succeed; the sync of an object reports its
            // own loss.
            self.tasks().inherited.are_synced_singly = told.is_some() && !planted(Bug::FailedSyncForgotten);
        }
        if self.tasks().inherited.are_synced_singly {
            self.sync_inherited_singly()?;
            self.objects.sync_all()?;
        } else if let Some(error) = told {
            return Err(error);
        }
        let mut tasks = self.tasks();
        tasks.inherited.has_unsynced_objects = false;
        // No object is known to have lost bytes: the error is of a foreign file, or of one that the kernel has let go.
        told.filter(|_| tasks.failed.is_empty()).map_or(Ok(()), Err)
    }

    /// Syncs each object that has a row, so that those which have lost bytes are in `failed`.
    fn sync_inherited_singly(&self) -> Result<()> {
        for ino in self.objects.list()? {
            if self.store.row(Space::Objects, &inode_key(ino))?.is_none() {
                continue;
            }
            if let Err(error) = self.sync_object(ino)
                && !self.tasks().failed.contains(&ino)
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether [`Volume::make_room`] may give room: files are gone whose objects the background has not removed yet.
    pub fn may_make_room(&self) -> bool {
        !self.tasks().unlinked.is_empty()
    }

    /// Removes the objects of removed files at once, instead of leaving them to [`Volume::work`]. For a caller whose
    /// operation got `ENOSPC`: it should try again. Waits until the removals of the names are durable.
    ///
    /// # Errors
    /// As for [`Volume::work`].
    pub fn make_room(&self) -> Result<()> {
        self.remove_unlinked().map(drop)
    }

    /// Removes the files of objects without a name, once the removal of the name is durable.
    fn remove_unlinked(&self) -> Result<u64> {
        let _removing = self.removing.lock().unwrap_or_else(PoisonError::into_inner);
        let unlinked: Vec<Ino> = self.tasks().unlinked.iter().copied().collect();
        if unlinked.is_empty() {
            return Ok(0);
        }
        if !planted(Bug::ObjectRemovedEarly) {
            self.store.promise()?.wait()?;
        }
        let (mut removed, mut failure) = (0, None);
        for &ino in &unlinked {
            match self.remove_object(ino) {
                Ok(is_removed) => removed += u64::from(is_removed),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(removed), Err)
    }

    /// Removes the file of an object without a name, and the debt. Returns `false` if the file must stay for now.
    fn remove_object(&self, ino: Ino) -> Result<bool> {
        // Somebody may have it mapped: its bytes stay until the kernel forgets the inode.
        let is_in_use = self.nodes.try_pin(ino).is_some();
        if is_in_use && self.objects.attributes(ino)?.is_some_and(|object| object.size > CUT_BYTES) {
            return Ok(false);
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
        Ok(true)
    }

    /// Pays some of the debts that the previous mount has left. A debt that a damaged row keeps from being paid is left
    /// to the next mount, and the error says so.
    fn pay_debts(&self, work: &mut Work) -> Result<()> {
        let Some(from) = self.tasks().inherited.debts_from else { return Ok(()) };
        let mut debts = Vec::new();
        for row in self.store.rows(Space::Reclaim, &inode_key(from), &inode_key(Ino::MAX)).take(DEBTS_PER_CALL) {
            let (key, row) = row?;
            let ino = inode_of(&key).unwrap_or(0);
            debts.push((ino, Debt::decode(&inode_key(ino), &row)));
        }
        let last = debts.last().filter(|_| debts.len() == DEBTS_PER_CALL).map(|(ino, _)| *ino);
        let mut damage = None;
        for (ino, debt) in debts {
            let paid = match debt {
                Ok(Debt::Object) => {
                    self.tasks().unlinked.insert(ino);
                    Ok(false)
                }
                Ok(Debt::Orphan) if planted(Bug::OrphanKept) => Ok(false),
                Ok(Debt::Orphan) => self.remove_orphan(ino),
                Err(error) => Err(error),
            };
            match paid {
                Ok(is_removed) => work.orphans += u64::from(is_removed),
                Err(error) if error.errno() == libc::EIO => damage = damage.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        self.tasks().inherited.debts_from = last.map(|ino| ino + 1);
        damage.map_or(Ok(()), Err)
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
            let _searching = self.searching.lock().unwrap_or_else(PoisonError::into_inner);
            // A promotion is in `promoted` before its file is there, and until its row is there: so `promoted` is read
            // first.
            let is_promoted = self.tasks().promoted.contains(&ino);
            if !is_promoted && !is_known(ino)? {
                // Makes the file durably empty first: a power cut may bring its name back after a later promotion has
                // written there.
                self.objects.truncate(ino, 0)?;
                self.objects.sync(ino)?;
                self.objects.remove(ino)?;
                self.tasks().has_removed = true;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn lost(ino: Ino) -> Error {
    Error::explained(libc::EIO, format!("object {ino} could not be synced, and may have lost what was written to it"))
}
