//! `prefix-dist`: ZippyDB's mix at Meta, with keys in ranges of different heat (VLSM-E4).
//!
//! The workload is "Prefix_dist" of Cao et al., "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads
//! at Facebook", FAST '20: key ranges differ in heat, and so do the keys inside them. Its parameters are those of the
//! paper's appendix for `db_bench --benchmarks=mixgraph`: 83 % gets, 14 % puts, 3 % seeks; keys of 48 bytes; heat of
//! ranges and of keys in [`KeyRanges`]; sizes of values and lengths of scans in [`Pareto`], at most 1024 bytes and
//! 10,000 entries (`mix_max_value_size`, `mix_max_scan_len`). Loaded values have 43 bytes, as those of `fillrandom`
//! before this mix (`-value_size=43`).
//!
//! Differences from `db_bench`: the load writes every key once (`fillrandom` leaves out more than a third of them). The
//! draws for one operation are independent. The rate does not follow a sine: a rate is the open loop's. A `value_bytes`
//! other than 43 scales all sizes by the same factor.

use super::load::Load;
use super::mix::{Mix, Share};
use super::touch::touch;
use super::values::Values;
use super::{Class, Client, Dataset, DatasetKind, Defaults, Definition, Outcome, Workload};
use crate::distribution::{KeyRanges, Pareto, Permutation, PowerLaw, Random, TwoTermExponential, fraction, random};
use crate::engine::Session;
use crate::error::{Error, Result};
use crate::parameters::Parameters;

const LOAD: Defaults =
    Defaults { records: 2_000_000, operations: None, seconds: None, bounded: false, key_bytes: 48, value_bytes: 43 };
const SOURCE: &str = "VLSM-E4; Cao et al., FAST '20, Prefix_dist";
const SHARES: &[Share] = &[("get", Class::Get, 83.0), ("put", Class::Update, 14.0), ("seek", Class::Scan, 3.0)];
const VALUE_BYTES_MAX: u64 = 1024;
const SCAN_ENTRIES_MAX: u32 = 10_000;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "prefix-dist-load",
        about: "put every key of prefix-dist once, in random order",
        source: SOURCE,
        dataset: DatasetKind::PrefixDist,
        load: "prefix-dist-load",
        defaults: LOAD,
        share: 1,
        make: |parameters, dataset| {
            let key_bytes = key_bytes(parameters, dataset)?;
            let order = Permutation::new(dataset.records, parameters.seed);
            let value_bytes = parameters.value_bytes.unwrap_or(LOAD.value_bytes) as usize;
            let write = move |place, bytes: &mut [u8]| write_key(order.number(place), bytes);
            Ok(Box::new(Load::new(parameters, dataset, (key_bytes, write), value_bytes)?))
        },
        splits,
    },
    Definition {
        name: "prefix-dist",
        about: "83 % get, 14 % put, 3 % seek with Meta's heat of keys, sizes and lengths (mix: get, put, seek)",
        source: SOURCE,
        dataset: DatasetKind::PrefixDist,
        load: "prefix-dist-load",
        defaults: Defaults { operations: Some(1_000_000), seconds: Some(10.0), ..LOAD },
        share: 1,
        make: |parameters, dataset| Ok(Box::new(Mixture::new(parameters, dataset)?)),
        splits,
    },
];

fn splits(parameters: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    let first = |partition| (u128::from(records) * u128::from(partition) / u128::from(partitions)) as u64;
    let mut splits: Vec<u64> = (1..partitions).map(first).filter(|number| *number > 0).collect();
    splits.dedup(); // More partitions than records: one for each.
    let key = |number| {
        let mut key = vec![0; (parameters.key_bytes.unwrap_or(LOAD.key_bytes) as usize).max(8)];
        write_key(number, &mut key);
        key
    };
    splits.into_iter().map(key).collect()
}

/// Writes the number, big-endian, padded with zeros (the digit) up to the key's length, as `db_bench` makes keys.
fn write_key(number: u64, key: &mut [u8]) {
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].fill(b'0');
}

fn key_bytes(parameters: &Parameters, dataset: &Dataset) -> Result<usize> {
    let bytes = parameters.key_bytes.unwrap_or(LOAD.key_bytes);
    if bytes < 8 {
        return Err(Error::Usage(format!("a key of prefix-dist has at least 8 bytes, not {bytes}")));
    }
    if dataset.records == 0 {
        return Err(Error::Usage("prefix-dist needs at least one record".into()));
    }
    Ok(bytes as usize)
}

struct Mixture {
    key_bytes: usize,
    keys: KeyRanges,
    mix: Mix,
    sizes: Pareto,
    value_bytes_max: u64,
    scan_entries_max: u64,
    values: Values,
    sync: bool,
}

impl Mixture {
    fn new(parameters: &Parameters, dataset: &Dataset) -> Result<Mixture> {
        let key_bytes = key_bytes(parameters, dataset)?;
        let stretch = parameters.value_bytes.map_or(1.0, |bytes| f64::from(bytes) / f64::from(LOAD.value_bytes));
        let value_bytes_max = (VALUE_BYTES_MAX as f64 * stretch).ceil().max(1.0) as u64;
        Ok(Mixture {
            key_bytes,
            keys: KeyRanges::new(dataset.records, TwoTermExponential::HEAT, PowerLaw::KEYS),
            mix: Mix::new("prefix-dist", SHARES, &parameters.mix)?,
            sizes: Pareto { sigma: Pareto::VALUE_BYTES.sigma * stretch, ..Pareto::VALUE_BYTES },
            value_bytes_max,
            scan_entries_max: u64::from(parameters.scan_entries_max.unwrap_or(SCAN_ENTRIES_MAX).max(1)),
            values: Values::new(value_bytes_max as usize, parameters.compressible, parameters.seed)?,
            sync: parameters.settings.sync,
        })
    }
}

impl Workload for Mixture {
    fn client(&self, thread: usize, _threads: usize, seed: u64) -> Box<dyn Client + '_> {
        Box::new(Mixer {
            mixture: self,
            random: random(seed, "prefix-dist", thread),
            class: Class::Get,
            key: vec![0; self.key_bytes],
            values: self.values.of_thread(thread),
            entries: 0,
        })
    }
}

struct Mixer<'a> {
    mixture: &'a Mixture,
    random: Random,
    class: Class,
    key: Vec<u8>,
    values: Values,
    /// Entries of the scan.
    entries: u64,
}

impl Mixer<'_> {
    /// A number above 0 and at most 1.
    fn tail(&mut self) -> f64 {
        1.0 - fraction(&mut self.random)
    }

    fn scan(&self, session: &mut dyn Session) -> Result<Outcome> {
        let (mut entries, mut read) = (0, 0);
        session.scan(&self.key, &mut |key, value| {
            touch(value);
            entries += 1;
            read += (key.len() + value.len()) as u64;
            entries < self.entries
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(entries == 0), read_bytes: read, ..Outcome::default() })
    }
}

impl Client for Mixer<'_> {
    fn prepare(&mut self) -> Option<Class> {
        let mixture = self.mixture;
        self.class = mixture.mix.next(&mut self.random);
        let (range, rank) = (self.tail(), self.tail());
        write_key(mixture.keys.key(range, rank), &mut self.key);
        match self.class {
            Class::Update => {
                let tail = self.tail();
                self.values.draw(mixture.sizes.whole(tail, mixture.value_bytes_max) as usize);
            }
            Class::Scan => self.entries = Pareto::SCAN_ENTRIES.whole(self.tail(), mixture.scan_entries_max),
            _ => {}
        }
        Some(self.class)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        match self.class {
            Class::Update => {
                let value = self.values.value();
                session.put(&self.key, value, self.mixture.sync)?;
                let written_bytes = (self.key.len() + value.len()) as u64;
                Ok(Outcome { operations: 1, written_bytes, ..Outcome::default() })
            }
            Class::Scan => self.scan(session),
            _ => {
                let mut read = 0;
                let found = session.get(&self.key, &mut |value| {
                    touch(value);
                    read = value.len();
                })?;
                let read_bytes = read as u64;
                Ok(Outcome { operations: 1, missing: u64::from(!found), read_bytes, ..Outcome::default() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::tests::model::Model;
    use crate::workload::find;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn dataset(records: u64) -> Arc<Dataset> {
        Arc::new(Dataset { kind: DatasetKind::PrefixDist, records, next: 0.into(), acknowledged: 0.into() })
    }

    fn make(name: &str, parameters: &Parameters, dataset: &Arc<Dataset>) -> Box<dyn Workload> {
        (find(name).unwrap().make)(parameters, dataset).unwrap()
    }

    /// All outcomes of `operations` operations of one client, by class.
    fn run(workload: &dyn Workload, model: &Model, operations: usize) -> BTreeMap<Class, Vec<Outcome>> {
        let mut outcomes: BTreeMap<Class, Vec<Outcome>> = BTreeMap::new();
        let mut client = workload.client(0, 1, 1);
        for _ in 0..operations {
            let Some(class) = client.prepare() else { break };
            outcomes.entry(class).or_default().push(client.execute(&mut *model.session().unwrap()).unwrap());
        }
        outcomes
    }

    fn loaded(parameters: &Parameters, dataset: &Arc<Dataset>) -> Model {
        let model = Model::default();
        let puts = run(&*make("prefix-dist-load", parameters, dataset), &model, usize::MAX);
        assert_eq!(puts[&Class::Insert].len() as u64, dataset.records);
        model
    }

    #[test]
    fn every_key_is_loaded_once_with_the_papers_sizes() {
        let state = loaded(&Parameters::default(), &dataset(3_000)).state();
        assert_eq!((state.entries.len(), state.calls["put"]), (3_000, 3_000));
        assert!(state.entries.iter().all(|(key, value)| (key.len(), value.len()) == (48, 43)));
        assert_ne!(state.keys.iter().min(), state.keys.first());
    }

    #[test]
    fn operations_have_the_published_shares_sizes_and_lengths() {
        let (parameters, dataset) = (Parameters::default(), dataset(20_000));
        let model = loaded(&parameters, &dataset);
        let outcomes = run(&*make("prefix-dist", &parameters, &dataset), &model, 20_000);
        let of = |class| outcomes[&class].len() as f64;
        for (class, share) in [(Class::Get, 0.83), (Class::Update, 0.14), (Class::Scan, 0.03_f64)] {
            let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
            assert!((of(class) - 20_000.0 * share).abs() < 5.0 * deviation, "{class:?}: {}", of(class));
        }
        assert!(outcomes.values().flatten().all(|outcome| (outcome.operations, outcome.missing) == (1, 0)));
        // Rounding up adds half a byte to the mean of theory, 34.5.
        let written: u64 = outcomes[&Class::Update].iter().map(|outcome| outcome.written_bytes - 48).sum();
        let mean = written as f64 / of(Class::Update);
        assert!((mean - 35.0).abs() < 5.0, "values of {mean} bytes");
        // Half of the scans take up to 26 entries: 14.236 (0.5^-2.517 - 1) / 2.517 = 26.7.
        let short = outcomes[&Class::Scan].iter().filter(|outcome| outcome.read_bytes <= 27 * (48 + 200)).count();
        assert!((short as f64 / of(Class::Scan) - 0.55).abs() < 0.12, "{short} of {} short", of(Class::Scan));
    }

    #[test]
    fn a_mix_and_the_longest_scan_are_the_users() {
        let parameters =
            Parameters { mix: [("seek".to_owned(), 1.0)].into(), scan_entries_max: Some(3), ..Parameters::default() };
        let dataset = dataset(100);
        let model = loaded(&parameters, &dataset);
        let outcomes = run(&*make("prefix-dist", &parameters, &dataset), &model, 500);
        assert_eq!(outcomes.keys().collect::<Vec<_>>(), [&Class::Scan]);
        let longest = outcomes[&Class::Scan].iter().map(|outcome| outcome.read_bytes / 91).max();
        assert_eq!(longest, Some(3));
    }

    #[test]
    fn values_stretch_with_the_size_asked_for() {
        let parameters =
            Parameters { value_bytes: Some(430), mix: [("put".to_owned(), 1.0)].into(), ..Parameters::default() };
        let outcomes = run(&*make("prefix-dist", &parameters, &dataset(1_000)), &Model::default(), 10_000);
        let sizes = outcomes[&Class::Update].iter().map(|outcome| outcome.written_bytes - 48);
        let mean = sizes.sum::<u64>() as f64 / 10_000.0;
        assert!((mean - 345.0).abs() < 30.0, "values of {mean} bytes");
    }

    #[test]
    fn partitions_have_about_as_many_keys_each() {
        let entries = loaded(&Parameters::default(), &dataset(1_000)).state().entries;
        let splits = splits(&Parameters::default(), 1_000, 3);
        assert!(splits.iter().all(|split| entries.contains_key(split)));
        let first = entries.keys().filter(|key| **key < splits[0]).count();
        let second = entries.keys().filter(|key| (&splits[0]..&splits[1]).contains(key)).count();
        assert_eq!((first, second), (333, 333));
    }
}
