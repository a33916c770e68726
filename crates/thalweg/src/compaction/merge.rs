//! The merge of one job: read the inputs in internal-key order, keep what a reader may still see, write new tables.
//!
//! The merge is a coroutine. After every [`STEP_BYTES`] that it has read, however little it writes, it yields and asks
//! whether it was cancelled or should rest. Other pauses come where a chunk that was read ends, and when a chunk to
//! write is full. From one [`Pause`] to the next the merge is a plain loop. It changes nothing except its own output
//! files: the caller's edit makes them live.

use super::job::Job;
use super::outputs::{Outputs, Store};
use super::retention::Retention;
use super::runs::{Damaged, Input, MergedRuns, PackInput, Run, Scan};
use crate::error::{Error, Result};
use crate::format::{SeqNo, TableId};
use crate::planted::{Bug, planted};
use crate::runtime::{Task, yield_now};
use crate::table::{KeyRange, PackWriters, Table, TableMeta, TableWriters};
use std::sync::Arc;

/// Bytes of keys and values merged between two yields.
pub(crate) const STEP_BYTES: usize = 64 << 10;

/// The questions that a merge asks between two steps.
pub(crate) trait Steps: Sync {
    /// Whether the merge should end with [`Error::Closed`].
    fn is_cancelled(&self) -> bool;

    /// Returns what the merge must wait for after a step that read `bytes`. After the wait it asks again, with no
    /// bytes.
    fn rest(&self, bytes: u64) -> Option<Task>;
}

/// A merge that does not rest.
impl<F: Fn() -> bool + Sync> Steps for F {
    fn is_cancelled(&self) -> bool {
        self()
    }

    fn rest(&self, _: u64) -> Option<Task> {
        None
    }
}

/// Merges the entries of the job's inputs in `range` to new tables. `snapshots` are the sequence numbers at which
/// readers may be pinned, ascending, the visible one last. Of the versions of a key the merge keeps the newest one at
/// or below each snapshot, and all versions above the last. A reader that is not among them must read at or above the
/// last, or from the tables as they were before this job. `steps` is asked now and then. On an error every output so
/// far is removed.
pub(crate) async fn merge(
    job: &Job,
    range: &Arc<KeyRange>,
    store: &TableWriters,
    snapshots: &[SeqNo],
    steps: &dyn Steps,
) -> Result<Vec<TableMeta>> {
    assert!(!job.trivial_move, "a trivial move has nothing to merge");
    let runs = runs(job.level, &job.upper, &job.lower, range);
    let outputs = Outputs::new(store, job.output_level, job.cut.clone());
    merge_runs(runs, retention(snapshots, job.bottom), outputs, steps).await
}

/// Does what [`merge`] does, for a directory keyspace: merges packs.
pub(crate) async fn merge_packs(
    job: &Job,
    range: &Arc<KeyRange>,
    store: &PackWriters<'_>,
    snapshots: &[SeqNo],
    steps: &dyn Steps,
) -> Result<Vec<TableMeta>> {
    assert!(!job.trivial_move, "a trivial move has nothing to merge");
    let inputs = |tables: &[Arc<Table>]| tables.iter().map(|table| PackInput(Arc::clone(table))).collect::<Vec<_>>();
    let runs = runs(job.level, &inputs(&job.upper), &inputs(&job.lower), range);
    let outputs = Outputs::new(store, job.output_level, job.cut.clone());
    let bottom = job.bottom || planted(Bug::PackTombstoneDropped);
    // A number of 0 takes no space in a block of a pack (`docs/directory.md`, sequence number 0).
    let retention = retention(snapshots, bottom).with_zero_numbers(job.bottom);
    merge_runs(runs, retention, outputs, steps).await
}

/// Returns the rule which versions a job keeps.
pub(super) fn retention(snapshots: &[SeqNo], bottom: bool) -> Retention<'_> {
    Retention::new(snapshots, bottom || planted(Bug::TombstoneDroppedEarly))
}

/// Returns the runs of a job. Tables of level 0 overlap, so each is its own run; tables of another level form one run.
pub(super) fn runs<I: Input + Clone>(level: usize, upper: &[I], lower: &[I], range: &Arc<KeyRange>) -> Vec<Run<I>> {
    let upper: Vec<Vec<I>> = match level {
        0 => upper.iter().map(|table| vec![table.clone()]).collect(),
        _ => vec![upper.to_vec()],
    };
    upper.into_iter().chain([lower.to_vec()]).map(|run| Run::new(run, range)).collect()
}

/// See [`merge`].
pub(super) async fn merge_runs<I: Input, S: Store>(
    runs: Vec<Run<I>>,
    retention: Retention<'_>,
    mut outputs: Outputs<'_, S>,
    steps: &dyn Steps,
) -> Result<Vec<TableMeta>> {
    let store = outputs.store();
    let damaged = |id: TableId, expected, found| Error::corruption(&store.path(id), 0, expected, found);
    let entries = MergedRuns::new(runs);
    // A full step, so that the first entry already asks whether to go on at all.
    let step_bytes = STEP_BYTES;
    let merge = Merge { entries, retention, outputs: &mut outputs, step_bytes, damaged: &damaged };
    let done = match merge.run(steps).await {
        Ok(()) => outputs.finish().await,
        Err(error) => Err(error),
    };
    match done {
        Ok(tables) => Ok(tables),
        Err(error) => {
            outputs.discard().await;
            Err(error)
        }
    }
}

/// Why the merge cannot simply take the next entry.
enum Pause {
    /// The chunk that the entry is in has ended.
    ChunkEnd,
    /// The entry is kept, and no table has room for it.
    NoRoom,
    /// The entry is kept, and its value is not in memory. A long value is read only then, so that a merge has one at a
    /// time, and not one of each run.
    Value,
    /// A chunk of a table is full.
    Write,
    /// It is time to yield.
    Yield,
}

struct Merge<'m, 's, I: Input, S: Store> {
    entries: MergedRuns<I>,
    retention: Retention<'m>,
    outputs: &'m mut Outputs<'s, S>,
    /// Bytes merged since the last yield.
    step_bytes: usize,
    damaged: &'m Damaged<'m>,
}

impl<I: Input, S: Store> Merge<'_, '_, I, S> {
    async fn run(mut self, steps: &dyn Steps) -> Result<()> {
        let mut pause = Some(Pause::ChunkEnd);
        loop {
            match pause {
                Some(Pause::ChunkEnd) => {
                    if !self.entries.enter_next_chunk(self.damaged).await? {
                        return Ok(());
                    }
                    self.give_way(steps).await?;
                    pause = self.take();
                    continue;
                }
                Some(Pause::NoRoom) => {
                    self.outputs.next_table().await?;
                    pause = self.add();
                    continue;
                }
                Some(Pause::Value) => {
                    self.entries.read_value().await?;
                    self.step_bytes += self.entries.entry().value().len();
                    pause = self.add();
                    continue;
                }
                Some(Pause::Write) => self.outputs.write().await?,
                Some(Pause::Yield) | None => {}
            }
            self.give_way(steps).await?;
            pause = Some(self.go()?);
        }
    }

    /// Yields if it is time to.
    async fn give_way(&mut self, steps: &dyn Steps) -> Result<()> {
        if self.step_bytes >= STEP_BYTES {
            let mut bytes = std::mem::take(&mut self.step_bytes) as u64;
            yield_now().await;
            while let Some(rest) = steps.rest(bytes) {
                rest.await;
                bytes = 0;
            }
            if steps.is_cancelled() {
                return Err(Error::Closed);
            }
        }
        Ok(())
    }

    /// Takes entries until the merge has to pause.
    fn go(&mut self) -> Result<Pause> {
        while self.entries.advance_in_chunk(self.damaged)? {
            if let Some(pause) = self.take() {
                return Ok(pause);
            }
            if self.step_bytes >= STEP_BYTES {
                return Ok(Pause::Yield);
            }
        }
        Ok(Pause::ChunkEnd)
    }

    /// Takes the current entry.
    #[inline]
    fn take(&mut self) -> Option<Pause> {
        let (entry, relation) = (self.entries.entry(), self.entries.relation());
        self.step_bytes += entry.key().len() + if entry.has_value() { entry.value().len() } else { 0 };
        self.outputs.pass(relation);
        if relation.is_repeated || !self.retention.keep(relation.key_changed, entry.seq(), entry.kind()) {
            return None;
        }
        if self.outputs.has_room(entry.key()) { self.add() } else { Some(Pause::NoRoom) }
    }

    /// Adds the current entry, which is kept.
    #[inline]
    fn add(&mut self) -> Option<Pause> {
        let entry = self.entries.entry();
        if !entry.has_value() {
            return Some(Pause::Value);
        }
        let seq = self.retention.number(entry.seq());
        let due = self.outputs.add(entry.key(), seq, entry.kind(), entry.value(), entry.warmth());
        due.then_some(Pause::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::super::look_ahead::Cut;
    use super::super::tests::fakes::{FakeEntry, FakeStore, FakeTable, block_on};
    use super::*;
    use crate::error::ErrorKind;
    use crate::format::EntryKind;

    // A coroutine may change its thread between polls.
    const _: fn(&Job, &TableWriters) = |job, store| {
        fn is_send(_: impl Send) {}
        is_send(merge(job, &Arc::default(), store, &[], &|| false));
    };

    fn merged(
        runs: Vec<Run<FakeTable>>,
        snapshots: &[u64],
        bottom: bool,
        table_bytes: u64,
        store: &FakeStore,
    ) -> Result<Vec<Vec<FakeEntry>>> {
        let snapshots: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
        let outputs = Outputs::new(&store, 1, Cut::Size(table_bytes));
        let (tables, _) = block_on(merge_runs(runs, retention(&snapshots, bottom), outputs, &|| false));
        Ok(store.entries(&tables?))
    }

    fn run(tables: Vec<Vec<FakeEntry>>) -> Run<FakeTable> {
        let table = |(id, entries)| FakeTable::new(100 + id as u64, entries);
        Run::new(tables.into_iter().enumerate().map(table).collect(), &Arc::default())
    }

    use FakeEntry as E;

    #[test]
    fn an_entry_that_two_runs_have_is_written_once_and_one_that_a_run_has_twice_is_damage() {
        let upper = vec![E::put("a", 9, "9"), E::remove("b", 8), E::put("c", 7, "7")];
        let lower = vec![vec![E::put("a", 9, "9"), E::put("a", 2, "2")], vec![E::put("c", 7, "7"), E::put("d", 1, "")]];
        for snapshots in [&[1, 2, 9][..], &[0]] {
            let merge = |runs| merged(runs, snapshots, false, u64::MAX, &FakeStore::default()).unwrap();
            let once = vec![run(vec![vec![E::remove("b", 8)]]), run(lower.clone())];
            assert_eq!(merge(vec![run(vec![upper.clone()]), run(lower.clone())]), merge(once), "{snapshots:?}");
        }
        let twice = vec![run(vec![vec![E::put("a", 9, ""), E::put("a", 9, "")]])];
        let error = merged(twice, &[0], false, u64::MAX, &FakeStore::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }

    #[test]
    fn long_values_are_read_if_they_stay() {
        let upper = vec![E::put("a", 9, "long 9"), E::put("b", 8, "8"), E::put("c", 7, "long 7")];
        let lower = vec![vec![E::put("a", 2, "long 2"), E::put("c", 5, "5")], vec![E::put("d", 1, "long 1")]];
        let merge = |table_bytes| {
            let runs = vec![run(vec![upper.clone()]), run(lower.clone())];
            merged(runs, &[9], false, table_bytes, &FakeStore::default()).unwrap().concat()
        };
        let kept = [upper.clone(), vec![E::put("d", 1, "long 1")]].concat();
        assert_eq!(merge(u64::MAX), kept);
        // Each in a table of its own: the value is read after there is room for it.
        assert_eq!(merge(1), kept);
    }

    #[test]
    fn runs_come_out_in_one_order() {
        let long = "a long key that has more than eight bytes: ";
        let runs = vec![
            run(vec![vec![E::put("a", 9, "9"), E::put(&format!("{long}2"), 3, "")]]),
            run(vec![vec![E::put("a", 4, "4"), E::put("a\0", 5, "")], vec![E::put(&format!("{long}1"), 1, "")]]),
            run(vec![]),
            run(vec![vec![E::put("b", 2, "")]]),
        ];
        let tables = merged(runs, &[0], false, u64::MAX, &FakeStore::default()).unwrap();
        let order: Vec<(String, u64)> =
            tables[0].iter().map(|e| (String::from_utf8(e.key.clone()).unwrap(), e.seq.0)).collect();
        assert_eq!(
            order,
            [
                ("a".to_string(), 9),
                ("a".to_string(), 4),
                ("a\0".to_string(), 5),
                (format!("{long}1"), 1),
                (format!("{long}2"), 3),
                ("b".to_string(), 2)
            ]
        );
    }

    #[test]
    fn what_a_snapshot_sees_stays_and_the_rest_goes() {
        let runs = || {
            vec![
                run(vec![vec![E::put("k", 8, "8"), E::put("k", 7, "7"), E::remove("x", 9)]]),
                run(vec![vec![E::put("k", 4, "4"), E::put("k", 2, "2"), E::put("x", 3, "3")]]),
            ]
        };
        let store = FakeStore::default();
        let above = merged(runs(), &[3, 10], false, u64::MAX, &store).unwrap();
        assert_eq!(above, [[E::put("k", 8, "8"), E::put("k", 2, "2"), E::remove("x", 9), E::put("x", 3, "3")]]);
        let bottom = merged(runs(), &[10], true, u64::MAX, &store).unwrap();
        assert_eq!(bottom, [[E::put("k", 8, "8")]]);
        let not_bottom = merged(runs(), &[10], false, u64::MAX, &store).unwrap();
        assert_eq!(not_bottom, [[E::put("k", 8, "8"), E::remove("x", 9)]]);
    }

    #[test]
    fn a_merge_of_nothing_but_dead_tombstones_writes_no_table() {
        let store = FakeStore::default();
        let runs = vec![run(vec![vec![E::remove("a", 1), E::remove("b", 2)]])];
        assert!(merged(runs, &[5], true, u64::MAX, &store).unwrap().is_empty());
        assert!(store.files().is_empty());
    }

    #[test]
    fn tables_end_only_between_user_keys() {
        // All versions are above the visible number, so all stay; each is larger than a table should be.
        let versions = |key: &str| (1..=9u64).rev().map(|seq| E::put(key, seq * 10, "value")).collect::<Vec<_>>();
        let runs = vec![run(vec![versions("a"), versions("b"), versions("c")])];
        let tables = merged(runs, &[0], false, 1, &FakeStore::default()).unwrap();
        assert_eq!(tables, [versions("a"), versions("b"), versions("c")]);
    }

    #[test]
    fn a_cut_is_not_missed_when_the_first_version_of_a_key_goes() {
        let runs = vec![run(vec![vec![E::put("a", 5, ""), E::remove("b", 4), E::put("c", 3, "")]])];
        let tables = merged(runs, &[9], true, 1, &FakeStore::default()).unwrap();
        assert_eq!(tables, [[E::put("a", 5, "")], [E::put("c", 3, "")]]);
    }

    #[test]
    fn the_table_size_is_kept_but_for_the_last_entry() {
        let entries: Vec<_> = (0..1000).map(|i| E::put(&format!("{i:04}"), i + 1, "0123456789")).collect();
        let tables = merged(vec![run(vec![entries.clone()])], &[9999], false, 1000, &FakeStore::default()).unwrap();
        for table in &tables[..tables.len() - 1] {
            let bytes: usize = table.iter().map(|e| e.key.len() + e.value.len() + 10).sum();
            assert!((1000..1024).contains(&bytes), "{bytes}");
        }
        assert_eq!(tables.concat(), entries);
    }

    #[test]
    fn any_failing_call_leaves_no_file_behind() {
        for call in 1.. {
            let store = FakeStore::failing_at(call);
            let entries = (0..20).map(|i| E::put(&format!("{i:02}"), i + 1, "0123456789")).collect();
            let result = merged(vec![run(vec![entries])], &[99], false, 100, &store);
            if store.fuse_left() {
                assert!(result.is_ok() && call > 20);
                return;
            }
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NoSpace, "call {call}");
            assert!(store.files().is_empty(), "call {call}");
        }
    }

    #[test]
    fn a_long_merge_gives_way_and_can_be_cancelled_at_every_step() {
        let entries = || (0..500).map(|i| E::put(&format!("{i:03}"), i + 1, &"v".repeat(1021))).collect::<Vec<_>>();
        let snapshots = [SeqNo(9999)];
        let merge = |store: &FakeStore, stop_at: usize| {
            let asked = std::sync::atomic::AtomicUsize::new(0);
            let cancelled = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == stop_at;
            let runs = vec![run(vec![entries()])];
            block_on(merge_runs(
                runs,
                retention(&snapshots, false),
                Outputs::new(&store, 1, Cut::Size(50_000)),
                &cancelled,
            ))
        };
        let (whole, steps) = merge(&FakeStore::default(), 0);
        assert!(whole.is_ok());
        assert_eq!(steps, 8, "500 KiB in steps of 64 KiB");
        for step in 1..=steps {
            let store = FakeStore::default();
            let (result, _) = merge(&store, step);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Closed);
            assert!(store.files().is_empty(), "step {step}");
        }
    }

    #[test]
    fn entries_out_of_order_are_damage_and_name_the_table() {
        let a = || E::put("a", 5, "");
        for wrong in [E::put("a", 5, "again"), E::put("a", 6, "newer below older"), E::put("", 9, "smaller key")] {
            let store = FakeStore::default();
            let runs = vec![run(vec![vec![E::put("\0", 7, ""), a()], vec![wrong]])];
            let Err(Error::Corruption(damage)) = merged(runs, &[9], false, u64::MAX, &store) else {
                panic!("taken as it is");
            };
            assert_eq!(damage.path, std::path::Path::new("101.table"));
            assert!(store.files().is_empty());
        }
    }

    #[test]
    fn level0_tables_are_runs_of_their_own_and_others_follow_each_other() {
        let table = |id, key: &str| FakeTable::new(id, vec![E::put(key, id, "")]);
        let (upper, lower) = ([table(3, "m"), table(4, "a")], [table(1, "b"), table(2, "c")]);
        assert_eq!(runs(0, &upper, &lower, &Arc::default()).len(), 3);
        assert_eq!(runs(1, &upper[..1], &lower, &Arc::default()).len(), 2);
        let kinds =
            merged(runs(0, &upper, &lower, &Arc::default()), &[9], true, u64::MAX, &FakeStore::default()).unwrap();
        assert_eq!(kinds[0].iter().map(|e| e.seq.0).collect::<Vec<_>>(), [4, 1, 2, 3]);
        assert!(kinds[0].iter().all(|e| e.kind == EntryKind::Put));
    }
}
