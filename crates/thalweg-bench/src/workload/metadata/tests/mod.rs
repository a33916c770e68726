//! The calls that the workloads of directories make.

use super::entry::ENTRIES;
use super::*;
use crate::engine::Engine;
use crate::engine::tests::model::Model;
use crate::workload::{Class, Client, find};
use std::collections::{BTreeMap, BTreeSet};

fn make(name: &str, parameters: &Parameters, dataset: &Arc<Dataset>) -> Box<dyn Workload> {
    (find(name).unwrap().make)(parameters, dataset).unwrap()
}

fn dataset(records: u64) -> Arc<Dataset> {
    Arc::new(Dataset { kind: DatasetKind::Metadata, records, next: 0.into(), acknowledged: 0.into() })
}

/// The entries of `records` records, put by three clients in turn.
fn loaded(parameters: &Parameters, dataset: &Arc<Dataset>) -> Model {
    loaded_by("metadata-put", parameters, dataset)
}

fn loaded_by(name: &str, parameters: &Parameters, dataset: &Arc<Dataset>) -> Model {
    let (model, load) = (Model::default(), make(name, parameters, dataset));
    let mut clients: Vec<_> = (0..3).map(|thread| load.client(thread, 3, 1)).collect();
    let mut turn = || clients.iter_mut().map(|client| u64::from(put(client.as_mut(), &model))).sum::<u64>();
    let puts: u64 = std::iter::from_fn(|| Some(turn()).filter(|puts| *puts > 0)).sum();
    assert_eq!(puts, dataset.records);
    model
}

fn put(client: &mut dyn Client, model: &Model) -> bool {
    let class = client.prepare();
    class.is_some_and(|class| {
        assert_eq!(class, Class::Insert);
        client.execute(&mut *model.session().unwrap()).unwrap().written_bytes == 144
    })
}

#[test]
fn every_directory_has_twenty_entries_of_the_papers_size() {
    let model = loaded(&Parameters::default(), &dataset(2_000)).state();
    let mut directories: BTreeMap<u64, u64> = BTreeMap::new();
    for (key, value) in &model.entries {
        assert_eq!((key.len(), value.len()), (16, 128));
        *directories.entry(u64::from_be_bytes(key[..8].try_into().unwrap())).or_default() += 1;
    }
    assert_eq!(directories, (0..100).map(|directory| (directory, 20)).collect());
    assert_eq!(model.calls["put"], 2_000);
}

#[test]
fn directories_have_as_many_entries_as_are_asked_for() {
    let parameters = Parameters { directory_entries: Some(500), ..Parameters::default() };
    let dataset = dataset(2_000);
    let model = loaded(&parameters, &dataset);
    let directories: BTreeSet<_> = model.state().entries.keys().map(|key| key[..8].to_vec()).collect();
    assert_eq!(directories.len(), 4);
    let get = make("metadata-get", &parameters, &dataset);
    let mut client = get.client(0, 1, 1);
    client.prepare();
    assert_eq!(client.execute(&mut *model.session().unwrap()).unwrap().missing, 0);
}

#[test]
fn entries_do_not_come_in_the_order_of_their_keys() {
    let keys = loaded(&Parameters::default(), &dataset(2_000)).state().keys;
    let rising = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((800..1200).contains(&rising), "{rising} of 2000 steps go up");
}

#[test]
fn entries_of_a_directory_come_together_in_a_random_order_of_directories() {
    for (entries, records) in [(20, 2_007), (1, 100), (500, 2_007), (3_000, 2_007)] {
        let parameters = Parameters { directory_entries: Some(entries), ..Parameters::default() };
        let local = loaded_by("metadata-put-local", &parameters, &dataset(records)).state();
        let random = loaded(&parameters, &dataset(records)).state();
        assert!(local.entries.keys().eq(random.entries.keys()), "{entries} of {records}");
        let mut directories: Vec<_> = local.keys.iter().map(|key| key[..8].to_vec()).collect();
        directories.dedup();
        assert_eq!(directories.len() as u64, records.div_ceil(entries), "each comes once");
        if directories.len() > 50 {
            let rising = directories.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!((directories.len() / 3..directories.len() * 2 / 3).contains(&rising), "{rising} steps go up");
        }
    }
}

#[test]
fn every_listed_directory_is_complete() {
    let (parameters, dataset) = (Parameters::default(), dataset(2_007));
    let model = loaded(&parameters, &dataset);
    let list = make("metadata-list", &parameters, &dataset);
    let mut client = list.client(0, 1, 1);
    let mut sizes = BTreeSet::new();
    for _ in 0..2_000 {
        assert_eq!(client.prepare(), Some(Class::Scan));
        let outcome = client.execute(&mut *model.session().unwrap()).unwrap();
        assert_eq!((outcome.operations, outcome.missing), (1, 0));
        sizes.insert(outcome.read_bytes);
    }
    // All have 20 but the last, which has 7.
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [7 * 144, 20 * 144]);
    let listed: BTreeSet<_> = model.state().keys.into_iter().filter(|key| key.len() == 8).collect();
    assert_eq!(listed.len(), 101, "of the directories");
}

#[test]
fn gets_find_what_was_put_whatever_the_distribution() {
    let dataset = dataset(1_003);
    let uniform = Parameters::default();
    let model = loaded(&uniform, &dataset);
    let latest = Parameters { distribution: Some(Distribution::Latest), ..Parameters::default() };
    for (name, parameters) in [
        ("metadata-get", &uniform),
        ("metadata-get", &latest),
        ("metadata-get-zipfian", &uniform),
        ("metadata-get-reader", &uniform),
        ("metadata-get-async", &uniform),
        ("metadata-get-async-zipfian", &uniform),
    ] {
        let get = make(name, parameters, &dataset);
        let mut client = get.client(0, 1, 1);
        for _ in 0..1_000 {
            assert_eq!(client.prepare(), Some(Class::Get));
            let outcome = client.execute(&mut *model.session().unwrap()).unwrap();
            assert_eq!((outcome.operations, outcome.missing, outcome.read_bytes), (1, 0, 128), "{name}");
        }
    }
}

#[test]
fn the_latest_entries_are_those_that_were_put_last() {
    let parameters = Parameters { distribution: Some(Distribution::Latest), ..Parameters::default() };
    let dataset = dataset(1_000);
    let put_last = key(random_order(&parameters, &dataset).unwrap().number(999), ENTRIES);
    let (model, get) = (Model::default(), make("metadata-get", &parameters, &dataset));
    let mut client = get.client(0, 1, 1);
    for _ in 0..1_000 {
        client.prepare();
        client.execute(&mut *model.session().unwrap()).unwrap();
    }
    let newest = model.state().keys.iter().filter(|key| **key == put_last).count();
    assert!(newest > 80, "{newest} of 1000, where a zipfian over 1000 means 130");
}

#[test]
fn partitions_have_about_as_many_entries_each() {
    let (parameters, dataset) = (Parameters::default(), dataset(10_000));
    let splits = splits(&parameters, 10_000, 4);
    let entries = loaded(&parameters, &dataset).state().entries;
    let sizes: Vec<usize> =
        (0..=3).map(|i| entries.keys().filter(|key| splits.partition_point(|s| s <= *key) == i).count()).collect();
    assert_eq!(sizes, [2_500; 4]);
}

#[test]
fn other_sizes_of_keys_are_refused() {
    let parameters = Parameters { key_bytes: Some(24), ..Parameters::default() };
    for name in FAMILY {
        assert!((find(name).unwrap().make)(&parameters, &dataset(100)).is_err(), "{name}");
        assert!((find(name).unwrap().make)(&Parameters::default(), &dataset(0)).is_err(), "{name}");
    }
}
