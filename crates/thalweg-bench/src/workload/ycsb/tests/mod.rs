//! The calls that each core workload makes, against its specification.

use super::*;
use crate::engine::Engine;
use crate::engine::tests::model::Model;
use crate::error::Error;
use crate::workload::find;
use crate::workload::tests::exercise::exercise;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

const LOADED: u64 = 2000;

fn dataset() -> Arc<Dataset> {
    Arc::new(Dataset {
        kind: DatasetKind::Ycsb,
        records: LOADED,
        next: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
    })
}

fn make(name: &str, parameters: &Parameters, dataset: &Arc<Dataset>) -> Box<dyn Workload> {
    (find(name).unwrap().make)(parameters, dataset).unwrap()
}

fn key(number: u64) -> Vec<u8> {
    let mut key = Vec::new();
    Keys::Published.write(number, &mut key);
    key
}

fn loaded() -> (Model, Arc<Dataset>) {
    let (model, dataset) = (Model::default(), dataset());
    let parameters = Parameters { value_bytes: Some(10), ..Parameters::default() };
    exercise(&*make("ycsb-load", &parameters, &dataset), &model, 1, u64::MAX);
    (model, dataset)
}

fn counts(dataset: &Dataset) -> (u64, u64) {
    (dataset.next.load(Ordering::SeqCst), dataset.acknowledged.load(Ordering::SeqCst))
}

#[test]
fn a_load_by_four_threads_inserts_every_record_once() {
    let (model, dataset) = (Model::default(), dataset());
    let done = exercise(&*make("ycsb-load", &Parameters::default(), &dataset), &model, 4, u64::MAX);
    let (calls, outcome) = done[&Class::Insert];
    let state = model.state();
    assert_eq!((calls, outcome.operations, state.calls["put"]), (LOADED, LOADED, LOADED));
    let keys: BTreeSet<Vec<u8>> = (0..LOADED).map(key).collect();
    assert_eq!(outcome.written_bytes, keys.iter().map(|key| key.len() as u64 + 1000).sum::<u64>());
    assert_eq!(state.entries.into_keys().collect::<BTreeSet<_>>(), keys);
    assert_eq!(counts(&dataset), (LOADED, LOADED));
}

#[test]
fn operations_come_in_the_proportions_of_the_specification_and_find_every_record() {
    for (name, shares) in [
        ("ycsb-a", [(Class::Get, 0.5), (Class::Update, 0.5)]),
        ("ycsb-b", [(Class::Get, 0.95), (Class::Update, 0.05)]),
        ("ycsb-c", [(Class::Get, 1.0), (Class::Update, 0.0)]),
        ("ycsb-d", [(Class::Get, 0.95), (Class::Insert, 0.05)]),
        ("ycsb-e", [(Class::Scan, 0.95), (Class::Insert, 0.05)]),
        ("ycsb-f", [(Class::Get, 0.5), (Class::ReadModifyWrite, 0.5)]),
    ] {
        let (model, dataset) = loaded();
        let operations = 20_000;
        let workload = make(name, &Parameters { value_bytes: Some(10), ..Parameters::default() }, &dataset);
        let done = exercise(&*workload, &model, 4, operations);
        drop(workload);
        assert!(done.keys().all(|class| shares.iter().any(|(known, _)| known == class)), "{name}: {:?}", done.keys());
        for (class, share) in shares {
            let (calls, outcome) = done.get(&class).copied().unwrap_or_default();
            let deviation = (operations as f64 * share * (1.0 - share)).sqrt();
            assert!((calls as f64 - operations as f64 * share).abs() <= 5.0 * deviation, "{name}: {class:?} {calls}");
            assert_eq!((outcome.operations, outcome.missing), (calls, 0), "{name}: {class:?}");
        }
        let inserted = done.get(&Class::Insert).map_or(0, |(calls, _)| *calls);
        let records: BTreeSet<Vec<u8>> = (0..LOADED + inserted).map(key).collect();
        assert_eq!(model.state().entries.into_keys().collect::<BTreeSet<_>>(), records, "{name}");
        assert_eq!(counts(&dataset), (LOADED + inserted, LOADED + inserted), "{name}");
    }
}

#[test]
fn requests_follow_their_distribution() {
    // The share of requests for the one likeliest record, whichever it is, over 2 000.
    let top = |name, distribution| {
        let (model, dataset) = loaded();
        let parameters = Parameters { distribution, mix: [("get".to_owned(), 1.0)].into(), ..Parameters::default() };
        exercise(&*make(name, &parameters, &dataset), &model, 1, 20_000);
        let mut counts = std::collections::BTreeMap::<Vec<u8>, u32>::new();
        let keys = model.state().keys.split_off(usize::try_from(LOADED).unwrap());
        keys.into_iter().for_each(|key| *counts.entry(key).or_default() += 1);
        let (key, count) = counts.into_iter().max_by_key(|(_, count)| *count).unwrap();
        (key, f64::from(count) / 20_000.0)
    };
    // 1 / zeta(10^10), and the record that rank 0 hashes to; a little more by what else hashes there.
    let (likeliest, share) = top("ycsb-a", None);
    assert!((share - 0.0378).abs() < 0.008, "{share}");
    assert_eq!(likeliest, key(crate::distribution::fnv_hash(0) % LOADED));
    // 1 / zeta(2 000), the newest record.
    let zeta: f64 = (1..=LOADED).map(|i| (i as f64).powf(-0.99)).sum();
    for (likeliest, share) in [top("ycsb-d", None), top("ycsb-a", Some(Distribution::Latest))] {
        assert!((share - 1.0 / zeta).abs() < 0.012, "{share}");
        assert_eq!(likeliest, key(LOADED - 1));
    }
    let (_, share) = top("ycsb-d", Some(Distribution::Uniform));
    assert!(share < 0.002, "{share}");
}

#[test]
fn scans_are_as_likely_to_have_any_length_up_to_the_longest() {
    let (_, dataset) = loaded();
    for (scan_entries_max, longest, quantile) in [(None, 100usize, 148.23), (Some(10), 10, 27.877)] {
        let mix = [("scan".to_owned(), 1.0)].into();
        let parameters = Parameters { scan_entries_max, mix, ..Parameters::default() };
        let workload = make("ycsb-e", &parameters, &dataset);
        let mut client = workload.client(0, 1, 1);
        let draws = 20_000u32;
        let mut counts = vec![0u32; longest];
        for _ in 0..draws {
            assert_eq!(client.prepare(), Some(Class::Scan));
            let mut endless = Endless { entries: 0 };
            client.execute(&mut endless).unwrap();
            counts[endless.entries - 1] += 1;
        }
        let expected = f64::from(draws) / longest as f64;
        let statistic: f64 = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        assert!(statistic < quantile, "{statistic}"); // The 0.999 quantile for longest - 1 degrees of freedom.
    }
}

/// Has an entry after every other, and counts those that a scan takes.
struct Endless {
    entries: usize,
}

impl crate::engine::Session for Endless {
    fn put(&mut self, _: &[u8], _: &[u8], _: bool) -> Result<()> {
        unreachable!()
    }

    fn put_batch(&mut self, _: &[(Vec<u8>, Vec<u8>)], _: bool) -> Result<()> {
        unreachable!()
    }

    fn remove(&mut self, _: &[u8], _: bool) -> Result<()> {
        unreachable!()
    }

    fn get(&mut self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        unreachable!()
    }

    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.entries = 1;
        while entry(from, b"value") {
            self.entries += 1;
        }
        Ok(())
    }
}

#[test]
fn an_insert_that_was_prepared_and_never_done_leaves_no_hole_for_the_next_workload() {
    let (model, dataset) = loaded();
    let parameters = Parameters { mix: [("insert".to_owned(), 1.0)].into(), ..Parameters::default() };
    let workload = make("ycsb-d", &parameters, &dataset);
    let (mut stopped, mut other) = (workload.client(0, 2, 1), workload.client(1, 2, 1));
    stopped.prepare().unwrap();
    other.prepare().unwrap();
    other.execute(&mut *model.session().unwrap()).unwrap();
    assert_eq!(counts(&dataset), (LOADED + 2, LOADED), "the record beyond the hole is not acknowledged");
    drop((stopped, other));
    drop(workload);
    exercise(&*make("ycsb-d", &parameters, &dataset), &model, 1, 10);
    assert_eq!(counts(&dataset), (LOADED + 10, LOADED + 10));
    assert_eq!(model.state().entries.len() as u64, LOADED + 10);
}

#[test]
fn a_mix_replaces_the_proportions() {
    let (model, dataset) = loaded();
    let parameters = Parameters { mix: [("remove".to_owned(), 2.0)].into(), ..Parameters::default() };
    let done = exercise(&*make("ycsb-a", &parameters, &dataset), &model, 1, 100);
    assert_eq!(done.keys().collect::<Vec<_>>(), [&Class::Remove]);
    assert_eq!(model.state().calls["remove"], 100);
    let unknown = Parameters { mix: [("put".to_owned(), 1.0)].into(), ..Parameters::default() };
    assert!(matches!((find("ycsb-a").unwrap().make)(&unknown, &dataset), Err(Error::Usage(_))));
}

#[test]
fn splits_cut_the_records_into_about_equal_parts() {
    for key_bytes in [None, Some(16)] {
        let parameters = Parameters { key_bytes, ..Parameters::default() };
        let (records, partitions) = (100_000, 7);
        let splits = splits(&parameters, records, partitions);
        assert!(splits.len() == 6 && splits.is_sorted());
        let keys = Keys::new(key_bytes.unwrap_or(key::PUBLISHED_BYTES)).unwrap();
        let mut sizes = [0u64; 7];
        for number in 0..records {
            let mut key = Vec::new();
            keys.write(number, &mut key);
            sizes[splits.partition_point(|split| *split <= key)] += 1;
        }
        assert!(sizes.iter().all(|size| size.abs_diff(records / 7) < records / 140), "{sizes:?}");
    }
}
