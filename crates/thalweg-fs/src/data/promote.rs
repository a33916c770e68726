//! From rows to an object, and what the volume keeps of objects in memory.

use super::rows::RowChange;
use crate::error::Result;
use crate::node::State;
use crate::planted::{Bug, planted};
use crate::row::{Attributes, IS_OBJECT, Ino};
use crate::store::Batch;
use crate::volume::Volume;
use std::sync::{Arc, PoisonError};

impl Volume {
    /// Moves the bytes of a file from rows to an object. The caller has the file's exclusive lock.
    ///
    /// The object is synced first unless no row can be durable yet: the file's first bytes were written so lately that
    /// a power cut takes the rows as well. A file that replaced another is synced, as the other's bytes are gone.
    ///
    /// Rows may become durable while their bytes are copied. A sync of this file that began before has left no
    /// `first_write`. A sync of the volume looks for dirty objects once the log is durable. The object is listed as
    /// dirty before this call looks at the rows for the last time, so this call or that sync syncs the object.
    pub(crate) fn promote(&self, state: &mut State) -> Result<()> {
        let ino = state.attributes.ino;
        // Listed before the file is there, so that the search for objects without a row skips it.
        {
            let _searching = self.searching.lock().unwrap_or_else(PoisonError::into_inner);
            self.tasks().promoted.insert(ino);
        }
        let mut is_committing = false;
        let done = self.promote_noted(state, &mut is_committing);
        if let Err(error) = &done {
            self.tasks().dirty.remove(&ino);
            state.is_dirty = false;
            // A failed batch may be in the log, and the object then has the file's bytes. So the object is removed only
            // if the batch is known not to be in the log. Otherwise the next mount finds out.
            let is_refused = !is_committing || error.errno() == libc::ENOSPC;
            if is_refused {
                self.remove_promoted(ino);
            }
        }
        self.tasks().promoted.remove(&ino);
        done
    }

    /// Removes the file of a promotion that has failed. No row knows the file. A close makes the removal durable; if
    /// the file cannot be removed now, the search for unknown objects removes it.
    fn remove_promoted(&self, ino: Ino) {
        let removed = self.objects.remove(ino);
        let mut tasks = self.tasks();
        tasks.has_removed |= !planted(Bug::PromotionRemovedUnsynced);
        tasks.inherited.has_unknown_objects |= removed.is_err();
    }

    fn promote_noted(&self, state: &mut State, is_committing: &mut bool) -> Result<()> {
        let (ino, size) = (state.attributes.ino, state.attributes.size);
        let first_write = state.first_write.clone();
        let is_durable = || size > 0 && first_write.as_ref().is_none_or(|first| first.is_durable());
        // A power cut may have undone a promotion and left its file. The bytes of that file must not come back with the
        // next cut.
        let is_stale = self.objects.attributes(ino)?.is_some();
        self.objects.create(ino)?;
        let mut changes = Vec::new();
        for row in self.data_rows(ino, 0..u64::MAX)? {
            self.objects.write_at(ino, row.offset, &row.bytes)?;
            changes.push(RowChange::remove_at(row.offset));
        }
        if size > 0 {
            self.objects.truncate(ino, size)?;
        }
        self.objects.set_mtime(ino, state.attributes.mtime)?;
        let is_stale = is_stale && !planted(Bug::StaleObjectTrusted);
        self.note_dirty(state);
        if (is_durable() || is_stale) && !planted(Bug::PromotionNotSynced) {
            self.objects.sync(ino)?;
        }
        let mut next = state.clone();
        next.attributes.flags |= IS_OBJECT;
        next.attributes.epoch = self.epoch;
        let mut batch = Batch::new();
        for change in changes.iter().filter(|_| !planted(Bug::PromotionLeavesRows)) {
            change.put(ino, &mut batch);
        }
        Self::put_object(&mut batch, ino, self.epoch);
        next.put(&mut batch);
        *is_committing = true;
        self.commit(&batch)?;
        drop(batch);
        // None if there can be no promises any more: the rows are gone all the same.
        next.promoted = self.store.promise().ok().map(Arc::from);
        *state = next;
        self.take_object_size(state)
    }

    /// Whether a write of `ino` that ends at `end` would move the file's bytes to an object. That copies them and may
    /// wait for the device. An empty file becomes an object without that.
    pub fn would_promote(&self, ino: Ino, end: u64) -> bool {
        let moves_bytes = |state: &State| state.attributes.size > 0 && self.must_promote(state, end);
        self.nodes.try_pin(ino).is_some_and(|pin| moves_bytes(&pin.read()))
    }

    pub(super) fn must_promote(&self, state: &State, end: u64) -> bool {
        let is_too_large = end > self.limits.rows_bytes_max;
        !state.is_object() && (is_too_large || state.rewritten_bytes > self.limits.rewritten_bytes_max)
    }

    /// Notes that an object is written now, so that the background syncs it.
    pub(crate) fn note_dirty(&self, state: &mut State) {
        if !state.is_dirty {
            state.is_dirty = true;
            self.tasks().dirty.insert(state.attributes.ino);
        }
    }

    /// Makes a call on the file of an object. A power cut may have taken a file of an earlier mount that was never
    /// synced: the object is empty then, and gets a file again.
    pub(crate) fn with_file(&self, attributes: &Attributes, call: impl Fn() -> Result<()>) -> Result<()> {
        let done = call();
        let is_old = attributes.epoch != self.epoch;
        if done.is_err() && is_old && self.objects.attributes(attributes.ino)?.is_none() {
            self.objects.create(attributes.ino)?;
            return call();
        }
        done
    }

    /// Takes size and times from the object's file.
    pub(crate) fn take_object_size(&self, state: &mut State) -> Result<()> {
        state.attributes = self.with_object(state.attributes)?;
        Ok(())
    }
}
