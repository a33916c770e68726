//! `metadata`: the entries of directories, as a file system keeps them (PHAT-E3, figure 9).
//!
//! A key is the directory's number (8 bytes, big-endian) and a hash of the entry's name (8 bytes; here of the entry's
//! number, one to one, so that no two entries of a directory meet). Every directory has 20 entries, or as many as
//! `directory-entries` says, and the last one what is left over. Entry `e` is in directory `e / 20`.
//!
//! The paper does not say in which order entries are put. They are put here in a random order over all directories:
//! LevelDB's write amplification of 10.3 during the paper's load (PHAT-E4) shows that the keys did not come in order,
//! for tables that do not overlap are moved down, not rewritten.

use super::load::Load;
use super::touch::touch;
use super::{Class, Client, Dataset, DatasetKind, Defaults, Definition, Outcome, Workload};
use crate::distribution::{Chooser, Permutation, Random, random, scrambled};
use crate::engine::Session;
use crate::error::{Error, Result};
use crate::parameters::{Distribution, Parameters};

/// Entries of a directory: what the paper takes for typical.
const ENTRIES: u64 = 20;
const KEY_BYTES: u32 = 16;
const PUT: Defaults = Defaults {
    records: 2_000_000,
    operations: None,
    seconds: None,
    bounded: false,
    key_bytes: KEY_BYTES,
    value_bytes: 128,
};
const READ: Defaults = Defaults { operations: Some(1_000_000), seconds: Some(10.0), ..PUT };

/// The steps of `metadata`, in the paper's order.
pub(super) const FAMILY: &[&str] = &["metadata-put", "metadata-get", "metadata-get-zipfian", "metadata-list"];

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "metadata-put",
        about: "put the entries of directories of 20 in random order",
        source: "PHAT-E3, figure 9a",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: PUT,
        share: 1,
        make: |parameters, dataset| {
            let order = order(parameters, dataset)?;
            let value_bytes = parameters.value_bytes.unwrap_or(PUT.value_bytes) as usize;
            let entries = entries_of(parameters);
            let write = move |entry, bytes: &mut [u8]| bytes.copy_from_slice(&key(entry, entries));
            Ok(Box::new(Load::new(parameters, dataset, order, (KEY_BYTES as usize, write), value_bytes)?))
        },
        splits,
    },
    Definition {
        name: "metadata-get",
        about: "get entries of directories, uniform unless told otherwise",
        source: "PHAT-E3, figure 9b",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| {
            let distribution = parameters.distribution.unwrap_or(Distribution::Uniform);
            Ok(Box::new(Gets::new(parameters, dataset, "metadata-get", distribution)?))
        },
        splits,
    },
    Definition {
        name: "metadata-get-zipfian",
        about: "get entries of directories, a few of them often",
        source: "PHAT-E3, figure 9c",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| {
            Ok(Box::new(Gets::new(parameters, dataset, "metadata-get-zipfian", Distribution::Zipfian)?))
        },
        splits,
    },
    Definition {
        name: "metadata-list",
        about: "list all entries of one directory, uniform unless told otherwise",
        source: "PHAT-E3, figure 9d",
        dataset: DatasetKind::Metadata,
        load: "metadata-put",
        defaults: READ,
        share: 1,
        make: |parameters, dataset| Ok(Box::new(Lists::new(parameters, dataset)?)),
        splits,
    },
];

/// Entries of a directory.
fn entries_of(parameters: &Parameters) -> u64 {
    parameters.directory_entries.unwrap_or(ENTRIES).max(1)
}

fn splits(parameters: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    let directories = u128::from(records.div_ceil(entries_of(parameters)));
    (1..partitions)
        .map(|i| (directories * u128::from(i) / u128::from(partitions)) as u64)
        .map(|directory| directory.to_be_bytes().to_vec())
        .collect()
}

fn key(entry: u64, entries: u64) -> [u8; KEY_BYTES as usize] {
    let mut key = [0; KEY_BYTES as usize];
    key[..8].copy_from_slice(&(entry / entries).to_be_bytes());
    key[8..].copy_from_slice(&scrambled(entry).to_be_bytes());
    key
}

/// The order in which entries are put, the same for every step of a run.
fn order(parameters: &Parameters, dataset: &Dataset) -> Result<Permutation> {
    if let Some(bytes) = parameters.key_bytes.filter(|&bytes| bytes != KEY_BYTES) {
        return Err(Error::Usage(format!("a key of metadata has {KEY_BYTES} bytes, not {bytes}")));
    }
    if dataset.records == 0 {
        return Err(Error::Usage("metadata needs at least one record".into()));
    }
    Ok(Permutation::new(dataset.records, parameters.seed))
}

struct Gets {
    name: &'static str,
    records: u64,
    entries: u64,
    order: Permutation,
    chooser: Chooser,
}

impl Gets {
    fn new(parameters: &Parameters, dataset: &Dataset, name: &'static str, which: Distribution) -> Result<Gets> {
        let order = order(parameters, dataset)?;
        Ok(Gets {
            name,
            records: dataset.records,
            entries: entries_of(parameters),
            order,
            chooser: Chooser::new(which, dataset.records, dataset.records),
        })
    }
}

impl Workload for Gets {
    fn client(&self, thread: usize, _threads: usize, seed: u64) -> Box<dyn Client + '_> {
        let random = random(seed, self.name, thread);
        Box::new(Get { workload: self, chooser: self.chooser.clone(), random, key: key(0, 1) })
    }
}

struct Get<'a> {
    workload: &'a Gets,
    chooser: Chooser,
    random: Random,
    key: [u8; KEY_BYTES as usize],
}

impl Client for Get<'_> {
    fn prepare(&mut self) -> Option<Class> {
        // The place in the order of puts is drawn, so that the latest are those that were put last.
        let place = self.chooser.next(self.workload.records, &mut self.random);
        self.key = key(self.workload.order.number(place), self.workload.entries);
        Some(Class::Get)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut read = 0;
        let found = session.get(&self.key, &mut |value| {
            touch(value);
            read = value.len();
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(!found), read_bytes: read as u64, ..Outcome::default() })
    }
}

struct Lists {
    directories: u64,
    chooser: Chooser,
}

impl Lists {
    fn new(parameters: &Parameters, dataset: &Dataset) -> Result<Lists> {
        order(parameters, dataset)?;
        let directories = dataset.records.div_ceil(entries_of(parameters));
        let distribution = parameters.distribution.unwrap_or(Distribution::Uniform);
        Ok(Lists { directories, chooser: Chooser::new(distribution, directories, directories) })
    }
}

impl Workload for Lists {
    fn client(&self, thread: usize, _threads: usize, seed: u64) -> Box<dyn Client + '_> {
        let random = random(seed, "metadata-list", thread);
        Box::new(List { workload: self, chooser: self.chooser.clone(), random, directory: [0; 8] })
    }
}

struct List<'a> {
    workload: &'a Lists,
    chooser: Chooser,
    random: Random,
    directory: [u8; 8],
}

impl Client for List<'_> {
    fn prepare(&mut self) -> Option<Class> {
        self.directory = self.chooser.next(self.workload.directories, &mut self.random).to_be_bytes();
        Some(Class::Scan)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let directory = self.directory;
        let mut read = 0;
        // As a file system must, it reads one entry more: only that shows that the directory has ended.
        session.scan(&directory, &mut |key, value| {
            let inside = key.starts_with(&directory);
            if inside {
                touch(value);
                read += (key.len() + value.len()) as u64;
            }
            inside
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(read == 0), read_bytes: read, ..Outcome::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::tests::model::Model;
    use crate::workload::find;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    fn make(name: &str, parameters: &Parameters, dataset: &Arc<Dataset>) -> Box<dyn Workload> {
        (find(name).unwrap().make)(parameters, dataset).unwrap()
    }

    fn dataset(records: u64) -> Arc<Dataset> {
        Arc::new(Dataset { kind: DatasetKind::Metadata, records, next: 0.into(), acknowledged: 0.into() })
    }

    /// The entries of `records` records, put by three clients in turn.
    fn loaded(parameters: &Parameters, dataset: &Arc<Dataset>) -> Model {
        let (model, load) = (Model::default(), make("metadata-put", parameters, dataset));
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
        for (name, parameters) in
            [("metadata-get", &uniform), ("metadata-get", &latest), ("metadata-get-zipfian", &uniform)]
        {
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
        let put_last = key(order(&parameters, &dataset).unwrap().number(999), ENTRIES);
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
}
