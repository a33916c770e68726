//! Appends records to the manifest in force, and syncs it.

use crate::error::{Error, ErrorKind, Result};
use crate::format::EditId;
use crate::lineage::book::Book;
use crate::lineage::manifest::fragments::frame;
use crate::lineage::manifest::record::Record;
use crate::lineage::open::Lineage;
use crate::lineage::removal::retained::{Handle, Input};
use crate::lineage::settle::ledger::{Ledger, Settled};
use crate::planted::{Bug, planted};
use crate::storage::File;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Where the next record goes, and its bytes.
struct Append {
    at: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl Lineage {
    /// Appends a `settled` record if one is due.
    pub(in crate::lineage) async fn record_settled(&self) -> Result<()> {
        let _turn = self.turn.lock(&self.environment).await;
        self.check()?;
        let due = {
            let book = self.book();
            book.ledger.to_record().filter(|_| !book.is_closed)
        };
        let Some(edit) = due else { return Ok(()) };
        let end = self.append(|synced| Record::Settled { edit }.payload(synced)).await?;
        let recorded = self.book().ledger.record(edit, end);
        recorded.map_err(|refusal| self.health.poison(Error::internal(refusal)))?;
        if planted(Bug::SettledAtOnce) {
            self.manifest_synced(end);
        }
        self.wake.notify_all();
        Ok(())
    }

    /// Appends a record that changes no state.
    pub(in crate::lineage) async fn append_record(&self, record: Record) -> Result<()> {
        let _turn = self.turn.lock(&self.environment).await;
        self.check()?;
        self.append(|synced| record.payload(synced)).await.map(drop)
    }

    /// Syncs the manifest as it is. Then notes that the outputs of the edits up to `sound` are durable.
    pub(in crate::lineage) async fn sync_manifest_after(&self, sound: Option<EditId>) -> Result<()> {
        let _syncing = self.syncing.lock(&self.environment).await;
        self.check()?;
        let end = self.sync_manifest().await?;
        let settled = {
            let book = &mut *self.book();
            if let Some(sound) = sound {
                book.ledger.make_sound(sound);
            }
            book.ledger.synced(end)
        };
        self.release(settled);
        Ok(())
    }

    /// Syncs the manifest until `done` returns true. One sync serves every caller that waits.
    pub(in crate::lineage) async fn sync_until(&self, done: impl Fn(&Ledger<Input>) -> bool) -> Result<()> {
        loop {
            if done(&self.book().ledger) {
                return Ok(());
            }
            let _syncing = self.syncing.lock(&self.environment).await;
            if done(&self.book().ledger) {
                return Ok(());
            }
            self.check()?;
            let end = self.sync_manifest().await?;
            self.manifest_synced(end);
        }
    }

    /// Syncs the manifest and returns how many of its bytes the sync covers. Bytes appended during the sync are not
    /// covered. The caller holds `syncing`.
    async fn sync_manifest(&self) -> Result<u64> {
        let (file, end) = {
            let book = self.book();
            (book.open.file.clone(), book.open.end)
        };
        file.sync().await.map_err(|error| self.health.poison(error))?;
        Ok(end)
    }

    /// Notes that the first `to` bytes of the manifest are durable, and releases the inputs and the log of the edits
    /// that this settles. The caller holds `syncing`.
    pub(in crate::lineage) fn manifest_synced(&self, to: u64) {
        let settled = self.book().ledger.synced(to);
        self.release(settled);
    }

    /// Releases the inputs and the log of newly settled edits: inputs when their last reader is gone, the log at once.
    /// The caller holds `syncing`, so the log is notified of edits in order.
    pub(in crate::lineage) fn release(&self, settled: Option<Settled<Input>>) {
        let Some(Settled { edit, log_start, inputs }) = settled else { return };
        if !inputs.is_empty() {
            self.retain(inputs);
        }
        self.log_and_tables().settled(edit, log_start);
        self.changed.notify_all();
        self.wake.notify_all();
    }

    /// Keeps tables until their last reader is gone. Then they may go.
    fn retain(&self, inputs: impl IntoIterator<Item = Input>) {
        let mut book = self.book();
        book.retained.keep(inputs);
        self.readers_awaited.store(true, Ordering::Relaxed);
        // Orders the store before the remover's look at the readers. The counterpart is in `readers_left`.
        fence(Ordering::SeqCst);
    }

    /// Removes outputs of an edit that was refused, once no reader holds them: readers of a directory keyspace may see
    /// outputs before the edit is in force.
    pub(crate) fn discard(&self, outputs: Vec<Handle>) {
        self.retain(outputs.into_iter().map(Input::from));
        self.wake.notify_all();
    }

    /// Appends a record and returns where it ends. The caller holds `turn`. After `NoSpace` the manifest is unchanged.
    pub(in crate::lineage) async fn append(&self, payload: impl FnOnce(u64) -> Vec<u8>) -> Result<u64> {
        let (file, append) = {
            let book = self.book();
            (book.open.file.clone(), book.next_append(payload))
        };
        let mut written = file.write_all_at(append.at, &append.bytes).await;
        if is_full(&written) && self.space.give_up_reserve() {
            written = file.write_all_at(append.at, &append.bytes).await;
        }
        self.appended(&**file.file(), append, written)
    }

    /// Does what [`Lineage::append`] does, for a foreground caller.
    pub(in crate::lineage) fn append_blocking(&self, record: &Record) -> Result<u64> {
        let (file, append) = {
            let book = self.book();
            (Arc::clone(book.open.file.file()), book.next_append(|synced| record.payload(synced)))
        };
        let mut written = file.write_all_at(append.at, &append.bytes);
        if is_full(&written) && self.space.give_up_reserve() {
            written = file.write_all_at(append.at, &append.bytes);
        }
        self.appended(&*file, append, written)
    }

    /// Notes a completed append. Cuts off an incomplete one, so that the next append finds the old end of the manifest.
    fn appended(&self, file: &dyn File, append: Append, written: Result<()>) -> Result<u64> {
        match written {
            Ok(()) => {
                self.book().open.end = append.end;
                self.metrics.manifest_written_bytes.add(append.bytes.len() as u64);
                Ok(append.end)
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                file.set_bytes(append.at).map_err(|error| self.health.poison(error))?;
                Err(error)
            }
            Err(error) => Err(self.health.poison(error)),
        }
    }
}

impl Book {
    /// Lays out the next record at the end of the manifest. `payload` is given how many bytes are durable.
    fn next_append(&self, payload: impl FnOnce(u64) -> Vec<u8>) -> Append {
        let at = self.open.end;
        let mut bytes = Vec::new();
        let end = frame(&mut bytes, self.open.generation, at, &payload(self.ledger.synced_bytes()));
        Append { at, end, bytes }
    }
}

/// Returns whether the disk was full.
pub(in crate::lineage) fn is_full(written: &Result<()>) -> bool {
    written.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace)
}
