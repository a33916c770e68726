//! The contents that the shop leaves in a store, seen in a map in memory.

use super::schema::{BY_STATUS, HEAD, INDEXES, STATUSES, TABLES};
use super::*;
use crate::engine::Engine;
use crate::engine::tests::model::Model;
use crate::workload::tests::exercise::exercise;
use crate::workload::{Dataset, Outcome, find};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn dataset(records: u64) -> Arc<Dataset> {
    Arc::new(Dataset { kind: DatasetKind::Retail, records, next: 0.into(), acknowledged: 0.into() })
}

/// Small rows, so that a test may write many.
fn small() -> Parameters {
    Parameters { key_bytes: Some(28), value_bytes: Some(10), ..Parameters::default() }
}

fn make(name: &str, parameters: &Parameters, dataset: &Arc<Dataset>) -> Box<dyn Workload> {
    (find(name).unwrap().make)(parameters, dataset).unwrap()
}

/// `operations` operations of `clients` clients in turn; the next client prepares before the last one executes.
fn run(workload: &dyn Workload, model: &Model, threads: usize, operations: usize) -> BTreeMap<Class, Vec<Outcome>> {
    let mut outcomes: BTreeMap<Class, Vec<Outcome>> = BTreeMap::new();
    let mut clients: Vec<_> = (0..threads).map(|thread| workload.client(thread, threads, 1)).collect();
    let mut left = operations;
    while left > 0 {
        let prepared: Vec<_> = clients.iter_mut().map(|client| client.prepare()).collect();
        if prepared.iter().all(Option::is_none) {
            break;
        }
        // Backwards, so that later orders are written before earlier ones.
        for (client, class) in clients.iter_mut().zip(prepared).rev() {
            if let Some(class) = class.filter(|_| left > 0) {
                outcomes.entry(class).or_default().push(client.execute(&mut *model.session().unwrap()).unwrap());
                left -= 1;
            }
        }
    }
    outcomes
}

fn loaded(parameters: &Parameters, dataset: &Arc<Dataset>) -> Model {
    let model = Model::default();
    run(&*make("retail-load", parameters, dataset), &model, 2, usize::MAX);
    model
}

/// Every row has its three index entries and no more, and every entry its row.
fn check(parameters: &Parameters, dataset: &Dataset, model: &Model) {
    let schema = Schema::new(parameters, dataset.records, (LOAD.key_bytes, LOAD.value_bytes)).unwrap();
    let entries = model.state().entries;
    let orders = dataset.acknowledged.load(Ordering::SeqCst);
    let mut expected = BTreeMap::new();
    for (table, rows) in TABLES.iter().enumerate() {
        for row in 0..orders * rows {
            let mut key = Vec::new();
            Schema::row_key(table, row, &mut key);
            let value = entries.get(&key).unwrap_or_else(|| panic!("row {row} of table {table} is missing"));
            assert_eq!(value.len(), schema.value_bytes);
            for index in 1..=INDEXES {
                let mut entry = Vec::new();
                schema.index_key(table, index, row, value[0], &mut entry);
                assert_eq!(entry.len(), schema.key_bytes);
                assert_eq!(Schema::row_of(&entry), row);
                expected.insert(entry, Vec::new());
            }
            expected.insert(key, value.clone());
        }
    }
    assert_eq!(expected.len(), orders as usize * Schema::order_entries());
    assert!(entries == expected, "{} entries instead of {}", entries.len(), expected.len());
}

#[test]
fn an_order_writes_the_bytes_that_are_documented() {
    let (parameters, dataset) = (Parameters::default(), dataset(3));
    let model = Model::default();
    let outcomes = run(&*make("retail-load", &parameters, &dataset), &model, 1, usize::MAX);
    let written: Vec<u64> = outcomes[&Class::Transaction].iter().map(|outcome| outcome.written_bytes).collect();
    assert_eq!(written, [100_400; 3]);
    let state = model.state();
    let bytes: usize = state.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!((bytes, state.entries.len(), state.calls["put_batch"]), (3 * 100_400, 600, 3));
}

#[test]
fn a_load_writes_all_orders_with_their_indexes() {
    let (parameters, dataset) = (small(), dataset(101));
    let model = loaded(&parameters, &dataset);
    assert_eq!(dataset.acknowledged.load(Ordering::SeqCst), 101);
    check(&parameters, &dataset, &model);
}

#[test]
fn indexes_stay_right_while_two_clients_do_all_that_is_done() {
    let (parameters, dataset) = (small(), dataset(100));
    let model = loaded(&parameters, &dataset);
    let before = model.state().entries;
    let outcomes = run(&*make("retail", &parameters, &dataset), &model, 2, 10_000);
    assert!(dataset.acknowledged.load(Ordering::SeqCst) > 500);
    check(&parameters, &dataset, &model);
    let after = model.state().entries;
    assert!(before.keys().any(|key| !after.contains_key(key)), "no index entry was moved");
    for class in [Class::Get, Class::Update, Class::Scan, Class::Transaction] {
        assert!(outcomes[&class].iter().all(|outcome| (outcome.operations, outcome.missing) == (1, 0)), "{class:?}");
    }
    let empty = outcomes[&Class::Query].iter().filter(|outcome| outcome.missing > 0).count();
    assert!(empty * 20 < outcomes[&Class::Query].len(), "{empty} queries found nothing");
}

#[test]
fn operations_have_their_shares() {
    let (parameters, dataset) = (small(), dataset(50));
    let model = loaded(&parameters, &dataset);
    let outcomes = run(&*make("retail", &parameters, &dataset), &model, 2, 20_000);
    let shares = [
        (Class::Transaction, 0.05),
        (Class::Query, 0.5),
        (Class::Update, 0.25),
        (Class::Get, 0.15),
        (Class::Scan, 0.05_f64),
    ];
    for (class, share) in shares {
        let (found, deviation) = (outcomes[&class].len() as f64, (20_000.0 * share * (1.0 - share)).sqrt());
        assert!((found - 20_000.0 * share).abs() < 5.0 * deviation, "{class:?}: {found}");
    }
}

#[test]
fn a_mix_replaces_the_shares() {
    let parameters =
        Parameters { mix: [("query", 1.0), ("get", 3.0)].map(|(n, s)| (n.to_owned(), s)).into(), ..small() };
    let dataset = dataset(50);
    let model = loaded(&parameters, &dataset);
    let outcomes = run(&*make("retail", &parameters, &dataset), &model, 1, 4_000);
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), [&Class::Get, &Class::Query]);
    assert!((outcomes[&Class::Query].len() as f64 - 1_000.0).abs() < 140.0);
}

#[test]
fn a_query_reads_index_entries_and_their_rows() {
    let parameters = Parameters { mix: [("query".to_owned(), 1.0)].into(), ..small() };
    let dataset = dataset(200);
    let model = loaded(&parameters, &dataset);
    let calls = model.state().calls;
    let outcomes = run(&*make("retail", &parameters, &dataset), &model, 1, 2_000);
    let after = model.state().calls;
    let gets = after["get"] - calls.get("get").unwrap_or(&0);
    assert_eq!(after["scan"] - calls.get("scan").unwrap_or(&0), 2_000);
    // An entry of 28 bytes and a row of 10 for each of them.
    assert_eq!(outcomes[&Class::Query].iter().map(|outcome| outcome.read_bytes).sum::<u64>(), gets * (28 + 10));
    assert!(outcomes[&Class::Query].iter().all(|outcome| outcome.read_bytes <= 10 * (28 + 10)));
    assert!(gets > 2_000 * 3, "{gets} rows for 2000 queries");
}

#[test]
fn updates_prefer_recent_orders_and_move_one_index_entry() {
    let parameters = Parameters { mix: [("update".to_owned(), 1.0)].into(), ..small() };
    let dataset = dataset(1_000);
    let model = loaded(&parameters, &dataset);
    let loaded = model.state();
    run(&*make("retail", &parameters, &dataset), &model, 1, 2_000);
    let state = model.state();
    assert_eq!(state.entries.len(), loaded.entries.len());
    assert_eq!((state.calls["get"], state.calls["remove"]), (2_000, 2_000));
    let row = |key: &Vec<u8>| u64::from_be_bytes(key[HEAD..HEAD + 8].try_into().unwrap());
    let orders = state.keys[loaded.keys.len()..].iter().filter(|key| key.len() == 12 && key[1] == 0);
    let (recent, all) = orders.fold((0, 0), |(recent, all), key| (recent + u32::from(row(key) >= 900), all + 1));
    assert!(recent * 10 > all * 6, "{recent} of {all} among the newest tenth, where a zipfian means 69 %");
}

#[test]
fn an_order_that_was_prepared_but_not_written_leaves_no_gap() {
    let (parameters, dataset) = (small(), dataset(10));
    let model = Model::default();
    let load = make("retail-load", &parameters, &dataset);
    let mut broken_off = load.client(0, 2, 1);
    broken_off.prepare();
    let mut other = load.client(1, 2, 1);
    other.prepare();
    other.execute(&mut *model.session().unwrap()).unwrap();
    assert_eq!(dataset.acknowledged.load(Ordering::SeqCst), 0);
    drop(broken_off);
    drop(other);
    run(&*load, &model, 2, usize::MAX);
    assert_eq!(dataset.acknowledged.load(Ordering::SeqCst), 10);
    check(&parameters, &dataset, &model);
}

#[test]
fn a_shop_without_orders_begins_with_one() {
    let (parameters, dataset, model) = (small(), dataset(0), Model::default());
    let outcomes = run(&*make("retail", &parameters, &dataset), &model, 1, 500);
    assert!(outcomes.values().flatten().all(|outcome| outcome.operations == 1));
    check(&parameters, &dataset, &model);
}

#[test]
fn partitions_hold_about_as_much_each() {
    let (parameters, dataset) = (Parameters { value_bytes: Some(200), ..Parameters::default() }, dataset(400));
    let model = loaded(&parameters, &dataset);
    let splits = splits(&parameters, 400, 8);
    assert!(splits.is_sorted() && splits.len() == 7);
    let mut bytes = [0.0; 8];
    for (key, value) in &model.state().entries {
        bytes[splits.partition_point(|split| split <= key)] += (key.len() + value.len()) as f64;
    }
    let even = bytes.iter().sum::<f64>() / 8.0;
    assert!(bytes.iter().all(|bytes| (bytes / even - 1.0).abs() < 0.1), "{bytes:?}, even {even}");
}

#[test]
fn sizes_that_are_too_small_are_refused() {
    for (key_bytes, value_bytes) in [(27, 10), (28, 9)] {
        let parameters =
            Parameters { key_bytes: Some(key_bytes), value_bytes: Some(value_bytes), ..Parameters::default() };
        assert!((find("retail").unwrap().make)(&parameters, &dataset(10)).is_err());
    }
}

#[test]
fn loaded_orders_are_in_every_status_but_the_first() {
    let (parameters, dataset) = (small(), dataset(100));
    let model = loaded(&parameters, &dataset);
    let mut statuses = [0; STATUSES as usize];
    for key in model.state().entries.keys().filter(|key| key[..HEAD] == [0, 0, 0, BY_STATUS as u8]) {
        statuses[usize::from(key[HEAD])] += 1;
    }
    assert_eq!(statuses[0], 0);
    assert!(statuses[1..].iter().all(|count| *count > 2), "{statuses:?}");
}

#[test]
fn indexes_stay_right_under_threads_that_run_at_once() {
    let (parameters, dataset) = (small(), dataset(100));
    let model = loaded(&parameters, &dataset);
    let done = exercise(&*make("retail", &parameters, &dataset), &model, 4, 4_000);
    assert_eq!(done.values().map(|(calls, _)| calls).sum::<u64>(), 4_000);
    assert_eq!([Class::Get, Class::Update, Class::Scan].map(|class| done[&class].1.missing), [0; 3]);
    check(&parameters, &dataset, &model);
}
