//! The calls that each workload of `db_bench` makes.

use super::shared::KEYS_AT_ONCE;
use super::*;
use crate::engine::Engine;
use crate::engine::tests::model::{Model, State};
use crate::error::Error;
use crate::workload::tests::exercise::{Done, exercise};
use crate::workload::{Class, Outcome, find};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

const RECORDS: u64 = 1000;

fn dataset() -> Arc<Dataset> {
    Arc::new(Dataset {
        kind: DatasetKind::Numbered,
        records: RECORDS,
        next: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
    })
}

fn key(number: u64) -> Vec<u8> {
    [&number.to_be_bytes()[..], b"00000000"].concat()
}

fn keys() -> BTreeSet<Vec<u8>> {
    (0..RECORDS).map(key).collect()
}

/// Runs one workload on `model`, and returns what it did and the calls that it alone made.
fn run_on(model: &Model, name: &str, parameters: &Parameters, threads: usize, operations: u64) -> (Done, State) {
    let before = model.state();
    let workload = (find(name).unwrap().make)(parameters, &dataset()).unwrap();
    let done = exercise(&*workload, model, threads, operations);
    let mut state = model.state();
    state.keys.drain(..before.keys.len());
    state.synced -= before.synced;
    for (call, count) in &mut state.calls {
        *count -= before.calls.get(call).unwrap_or(&0);
    }
    state.calls.retain(|_, count| *count > 0);
    (done, state)
}

/// A model with every record, or every second one.
fn loaded(step: usize) -> Model {
    let model = Model::default();
    let mut session = model.session().unwrap();
    (0..RECORDS).step_by(step).for_each(|number| session.put(&key(number), &[7; 100], false).unwrap());
    drop(session);
    model
}

fn only(done: &Done, class: Class) -> (u64, Outcome) {
    assert_eq!(done.keys().copied().collect::<Vec<_>>(), [class]);
    done[&class]
}

#[test]
fn fillseq_writes_every_record_once_in_order() {
    let (done, state) = run_on(&Model::default(), "fillseq", &Parameters::default(), 1, u64::MAX);
    let (calls, outcome) = only(&done, Class::Insert);
    assert_eq!((calls, outcome.operations, outcome.written_bytes), (RECORDS, RECORDS, RECORDS * 116));
    assert_eq!(state.keys, (0..RECORDS).map(key).collect::<Vec<_>>());
    assert!(state.entries.values().all(|value| value.len() == 100));
    assert_eq!(state.synced, 0);
}

#[test]
fn threads_of_a_load_share_the_records() {
    for batch in [1, 7] {
        let parameters = Parameters { batch, ..Parameters::default() };
        let (done, state) = run_on(&Model::default(), "fillseq", &parameters, 4, u64::MAX);
        let class = if batch == 1 { Class::Insert } else { Class::Transaction };
        let (calls, outcome) = only(&done, class);
        assert_eq!((calls, outcome.operations), (RECORDS.div_ceil(u64::from(batch)), RECORDS), "batch {batch}");
        assert_eq!(outcome.written_bytes, RECORDS * 116);
        assert_eq!(state.keys.len() as u64, RECORDS, "a record twice");
        assert_eq!(state.keys.into_iter().collect::<BTreeSet<_>>(), keys());
        assert_eq!(state.calls.keys().collect::<Vec<_>>(), [if batch == 1 { &"put" } else { &"put_batch" }]);
    }
}

#[test]
fn fillrandom_draws_with_repetition() {
    let (done, state) = run_on(&Model::default(), "fillrandom", &Parameters::default(), 3, u64::MAX);
    assert_eq!(only(&done, Class::Insert).1.operations, RECORDS);
    assert!(state.keys.iter().all(|key| keys().contains(key)));
    assert!(!state.keys.is_sorted());
    // Of n draws from n, 1 - 1/e differ: 632, with a standard deviation of 9.8.
    assert!((583..=681).contains(&state.entries.len()), "{}", state.entries.len());
}

#[test]
fn fillsync_writes_a_thousandth_durably() {
    let model = Model::default();
    let workload = |records| {
        let dataset = Dataset { records, ..Arc::into_inner(dataset()).unwrap() };
        (find("fillsync").unwrap().make)(&Parameters::default(), &Arc::new(dataset)).unwrap()
    };
    let done = exercise(&*workload(50_000), &model, 2, u64::MAX);
    assert_eq!(only(&done, Class::Insert).1.operations, 50);
    assert_eq!(model.state().synced, 50);
    assert!(model.state().keys.iter().all(|drawn| *drawn < key(50)));
    assert_eq!(only(&exercise(&*workload(10), &model, 1, u64::MAX), Class::Insert).1.operations, 1);
}

#[test]
fn overwrite_updates_records_and_honours_sync_and_sizes() {
    let mut parameters = Parameters { key_bytes: Some(9), value_bytes: Some(5), ..Parameters::default() };
    parameters.settings.sync = true;
    let (done, state) = run_on(&Model::default(), "overwrite", &parameters, 1, 400);
    let (calls, outcome) = only(&done, Class::Update);
    assert_eq!((calls, outcome.written_bytes, state.synced), (400, 400 * 14, 400));
    assert!(state.entries.iter().all(|(key, value)| key.len() == 9 && key[8] == b'0' && value.len() == 5));
}

#[test]
fn overwrite_writes_in_batches_too() {
    let parameters = Parameters { batch: 10, ..Parameters::default() };
    let (done, state) = run_on(&loaded(1), "overwrite", &parameters, 1, 40);
    let (calls, outcome) = only(&done, Class::Transaction);
    assert_eq!((calls, outcome.operations, state.calls["put_batch"]), (40, 400, 40));
    assert_eq!(state.entries.into_keys().collect::<BTreeSet<_>>(), keys());
}

#[test]
fn readseq_reads_every_entry_in_order_and_begins_again() {
    let parameters = Parameters { scan_entries_max: Some(300), ..Parameters::default() };
    let (done, state) = run_on(&loaded(1), "readseq", &parameters, 1, 5);
    let (calls, outcome) = only(&done, Class::Scan);
    // 300, 300, 300, 100, and 300 again.
    assert_eq!((calls, outcome.operations, outcome.missing, outcome.read_bytes), (5, 1300, 0, 1300 * 116));
    let after = |number| [key(number), vec![0]].concat();
    assert_eq!(state.keys, [vec![], after(299), after(599), after(899), vec![]]);
}

#[test]
fn threads_of_readseq_begin_at_equal_distances() {
    let model = loaded(1);
    let workload = (find("readseq").unwrap().make)(&Parameters::default(), &dataset()).unwrap();
    for (thread, first) in [vec![], key(RECORDS / 3), key(RECORDS / 3 * 2)].into_iter().enumerate() {
        let mut client = workload.client(thread, 3, 1);
        assert_eq!(client.prepare(), Some(Class::Scan));
        client.execute(&mut *model.session().unwrap()).unwrap();
        assert_eq!(model.state().keys.last(), Some(&first), "thread {thread}");
    }
}

#[test]
fn readseq_goes_on_when_a_stretch_ends_with_the_last_entry_and_says_when_there_is_none() {
    let parameters = Parameters { scan_entries_max: Some(500), ..Parameters::default() };
    let (done, state) = run_on(&loaded(1), "readseq", &parameters, 1, 3);
    assert_eq!((done[&Class::Scan].1.operations, state.calls["scan"]), (1500, 4));
    let (done, _) = run_on(&Model::default(), "readseq", &parameters, 1, 2);
    assert_eq!((done[&Class::Scan].1.operations, done[&Class::Scan].1.missing), (2, 2));
}

#[test]
fn readrandom_reads_records_and_counts_those_that_miss() {
    let (done, state) = run_on(&loaded(1), "readrandom", &Parameters::default(), 2, 2000);
    let (calls, outcome) = only(&done, Class::Get);
    assert_eq!((calls, outcome.operations, outcome.missing), (2000, 2000, 0));
    assert_eq!(outcome.read_bytes, 2000 * 100);
    assert!(state.keys.iter().all(|key| keys().contains(key)));

    let (done, state) = run_on(&loaded(2), "readrandom", &Parameters::default(), 1, 2000);
    let missing = state.keys.iter().filter(|key| key[7] % 2 == 1).count() as u64;
    assert_eq!(done[&Class::Get].1.missing, missing);
    assert!((880..1120).contains(&missing), "{missing}");
}

#[test]
fn readmissing_asks_between_records() {
    let (done, state) = run_on(&loaded(1), "readmissing", &Parameters::default(), 1, 500);
    let (calls, outcome) = only(&done, Class::Get);
    assert_eq!((calls, outcome.missing, outcome.read_bytes), (500, 500, 0));
    assert!(state.keys.iter().all(|asked| asked.len() == 17 && keys().contains(&asked[..16])));
}

#[test]
fn seekrandom_reads_the_entry_it_finds_and_as_many_more_as_asked_for() {
    let (done, _) = run_on(&loaded(1), "seekrandom", &Parameters::default(), 1, 500);
    let (_, outcome) = only(&done, Class::Scan);
    assert_eq!((outcome.operations, outcome.missing, outcome.read_bytes), (500, 0, 500 * 116));

    let parameters = Parameters { scan_entries_max: Some(10), ..Parameters::default() };
    let (done, state) = run_on(&loaded(2), "seekrandom", &parameters, 1, 500);
    let (_, outcome) = only(&done, Class::Scan);
    let entries: u64 = state.keys.iter().map(|key| state.entries.range(key.clone()..).take(10).count() as u64).sum();
    assert_eq!(outcome.read_bytes, entries * 116);
    assert_eq!(outcome.missing, state.keys.iter().filter(|key| key[7] % 2 == 1).count() as u64);
}

#[test]
fn deleterandom_removes_records() {
    let (done, state) = run_on(&loaded(1), "deleterandom", &Parameters::default(), 2, 500);
    let (calls, outcome) = only(&done, Class::Remove);
    assert_eq!((calls, outcome.operations, outcome.written_bytes), (500, 500, 500 * 16));
    let removed: BTreeSet<Vec<u8>> = state.keys.into_iter().collect();
    assert_eq!(state.entries.into_keys().collect::<BTreeSet<_>>(), &keys() - &removed);
}

#[test]
fn readwhilewriting_reads_with_all_threads_and_writes_with_one_more() {
    let model = loaded(1);
    let workload = (find("readwhilewriting").unwrap().make)(&Parameters::default(), &dataset()).unwrap();
    assert_eq!((workload.background(), workload.background_rate()), (1, None));
    assert_eq!(only(&exercise(&*workload, &model, 2, 100), Class::Get).0, 100);
    let mut writer = workload.client(2, 2, 1);
    let mut session = model.session().unwrap();
    for _ in 0..100 {
        assert_eq!(writer.prepare(), Some(Class::Update));
        assert_eq!(writer.execute(&mut *session).unwrap().operations, 1);
    }
    assert_eq!(model.state().entries.into_keys().collect::<BTreeSet<_>>(), keys());
}

#[test]
fn workloads_and_threads_do_not_draw_the_same_keys() {
    let drawn = |name, thread| {
        let workload = (find(name).unwrap().make)(&Parameters::default(), &dataset()).unwrap();
        let (model, mut client) = (Model::default(), workload.client(thread, 4, 1));
        for _ in 0..20 {
            client.prepare().unwrap();
            client.execute(&mut *model.session().unwrap()).unwrap();
        }
        model.state().keys
    };
    assert_eq!(drawn("overwrite", 0), drawn("overwrite", 0));
    assert_ne!(drawn("overwrite", 0), drawn("overwrite", 1));
    assert_ne!(drawn("overwrite", 0), drawn("readrandom", 0));
}

#[test]
fn splits_cut_the_records_into_equal_parts() {
    let parameters = Parameters::default();
    assert_eq!(splits(&parameters, RECORDS, 4), [key(250), key(500), key(750)]);
    assert!(splits(&parameters, RECORDS, 1).is_empty());
    assert_eq!(splits(&parameters, 2, 8), [key(1)]);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    for parameters in [
        Parameters { key_bytes: Some(1), ..Parameters::default() },
        Parameters { batch: 0, ..Parameters::default() },
        Parameters { compressible: 2.0, ..Parameters::default() },
    ] {
        let made = (find("fillseq").unwrap().make)(&parameters, &dataset());
        assert!(matches!(made, Err(Error::Usage(_))), "{parameters:?}");
    }
}

#[test]
fn multireadrandom_reads_a_batch_of_keys_in_one_operation_each() {
    let model = loaded(2);
    for (batch, at_once) in [(1, KEYS_AT_ONCE), (5, 5)] {
        let parameters = Parameters { batch, ..Parameters::default() };
        let (done, state) = run_on(&model, "multireadrandom", &parameters, 1, 100);
        let (calls, outcome) = only(&done, Class::Get);
        assert_eq!((calls, outcome.operations), (100, 100 * at_once));
        assert_eq!(state.calls["get"], outcome.operations);
        let found = outcome.operations - outcome.missing;
        assert_eq!(outcome.read_bytes, 100 * found);
        assert!(found * 3 > outcome.operations && found * 3 < 2 * outcome.operations, "half of the keys are there");
        assert!(state.keys.iter().all(|key| keys().contains(key)));
    }
}
