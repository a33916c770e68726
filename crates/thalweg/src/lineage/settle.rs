//! [`Ledger`]: which edits are durable and which are settled, and what may therefore be let go (DESIGN 6; NOB-A2, A3,
//! A5).
//!
//! The stations of an edit, each a prefix of all edits: *appended* to the manifest (readers use it), *durable* (a
//! sync of the manifest covered its record; its outputs were durable before), *recorded* (a `settled` record that
//! reaches it was appended), *settled* (a sync covered that record too). Only then are its inputs given out. appended
//! ≥ durable ≥ recorded ≥ settled. Pure: no I/O, no locks; it is kept under lineage's lock.

use super::{Edit, State};
use crate::format::{EditId, LogMark};
use std::collections::VecDeque;

/// The unsettled edits of an open database, with their inputs.
#[derive(Debug)]
pub(super) struct Ledger<T> {
    /// The state at the last recorded edit: what a new manifest begins with.
    base: State,
    /// Every edit after the last settled one.
    edits: VecDeque<Pending<T>>,
    /// The `settled` records that are not durable yet: what they reach, and where they end.
    records: VecDeque<(EditId, u64)>,
    settled: EditId,
    /// Every byte of the manifest before this is durable.
    synced: u64,
}

#[derive(Debug)]
struct Pending<T> {
    id: EditId,
    edit: Edit,
    /// Where its record ends in the manifest.
    end: u64,
    inputs: Vec<T>,
}

/// What may go, now that the edits up to `edit` are settled.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settled<T> {
    pub(super) edit: EditId,
    /// The log is needed only from here.
    pub(super) log_start: Option<LogMark>,
    pub(super) inputs: Vec<T>,
}

impl<T> Ledger<T> {
    /// Begins with a state in which everything is settled, in a manifest whose first `synced` bytes are durable.
    pub(super) fn new(base: State, synced: u64) -> Self {
        let settled = base.edit;
        Ledger { base, edits: VecDeque::new(), records: VecDeque::new(), settled, synced }
    }

    /// The record of an edit was appended and ends at `end`.
    pub(super) fn append(&mut self, id: EditId, edit: Edit, end: u64, inputs: Vec<T>) {
        assert!(id.0 == self.appended().0 + 1 && end > self.synced, "edits are appended in order");
        self.edits.push_back(Pending { id, edit, end, inputs });
    }

    /// The last edit.
    pub(super) fn appended(&self) -> EditId {
        self.edits.back().map_or(self.settled, |pending| pending.id)
    }

    /// The last durable edit.
    pub(super) fn durable(&self) -> EditId {
        let durable = self.edits.partition_point(|pending| pending.end <= self.synced);
        let last = durable.checked_sub(1).and_then(|index| self.edits.get(index));
        last.map_or(self.settled, |pending| pending.id)
    }

    /// The last edit that a `settled` record reaches.
    pub(super) fn recorded(&self) -> EditId {
        self.base.edit
    }

    /// The last settled edit.
    pub(super) fn settled(&self) -> EditId {
        self.settled
    }

    /// Every byte of the manifest before this is durable.
    pub(super) fn synced_bytes(&self) -> u64 {
        self.synced
    }

    /// The edit for a new `settled` record, if one is due.
    pub(super) fn to_record(&self) -> Option<EditId> {
        Some(self.durable()).filter(|durable| *durable > self.recorded())
    }

    /// A `settled` record of `id` was appended and ends at `end`.
    pub(super) fn record(&mut self, id: EditId, end: u64) -> Result<(), String> {
        assert!(id > self.recorded() && id <= self.durable(), "only durable edits are settled, each once");
        for pending in &self.edits {
            if pending.id > self.base.edit && pending.id <= id {
                self.base.apply(&pending.edit, pending.id)?;
            }
        }
        self.records.push_back((id, end));
        Ok(())
    }

    /// A sync of the manifest covered its first `to` bytes. Gives what is settled by that.
    pub(super) fn synced(&mut self, to: u64) -> Option<Settled<T>> {
        self.synced = self.synced.max(to);
        let mut reached = None;
        while let Some((edit, _)) = self.records.front().filter(|(_, end)| *end <= self.synced) {
            reached = Some(*edit);
            self.records.pop_front();
        }
        let edit = reached?;
        let mut settled = Settled { edit, log_start: None, inputs: Vec::new() };
        while self.edits.front().is_some_and(|pending| pending.id <= edit) {
            let Some(pending) = self.edits.pop_front() else { break };
            settled.log_start = pending.edit.log_start.or(settled.log_start);
            settled.inputs.extend(pending.inputs);
        }
        self.settled = edit;
        Some(settled)
    }

    /// The state at the last recorded edit and the edits after it: what a new manifest holds.
    pub(super) fn to_rotate(&self) -> (&State, impl Iterator<Item = (EditId, &Edit)>) {
        let edits = self.edits.iter().filter(|pending| pending.id > self.base.edit);
        (&self.base, edits.map(|pending| (pending.id, &pending.edit)))
    }

    /// A new manifest with exactly [`Ledger::to_rotate`] is in force and durable, `bytes` long.
    pub(super) fn rotated(&mut self, bytes: u64) -> Option<Settled<T>> {
        for pending in &mut self.edits {
            pending.end = 0;
        }
        // What it begins with is settled by that alone.
        self.records.iter_mut().for_each(|(_, end)| *end = 0);
        self.synced = bytes;
        self.synced(bytes)
    }

    /// The inputs of all unsettled edits.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &T> {
        self.edits.iter().flat_map(|pending| &pending.inputs)
    }

    /// Takes the inputs of an edit away before it is settled: only a planted bug does that.
    pub(super) fn take_inputs(&mut self, id: EditId) -> Vec<T> {
        let pending = self.edits.iter_mut().find(|pending| pending.id == id);
        pending.map(|pending| std::mem::take(&mut pending.inputs)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{LogPosition, SeqNo};

    fn mark(offset: u32) -> LogMark {
        LogMark { position: LogPosition::new(1, offset), generation: 1, seq: SeqNo(0) }
    }

    fn edit(log_start: Option<u32>) -> Edit {
        Edit { log_start: log_start.map(mark), ..Edit::default() }
    }

    /// Edits 1, 2, 3 that end at 110, 120, 130, with inputs 10, 20, 30.
    fn three() -> Ledger<u32> {
        let mut ledger = Ledger::new(State::default(), 100);
        ledger.append(EditId(1), edit(Some(5)), 110, vec![10]);
        ledger.append(EditId(2), edit(Some(7)), 120, vec![20]);
        ledger.append(EditId(3), edit(None), 130, vec![30]);
        ledger
    }

    #[test]
    fn an_edit_is_durable_only_together_with_every_earlier_one() {
        let mut ledger = three();
        assert_eq!((ledger.durable(), ledger.to_record()), (EditId(0), None));
        assert_eq!(ledger.synced(119), None);
        assert_eq!(ledger.durable(), EditId(1));
        assert_eq!(ledger.synced(130), None);
        assert_eq!((ledger.durable(), ledger.to_record()), (EditId(3), Some(EditId(3))));
    }

    #[test]
    fn inputs_and_log_go_only_once_the_settled_record_is_durable_itself() {
        let mut ledger = three();
        ledger.synced(120);
        ledger.record(EditId(2), 140).unwrap();
        assert_eq!(ledger.synced(139), None);
        assert_eq!(ledger.inputs().count(), 3);
        let settled = ledger.synced(140).unwrap();
        assert_eq!(settled, Settled { edit: EditId(2), log_start: Some(mark(7)), inputs: vec![10, 20] });
        assert_eq!((ledger.settled(), ledger.durable(), ledger.appended()), (EditId(2), EditId(3), EditId(3)));
        assert_eq!(ledger.to_record(), Some(EditId(3)));
    }

    #[test]
    fn an_edit_without_a_log_start_keeps_the_one_before_it() {
        let mut ledger = three();
        ledger.synced(130);
        ledger.record(EditId(3), 140).unwrap();
        assert_eq!(ledger.synced(140).unwrap().log_start, Some(mark(7)));
    }

    #[test]
    fn a_settled_record_counts_though_another_follows_before_its_sync_ends() {
        let mut ledger = three();
        ledger.synced(119);
        ledger.record(EditId(1), 140).unwrap();
        ledger.synced(139);
        ledger.record(EditId(3), 150).unwrap();
        assert_eq!(ledger.synced(145).unwrap().inputs, [10]);
        assert_eq!(ledger.synced(150).unwrap().inputs, [20, 30]);
    }

    #[test]
    fn nothing_is_settled_twice() {
        let mut ledger = three();
        ledger.synced(130);
        ledger.record(EditId(3), 140).unwrap();
        assert!(ledger.synced(140).is_some());
        assert_eq!((ledger.synced(200), ledger.to_record()), (None, None));
    }

    #[test]
    #[should_panic(expected = "only durable edits are settled")]
    fn an_edit_that_is_not_durable_cannot_be_recorded_as_settled() {
        let mut ledger = three();
        ledger.synced(119);
        ledger.record(EditId(2), 140).unwrap();
    }

    #[test]
    fn a_new_manifest_begins_at_the_last_settled_edit_and_has_the_others_verbatim() {
        let mut ledger = three();
        ledger.synced(119);
        ledger.record(EditId(1), 140).unwrap();
        let (base, edits) = ledger.to_rotate();
        assert_eq!((base.edit, base.log_start), (EditId(1), mark(5)));
        let edits: Vec<_> = edits.map(|(id, edit)| (id, edit.clone())).collect();
        assert_eq!(edits, [(EditId(2), edit(Some(7))), (EditId(3), edit(None))]);
    }

    #[test]
    fn a_durable_new_manifest_settles_what_it_begins_with_and_makes_the_rest_durable() {
        let mut ledger = three();
        ledger.synced(119);
        ledger.record(EditId(1), 140).unwrap();
        let settled = ledger.rotated(60).unwrap();
        assert_eq!((settled.edit, settled.inputs), (EditId(1), vec![10]));
        assert_eq!((ledger.durable(), ledger.to_record()), (EditId(3), Some(EditId(3))));
        ledger.append(EditId(4), edit(None), 70, vec![40]);
        assert_eq!(ledger.durable(), EditId(3));
        ledger.record(EditId(3), 80).unwrap();
        assert_eq!(ledger.synced(80).unwrap().inputs, [20, 30]);
        assert_eq!(ledger.durable(), EditId(4));
    }
}
