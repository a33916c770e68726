//! [`Lineage::install`]: an edit on its way into the manifest, and the appends and syncs it is made of.
//!
//! With [`Rule::Rounds`] an edit is appended and readers are switched, and nothing waits: outputs, log and manifest
//! become durable in a round ([`super::round`]). A record on the medium may then name outputs that are not there;
//! recovery verifies those of every unsettled edit, and the inputs are still there.
//!
//! With [`Rule::EachEdit`] (DESIGN 6; NOB-A2, A5): log durable to the edit's sequence number, unless the log is not
//! needed before that; outputs and their names durable; record appended; readers switched; manifest synced (one sync
//! for every edit appended before it: X3); `settled` appended.
//!
//! Invariant: once an edit is settled, a reading of the log from where the state says ends at or after the state's
//! sequence number (`docs/log.md`, What a flush need not make durable).

use crate::error::{Error, ErrorKind, Result};
use crate::format::{EditId, LogMark, SeqNo, TableId};
use crate::lineage::manifest::fragments::frame;
use crate::lineage::manifest::record::{Record, edit_payload};
use crate::lineage::removal::retained::Input;
use crate::lineage::settle::backend::{Rule, Unsynced};
use crate::lineage::settle::ledger::{Ledger, Settled};
use crate::lineage::{Edit, Lineage};
use crate::planted::{Bug, planted};
use crate::storage::File;
use crate::table::Table;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Where and how the next record is written.
struct Append {
    at: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl Lineage {
    /// Installs an edit: takes the manifest's turn, asks `log_start` from where the log is needed once this edit is in
    /// force, appends the edit, and runs `apply` (which makes readers use the new files). `inputs` are kept until the
    /// edit is settled, and until nobody else holds them. With [`Rule::EachEdit`] the log is made durable to
    /// `edit.seq`, and the outputs, before that, and the edit after it.
    ///
    /// `log_start` is asked before that, too, and its answers must not go back: where the log is not needed up to
    /// `edit.seq` it is not made durable.
    ///
    /// On `NoSpace` nothing was changed; outputs must be discarded and written anew (a sync that met a full disk may
    /// have lost part of them, and they are refused from then on). Other errors have poisoned, and the edit may
    /// or may not survive: leave its outputs and inputs alone.
    pub(crate) async fn install(
        &self,
        edit: Edit,
        inputs: Vec<Arc<Table>>,
        log_start: impl Fn() -> Option<LogMark> + Send,
        apply: impl FnOnce() + Send,
    ) -> Result<EditId> {
        let inputs = inputs.into_iter().map(Input::from).collect();
        self.install_inputs(edit, inputs, log_start, apply).await
    }

    pub(in crate::lineage) async fn install_inputs(
        &self,
        mut edit: Edit,
        inputs: Vec<Input>,
        log_start: impl Fn() -> Option<LogMark> + Send,
        apply: impl FnOnce() + Send,
    ) -> Result<EditId> {
        self.check()?;
        edit.seq = edit.seq.max(edit.flushed());
        let rule = self.backend.rule();
        if rule == Rule::Rounds {
            return self.put_in_force(edit, inputs, false, log_start, apply).await;
        }
        let is_behind = log_start().is_some_and(|mark| mark.seq >= edit.seq);
        if rule == Rule::EachEdit && !is_behind {
            self.sync_log(edit.seq).await?;
        }
        let is_flush = edit.flushed() > SeqNo(0);
        let tables: Vec<TableId> = edit.outputs().map(|meta| meta.id).collect();
        let outputs = self.unsynced(tables.iter().copied());
        let is_late = planted(Bug::ManifestBeforeTables);
        let mut outputs = Some(outputs);
        if let Some(outputs) = outputs.take_if(|_| !is_late) {
            self.backend.prepare(outputs, is_flush).await?;
        }
        let id = self.put_in_force(edit, inputs, is_behind, log_start, apply).await?;
        self.forget_unsynced(tables);
        if rule != Rule::EachEdit {
            return Ok(id);
        }
        self.metrics.syncs_waited_for.increment();
        self.sync_until(|ledger| ledger.durable() >= id).await?;
        if let Some(outputs) = outputs {
            self.unlink_inputs(id);
            self.backend.prepare(outputs, is_flush).await?;
        }
        // The edit is durable whatever comes of this; the settler tries again, and the health knows what poisons.
        let _ = self.record_settled().await;
        Ok(id)
    }

    /// What replay will skip must be in the log for good, else the next writes get the skipped numbers again; unless
    /// replay begins behind it, where the numbers go on: then this is not called.
    pub(in crate::lineage) async fn sync_log(&self, seq: SeqNo) -> Result<()> {
        if seq > SeqNo(0) && !planted(Bug::EditBeyondLogAccepted) && !planted(Bug::PinnedLogNotSynced) {
            self.neighbours().sync_log(seq).await?;
        }
        Ok(())
    }

    pub(in crate::lineage) fn unsynced(&self, tables: impl Iterator<Item = TableId>) -> Vec<Unsynced> {
        tables.map(|id| Unsynced { id, file: self.neighbours().unsynced(id) }).collect()
    }

    pub(in crate::lineage) fn forget_unsynced(&self, tables: impl IntoIterator<Item = TableId>) {
        tables.into_iter().for_each(|id| self.neighbours().forget_unsynced(id));
    }

    /// Appends the edit and switches readers. `is_behind`: the log was not needed up to the edit's number.
    async fn put_in_force(
        &self,
        mut edit: Edit,
        mut inputs: Vec<Input>,
        is_behind: bool,
        log_start: impl Fn() -> Option<LogMark> + Send,
        apply: impl FnOnce() + Send,
    ) -> Result<EditId> {
        let turn = self.turn.take(&self.environment).await;
        self.check()?;
        if self.book().is_closed {
            return Err(Error::Closed);
        }
        edit.log_start = log_start().or(edit.log_start);
        let mut still_named = BTreeSet::new();
        let applied = {
            let book = &mut *self.book();
            let id = EditId(book.state.edit.0 + 1);
            // A cautious bound may lie before an earlier edit's; that one stands.
            edit.log_start = edit.log_start.filter(|mark| mark.position > book.state.log_start.position);
            book.state.apply_tentatively(&edit, id).map(|before| {
                if !planted(Bug::SharedTableFreed) {
                    // They are inputs of the edit that takes them out of the last partition.
                    still_named = before.still_named(&book.state);
                    inputs.retain(|input| !still_named.contains(&input.id));
                }
                book.tentative = Some(before);
                let start = book.state.log_start;
                assert!(!is_behind || start.seq >= edit.seq, "where the log is needed from does not go back");
                id
            })
        };
        let refused = |refusal| self.health.poison(Error::internal(format!("an edit was refused: {refusal}")));
        let id = applied.map_err(refused)?;
        let appended = self.append(|synced| edit_payload(id, &edit, synced)).await;
        {
            let book = &mut *self.book();
            let before = book.tentative.take();
            match appended {
                Ok(end) => {
                    book.ledger.append(id, edit, end, inputs, self.environment.clock.now_ns());
                    book.ledger.still_named(still_named);
                    // With rounds alone outputs are not durable by now, or not believed to be.
                    if matches!(self.backend.rule(), Rule::EachEdit | Rule::Nothing) {
                        book.ledger.make_sound(id);
                    }
                }
                Err(error) => {
                    before.into_iter().for_each(|before| book.state.take_back(before));
                    return Err(error);
                }
            }
        }
        apply();
        if planted(Bug::LogLetGoUnsettled) {
            self.neighbours().settled(EditId(0), Some(self.book().state.log_start));
        }
        if planted(Bug::InputsUnlinkedEarly) {
            self.unlink_inputs(id);
        }
        drop(turn);
        self.wake.notify_all();
        Ok(id)
    }

    /// For planted bugs: the inputs of an edit go now, whether or not it is settled.
    fn unlink_inputs(&self, id: EditId) {
        let inputs = self.book().ledger.take_inputs(id);
        inputs.iter().for_each(|input| drop(self.neighbours().remove_table(input.id)));
    }

    /// Appends a `settled` record, if one is due.
    pub(in crate::lineage) async fn record_settled(&self) -> Result<()> {
        let _turn = self.turn.take(&self.environment).await;
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
            let settled = self.book().ledger.synced(end);
            self.let_go(settled);
        }
        self.wake.notify_all();
        Ok(())
    }

    /// Appends a record that changes nothing.
    pub(in crate::lineage) async fn append_record(&self, record: Record) -> Result<()> {
        let _turn = self.turn.take(&self.environment).await;
        self.check()?;
        self.append(|synced| record.payload(synced)).await.map(drop)
    }

    /// Syncs the manifest as it is; then the edits up to `sound` have durable outputs, if they had not before.
    pub(in crate::lineage) async fn sync_manifest_after(&self, sound: Option<EditId>) -> Result<()> {
        let _syncing = self.syncing.take(&self.environment).await;
        self.check()?;
        // What is appended while the sync runs may not be covered by it.
        let (file, end) = {
            let book = self.book();
            (book.open.file.clone(), book.open.end)
        };
        file.sync().await.map_err(|error| self.health.poison(error))?;
        let settled = {
            let book = &mut *self.book();
            if let Some(sound) = sound {
                book.ledger.make_sound(sound);
            }
            book.ledger.synced(end)
        };
        self.let_go(settled);
        Ok(())
    }

    /// Syncs the manifest until `done` says so, or somebody else has. One sync serves everyone who waits.
    pub(in crate::lineage) async fn sync_until(&self, done: impl Fn(&Ledger<Input>) -> bool) -> Result<()> {
        loop {
            if done(&self.book().ledger) {
                return Ok(());
            }
            let _syncing = self.syncing.take(&self.environment).await;
            if done(&self.book().ledger) {
                return Ok(());
            }
            self.check()?;
            // What is appended while the sync runs may not be covered by it.
            let (file, end) = {
                let book = self.book();
                (book.open.file.clone(), book.open.end)
            };
            file.sync().await.map_err(|error| self.health.poison(error))?;
            let settled = self.book().ledger.synced(end);
            self.let_go(settled);
        }
    }

    /// What is settled now may go: inputs when their last reader does, the log at once. Under `syncing`, so that the
    /// log hears of edits in order.
    pub(in crate::lineage) fn let_go(&self, settled: Option<Settled<Input>>) {
        let Some(Settled { edit, log_start, inputs }) = settled else { return };
        if !inputs.is_empty() {
            let mut book = self.book();
            book.retained.keep(inputs);
            self.readers_awaited.store(true, Ordering::Relaxed);
            // Between saying that readers are waited for and looking whether there are any; see `readers_left`.
            fence(Ordering::SeqCst);
        }
        self.neighbours().settled(edit, log_start);
        self.changed.notify_all();
        self.wake.notify_all();
    }

    /// Appends a record; gives where it ends. With the turn. On `NoSpace` the manifest is as it was.
    async fn append(&self, payload: impl FnOnce(u64) -> Vec<u8>) -> Result<u64> {
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

    /// The same for a foreground caller.
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

    /// A short append is cut off again, so that the next one finds the end where it was.
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

impl crate::lineage::Book {
    fn next_append(&self, payload: impl FnOnce(u64) -> Vec<u8>) -> Append {
        let at = self.open.end;
        let mut bytes = Vec::new();
        let end = frame(&mut bytes, self.open.generation, at, &payload(self.ledger.synced_bytes()));
        Append { at, end, bytes }
    }
}

pub(in crate::lineage) fn is_full(written: &Result<()>) -> bool {
    written.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace)
}
