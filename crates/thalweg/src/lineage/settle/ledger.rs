//! [`Ledger`]: which edits are durable and which are settled, and which inputs may go then (NOB-A2, A3, A5).
//!
//! An edit passes five stages. Each stage has been reached by a prefix of all edits:
//! - *appended*: its record is in the manifest, and readers use its outputs.
//! - *sound*: its outputs, and those of every earlier edit, are durable.
//! - *durable*: a sync of the manifest covered its record, too.
//! - *recorded*: a `settled` record that reaches it was appended.
//! - *settled*: a sync covered that record. Only then does the ledger give out the edit's inputs.
//!
//! So appended ≥ sound ≥ durable ≥ recorded ≥ settled. Pure: no I/O and no locks. The book of a lineage holds the
//! ledger.

use crate::format::{EditId, LogMark, SeqNo, TableFile, TableId};
use crate::lineage::manifest::fragments::frame;
use crate::lineage::manifest::record::{Record, edit_payload};
use crate::lineage::state::edit::{Change, Edit};
use crate::lineage::state::live::State;
use std::collections::{BTreeSet, VecDeque};

/// The unsettled edits of an open database, with their inputs.
#[derive(Debug)]
pub(in crate::lineage) struct Ledger<T> {
    /// The state at the last recorded edit. A new manifest begins with it.
    base: State,
    /// Every edit after the last settled one.
    edits: VecDeque<Pending<T>>,
    /// The `settled` records that are not durable yet: the edit that each reaches, and where it ends.
    records: VecDeque<(EditId, u64)>,
    /// The last settled edit.
    settled: EditId,
    /// The last sound edit.
    sound: EditId,
    /// Every byte of the manifest before this is durable.
    synced: u64,
}

/// The edits and outputs that a settle round makes durable.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Round {
    /// The last edit of the round.
    pub(in crate::lineage) target: EditId,
    /// The log must be durable up to this number. 0: the log is needed only from after the records that the edits
    /// flushed.
    pub(in crate::lineage) seq: SeqNo,
    /// The outputs that no later edit of the round replaced. Only these are needed once the round is settled. Until
    /// then recovery stops before an edit whose outputs are not whole.
    pub(in crate::lineage) outputs: BTreeSet<TableFile>,
    /// The other outputs.
    pub(in crate::lineage) replaced: BTreeSet<TableFile>,
}

/// An edit that is not settled.
#[derive(Debug)]
struct Pending<T> {
    id: EditId,
    edit: Edit,
    /// Where the record of the edit ends in the manifest.
    end: u64,
    inputs: Vec<T>,
    /// Tables that the edit removed from one partition while another still names them.
    still_named: BTreeSet<TableId>,
    appended_ns: u64,
}

/// The edits that a new manifest has from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Copied {
    /// The manifest begins with the state at this edit.
    pub(in crate::lineage) recorded: EditId,
    /// The last edit that the manifest holds.
    pub(in crate::lineage) appended: EditId,
    pub(in crate::lineage) bytes: u64,
}

/// Where the records appended after the copy end in the new manifest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::lineage) struct Moved {
    edits: Vec<u64>,
    record: Option<u64>,
}

/// The inputs and log that may go because the edits up to `edit` are settled.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Settled<T> {
    pub(in crate::lineage) edit: EditId,
    /// The log is needed only from here.
    pub(in crate::lineage) log_start: Option<LogMark>,
    pub(in crate::lineage) inputs: Vec<T>,
}

impl<T> Ledger<T> {
    /// A ledger in which every edit of `base` is settled, for a manifest whose first `synced` bytes are durable.
    pub(in crate::lineage) fn new(base: State, synced: u64) -> Self {
        let settled = base.edit;
        Ledger { base, edits: VecDeque::new(), records: VecDeque::new(), settled, sound: settled, synced }
    }

    /// Notes that the record of an edit was appended at `now_ns` and ends at `end`.
    pub(in crate::lineage) fn append(&mut self, id: EditId, edit: Edit, end: u64, inputs: Vec<T>, now_ns: u64) {
        assert!(id.0 == self.appended().0 + 1 && end > self.synced, "edits are appended in order");
        let still_named = BTreeSet::new();
        self.edits.push_back(Pending { id, edit, end, inputs, still_named, appended_ns: now_ns });
    }

    /// Notes that the last edit removed these tables from one partition while another still names them.
    pub(in crate::lineage) fn still_named(&mut self, tables: BTreeSet<TableId>) {
        if let Some(pending) = self.edits.back_mut() {
            pending.still_named = tables;
        }
    }

    /// Returns the last appended edit.
    pub(in crate::lineage) fn appended(&self) -> EditId {
        self.edits.back().map_or(self.settled, |pending| pending.id)
    }

    /// Notes that the outputs of every edit up to `id` are durable.
    pub(in crate::lineage) fn make_sound(&mut self, id: EditId) {
        assert!(id <= self.appended(), "only appended edits have outputs");
        self.sound = self.sound.max(id);
    }

    /// Returns the round that makes all edits sound; `None` if they are.
    pub(in crate::lineage) fn to_settle(&self) -> Option<Round> {
        let target = Some(self.appended()).filter(|target| *target > self.sound)?;
        let mut round = Round { target, seq: SeqNo(0), outputs: BTreeSet::new(), replaced: BTreeSet::new() };
        let log_start = self.log_start().unwrap_or(self.base.log_start);
        for pending in self.edits.iter().filter(|pending| pending.id > self.sound) {
            round.seq = round.seq.max(pending.edit.seq);
            for change in &pending.edit.changes {
                let removed = match change {
                    Change::Remove { table, .. } => TableFile::on_disk(*table),
                    Change::RemoveFast { table, .. } => TableFile::fast(*table),
                    _ => continue,
                };
                if !pending.still_named.contains(&removed.id) && round.outputs.remove(&removed) {
                    round.replaced.insert(removed);
                }
            }
            // Outputs come last: an edit adds them whatever the order of its changes is.
            round.outputs.extend(pending.edit.output_files());
        }
        // Replay begins after these records, and sequence numbers continue from there.
        if log_start.seq >= round.seq {
            round.seq = SeqNo(0);
        }
        Some(round)
    }

    /// Returns the last durable edit.
    pub(in crate::lineage) fn durable(&self) -> EditId {
        let durable = self.edits.partition_point(|pending| pending.end <= self.synced);
        let last = durable.checked_sub(1).and_then(|index| self.edits.get(index));
        last.map_or(self.settled, |pending| pending.id).min(self.sound)
    }

    /// Returns when the first unsettled edit was appended.
    pub(in crate::lineage) fn unsettled_since_ns(&self) -> Option<u64> {
        self.edits.front().map(|pending| pending.appended_ns)
    }

    /// Returns the mark from which the log is needed once all edits are settled; `None` if no edit changes it.
    pub(in crate::lineage) fn log_start(&self) -> Option<LogMark> {
        self.edits.iter().rev().find_map(|pending| pending.edit.log_start)
    }

    /// Returns the last recorded edit.
    pub(in crate::lineage) fn recorded(&self) -> EditId {
        self.base.edit
    }

    /// Returns the last settled edit.
    pub(in crate::lineage) fn settled(&self) -> EditId {
        self.settled
    }

    /// Returns how many bytes of the manifest are durable.
    pub(in crate::lineage) fn synced_bytes(&self) -> u64 {
        self.synced
    }

    /// Returns the edit for a new `settled` record, if one is due.
    pub(in crate::lineage) fn to_record(&self) -> Option<EditId> {
        Some(self.durable()).filter(|durable| *durable > self.recorded())
    }

    /// Notes that a `settled` record of `id` was appended and ends at `end`.
    pub(in crate::lineage) fn record(&mut self, id: EditId, end: u64) -> Result<(), String> {
        assert!(id > self.recorded() && id <= self.durable(), "only durable edits are settled, each once");
        for pending in &self.edits {
            if pending.id > self.base.edit && pending.id <= id {
                self.base.apply(&pending.edit, pending.id)?;
            }
        }
        self.records.push_back((id, end));
        Ok(())
    }

    /// Notes that a sync covered the first `to` bytes of the manifest. Returns what became settled by that.
    pub(in crate::lineage) fn synced(&mut self, to: u64) -> Option<Settled<T>> {
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

    /// Returns the content of a new manifest: the state at the last recorded edit, and the edits after it.
    pub(in crate::lineage) fn to_rotate(&self) -> (&State, impl Iterator<Item = (EditId, &Edit)>) {
        let edits = self.edits.iter().filter(|pending| pending.id > self.base.edit);
        (&self.base, edits.map(|pending| (pending.id, &pending.edit)))
    }

    /// Returns the records that follow the copy in a new manifest of `generation`: the later edits, and the last
    /// `settled` record if there is a later one.
    pub(in crate::lineage) fn rest_after(&self, copied: Copied, generation: u64) -> (Vec<u8>, Moved) {
        let (mut bytes, mut at, mut moved) = (Vec::new(), copied.bytes, Moved::default());
        for pending in self.edits.iter().filter(|pending| pending.id > copied.appended) {
            at = frame(&mut bytes, generation, at, &edit_payload(pending.id, &pending.edit, 0));
            moved.edits.push(at);
        }
        if self.recorded() > copied.recorded {
            at = frame(&mut bytes, generation, at, &Record::Settled { edit: self.recorded() }.payload(0));
            moved.record = Some(at);
        }
        (bytes, moved)
    }

    /// Switches to the new manifest, which holds all edits. Durable edits stay durable. The others become durable by
    /// [`Ledger::synced`] of the new manifest. Its first call comes when the new manifest is in force durably: then the
    /// copy is durable.
    pub(in crate::lineage) fn move_to_successor(&mut self, copied: Copied, moved: &Moved) {
        let mut rest = moved.edits.iter();
        for pending in &mut self.edits {
            let later = if pending.id > copied.appended { rest.next().copied() } else { None };
            let was_durable = pending.end <= self.synced;
            pending.end = if was_durable { 0 } else { later.unwrap_or(copied.bytes) };
        }
        for (id, end) in &mut self.records {
            *end = if *id <= copied.recorded { copied.bytes } else { moved.record.unwrap_or(u64::MAX) };
        }
        self.synced = 0;
    }

    /// Returns the inputs of all unsettled edits.
    pub(in crate::lineage) fn inputs(&self) -> impl Iterator<Item = &T> {
        self.edits.iter().flat_map(|pending| &pending.inputs)
    }

    /// Returns the inputs of all unsettled edits, to change them.
    pub(in crate::lineage) fn inputs_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.edits.iter_mut().flat_map(|pending| &mut pending.inputs)
    }

    /// Takes the inputs of an unsettled edit; only planted bugs do that.
    pub(in crate::lineage) fn take_inputs(&mut self, id: EditId) -> Vec<T> {
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

    fn on_disk(ids: &[u64]) -> BTreeSet<TableFile> {
        ids.iter().map(|id| TableFile::on_disk(TableId(*id))).collect()
    }

    fn edit(log_start: Option<u32>) -> Edit {
        Edit { log_start: log_start.map(mark), ..Edit::default() }
    }

    /// Edits 1, 2, 3 that end at 110, 120, 130, with inputs 10, 20, 30.
    fn three() -> Ledger<u32> {
        let mut ledger = Ledger::new(State::default(), 100);
        ledger.append(EditId(1), edit(Some(5)), 110, vec![10], 0);
        ledger.append(EditId(2), edit(Some(7)), 120, vec![20], 0);
        ledger.append(EditId(3), edit(None), 130, vec![30], 0);
        ledger.make_sound(EditId(3));
        ledger
    }

    #[test]
    fn an_edit_whose_outputs_are_not_durable_is_not_either_whatever_is_synced() {
        let mut ledger = Ledger::<u32>::new(State::default(), 100);
        ledger.append(EditId(1), edit(None), 110, vec![10], 0);
        ledger.append(EditId(2), edit(None), 120, vec![20], 0);
        assert_eq!(ledger.synced(120), None);
        assert_eq!((ledger.durable(), ledger.to_record()), (EditId(0), None));
        ledger.make_sound(EditId(1));
        assert_eq!(ledger.to_record(), Some(EditId(1)));
    }

    #[test]
    fn a_round_has_the_outputs_that_live_on_and_the_highest_number_of_what_is_not_sound_yet() {
        use crate::lineage::tests::{add, remove, shift, table};
        let mut ledger = Ledger::<u32>::new(State::default(), 100);
        let flush = |id, seq| Edit { changes: vec![add(0, 0, table(id, "a", "z"))], seq: SeqNo(seq), log_start: None };
        ledger.append(EditId(1), flush(1, 50), 110, vec![], 0);
        ledger.make_sound(EditId(1));
        assert_eq!(ledger.to_settle(), None);
        ledger.append(EditId(2), flush(2, 30), 120, vec![], 0);
        ledger.append(EditId(3), flush(3, 40), 130, vec![], 0);
        let changes = vec![remove(0, 0, 1), remove(0, 0, 2), add(0, 1, table(4, "a", "z"))];
        ledger.append(EditId(4), Edit { changes, ..edit(None) }, 140, vec![1, 2], 0);
        let round = ledger.to_settle().unwrap();
        assert_eq!((round.target, round.seq), (EditId(4), SeqNo(40)));
        assert_eq!(round.outputs, on_disk(&[3, 4]));
        assert_eq!(round.replaced, on_disk(&[2]));
        ledger.still_named(BTreeSet::from([TableId(2)]));
        assert_eq!(ledger.to_settle().unwrap().outputs, on_disk(&[2, 3, 4]), "another has 2");
        let mut moving = Ledger::<u32>::new(State::default(), 100);
        moving.append(EditId(1), Edit { changes: vec![add(0, 1, table(4, "a", "z"))], ..edit(None) }, 110, vec![], 0);
        moving.append(
            EditId(2),
            Edit { changes: vec![shift(0, 0, 2, 1), shift(0, 1, 2, 4)], ..edit(None) },
            120,
            vec![],
            0,
        );
        assert_eq!(moving.to_settle().unwrap().outputs, on_disk(&[4]), "1 was durable before");
        let reaches = |seq| LogMark { seq: SeqNo(seq), ..mark(9) };
        ledger.append(EditId(5), Edit { log_start: Some(reaches(39)), ..edit(None) }, 150, vec![], 0);
        assert_eq!(ledger.to_settle().unwrap().seq, SeqNo(40));
        ledger.append(EditId(6), Edit { log_start: Some(reaches(40)), ..edit(None) }, 160, vec![], 0);
        assert_eq!(ledger.to_settle().unwrap().seq, SeqNo(0), "the log is not needed before");
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

    fn copied(ledger: &Ledger<u32>, bytes: u64) -> Copied {
        Copied { recorded: ledger.recorded(), appended: ledger.appended(), bytes }
    }

    #[test]
    fn a_new_manifest_in_force_settles_what_it_begins_with_and_makes_the_copied_edits_durable() {
        let mut ledger = three();
        ledger.synced(119);
        ledger.record(EditId(1), 140).unwrap();
        let copied = copied(&ledger, 60);
        let (rest, moved) = ledger.rest_after(copied, 7);
        assert!(rest.is_empty());
        ledger.move_to_successor(copied, &moved);
        assert_eq!((ledger.durable(), ledger.settled(), ledger.synced_bytes()), (EditId(1), EditId(0), 0));
        let settled = ledger.synced(60).unwrap();
        assert_eq!((settled.edit, settled.inputs), (EditId(1), vec![10]));
        assert_eq!((ledger.durable(), ledger.to_record()), (EditId(3), Some(EditId(3))));
        ledger.append(EditId(4), edit(None), 70, vec![40], 0);
        ledger.make_sound(EditId(4));
        assert_eq!(ledger.durable(), EditId(3));
        ledger.record(EditId(3), 80).unwrap();
        assert_eq!(ledger.synced(80).unwrap().inputs, [20, 30]);
        assert_eq!(ledger.durable(), EditId(4));
    }

    #[test]
    fn what_is_appended_while_a_new_manifest_is_written_becomes_durable_with_a_sync_of_that_one() {
        let mut ledger = three();
        ledger.synced(109);
        let copied = copied(&ledger, 60);
        ledger.append(EditId(4), edit(None), 150, vec![40], 0);
        ledger.make_sound(EditId(4));
        ledger.synced(119);
        ledger.record(EditId(1), 160).unwrap();
        let (rest, moved) = ledger.rest_after(copied, 7);
        let [edit_end, record_end] = [moved.edits[0], moved.record.unwrap()];
        assert!(60 < edit_end && edit_end < record_end && record_end == 60 + rest.len() as u64);
        ledger.move_to_successor(copied, &moved);
        assert_eq!(ledger.durable(), EditId(1), "it was, in the old one");
        assert_eq!(ledger.synced(60), None);
        assert_eq!(ledger.durable(), EditId(3));
        ledger.synced(edit_end);
        assert_eq!(ledger.durable(), EditId(4));
        assert_eq!(ledger.synced(record_end).unwrap().inputs, [10]);
    }
}
