//! [`Lineage::install`]: puts an edit in force.
//!
//! With [`Rule::Rounds`] the edit is appended, readers switch to its outputs, and nothing waits. A round
//! ([`super::round`]) makes outputs, log and manifest durable later. Until then the medium may hold an edit whose
//! outputs are missing. So recovery verifies the outputs of every unsettled edit; the inputs still exist.
//!
//! With [`Rule::EachEdit`] (NOB-A2, A5) the steps are:
//! 1. The log becomes durable up to the edit's sequence number, unless it is not needed that far back.
//! 2. The outputs and their names become durable.
//! 3. The edit is appended, and readers switch.
//! 4. The manifest is synced. One sync serves every edit appended before it (X3).
//! 5. A `settled` record is appended.
//!
//! Invariant: once an edit is settled, a reading of the log that begins at the state's `log_start` ends at or after the
//! state's sequence number (`docs/marks.md`).

use crate::error::{Error, Result};
use crate::format::{EditId, LogMark, SeqNo, TableFile, TableId};
use crate::lineage::manifest::record::edit_payload;
use crate::lineage::open::Lineage;
use crate::lineage::removal::retained::{Handle, Input};
use crate::lineage::settle::backend::{Rule, Unsynced};
use crate::lineage::state::edit::Edit;
use crate::planted::{Bug, planted};
use std::collections::BTreeSet;

impl Lineage {
    /// Installs an edit: takes `turn`, appends the edit, and runs `apply`, which makes readers use the new files.
    /// `inputs` are kept until the edit is settled and no reader holds them. With [`Rule::EachEdit`] outputs and log
    /// are made durable before the append, and the edit after it.
    ///
    /// `log_start` returns the mark from which the log is needed once this edit is in force. It is called with `turn`
    /// held, and with [`Rule::EachEdit`] also before the log might be synced. The second mark must not lie before the
    /// first: if the log is not needed up to `edit.seq`, it is not made durable.
    ///
    /// After `NoSpace` nothing is changed. The caller must discard the outputs and write them again: a sync that met a
    /// full disk may have lost part of them, so they are refused from then on. Any other error has poisoned, and the
    /// edit may or may not survive. Then the caller must leave its outputs and inputs alone.
    pub(crate) async fn install(
        &self,
        mut edit: Edit,
        inputs: Vec<Handle>,
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
        let tables: Vec<TableFile> = edit.output_files().collect();
        if !planted(Bug::ManifestBeforeTables) {
            self.backend.prepare(self.unsynced(tables.iter().copied()), is_flush).await?;
        }
        let id = self.put_in_force(edit, inputs, is_behind, log_start, apply).await?;
        self.forget_unsynced(tables.iter().copied(), true);
        if rule != Rule::EachEdit {
            return Ok(id);
        }
        self.metrics.syncs_waited_for.increment();
        self.sync_until(|ledger| ledger.durable() >= id).await?;
        if planted(Bug::ManifestBeforeTables) {
            self.prepare_late(id, &tables, is_flush).await?;
        }
        // The edit is durable whether or not this succeeds. The settler tries again, and the health reports a poisoning
        // error.
        let _ = self.record_settled().await;
        Ok(id)
    }

    /// Makes the log durable up to `seq`. Replay will skip these records, so their numbers must not be given out again.
    /// If replay begins after these records, this is not needed: sequence numbers continue from there.
    pub(in crate::lineage) async fn sync_log(&self, seq: SeqNo) -> Result<()> {
        if seq == SeqNo(0) || planted(Bug::EditBeyondLogAccepted) || planted(Bug::PinnedLogNotSynced) {
            return Ok(());
        }
        self.log_and_tables().log.sync_to_seq(seq).await
    }

    /// Returns the tables, each with the file that its writer has open.
    pub(in crate::lineage) fn unsynced(&self, tables: impl Iterator<Item = TableFile>) -> Vec<Unsynced> {
        tables.map(|table| Unsynced { table, file: self.log_and_tables().unsynced(table) }).collect()
    }

    /// Closes the files that the writers of these tables left open for a sync. `are_synced`: whether they were synced
    /// or merely replaced.
    pub(in crate::lineage) fn forget_unsynced(&self, tables: impl IntoIterator<Item = TableFile>, are_synced: bool) {
        tables.into_iter().for_each(|table| self.log_and_tables().forget_unsynced(table, are_synced));
    }

    /// Appends the edit and switches readers. `is_behind`: whether the log was not needed up to the edit's sequence
    /// number.
    async fn put_in_force(
        &self,
        mut edit: Edit,
        inputs: Vec<Handle>,
        is_behind: bool,
        log_start: impl Fn() -> Option<LogMark> + Send,
        apply: impl FnOnce() + Send,
    ) -> Result<EditId> {
        let turn = self.turn.lock(&self.environment).await;
        self.check()?;
        if self.book().is_closed {
            return Err(Error::Closed);
        }
        edit.log_start = log_start().or(edit.log_start);
        let applied = self.apply_tentatively(&mut edit, is_behind);
        let refused = |refusal| self.health.poison(Error::internal(format!("an edit was refused: {refusal}")));
        let (id, still_named) = applied.map_err(refused)?;
        let appended = self.append(|synced| edit_payload(id, &edit, synced)).await;
        {
            let book = &mut *self.book();
            let before = book.tentative.take();
            match appended {
                Ok(end) => {
                    let gone =
                        inputs.into_iter().map(Input::from).filter(|input| !still_named.contains(&input.file.id));
                    book.append(id, edit, end, gone.collect(), self.environment.clock.now_ns());
                    book.ledger.still_named(still_named);
                    // With rounds the outputs are not durable yet; with commits they are not believed to be.
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
            self.let_log_go_unsettled();
        }
        if planted(Bug::InputsUnlinkedEarly) {
            self.unlink_inputs(id);
        }
        drop(turn);
        self.wake.notify_all();
        Ok(id)
    }

    /// Applies the edit to the state until its record is appended. Returns its number, and the tables that it removes
    /// from one partition while another partition still names them. Those are inputs of the edit that removes them from
    /// the last partition.
    fn apply_tentatively(
        &self,
        edit: &mut Edit,
        is_behind: bool,
    ) -> std::result::Result<(EditId, BTreeSet<TableId>), String> {
        let book = &mut *self.book();
        let id = EditId(book.state.edit.0 + 1);
        // A cautious mark may lie before the mark of an earlier edit. Then the earlier mark stays in force.
        edit.log_start = edit.log_start.filter(|mark| mark.position > book.state.log_start.position);
        let before = book.state.apply_tentatively(edit, id)?;
        let still_named =
            if planted(Bug::SharedTableFreed) { BTreeSet::new() } else { before.still_named(&book.state) };
        book.tentative = Some(before);
        let start = book.state.log_start;
        assert!(!is_behind || start.seq >= edit.seq, "where the log is needed from does not go back");
        Ok((id, still_named))
    }
}
