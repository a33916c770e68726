//! A small engine, a small catalogue and one event of each sort, to test plans and tasks with.

use crate::driver::Progress;
use crate::engine::{Counters, Description, Engine, Factory, Session, Syncs};
use crate::error::{Error, Result};
use crate::parameters::{Arrival, Parameters};
use crate::plan::{Limit, Pace};
use crate::process::Event;
use crate::report::{Latency, Run, Sample, Second, StallPeriod, Stalls, Sustained, Usage};
use crate::settings::Settings;
use crate::workload::{Class, Client, Dataset, DatasetKind, Defaults, Definition, Outcome, Workload};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Keeps entries in memory and appends each write to a file.
#[derive(Default)]
pub struct Shelf {
    /// It cannot wait for what it does behind the scenes.
    pub restless: bool,
    /// How often it was opened, and with how many partitions the last time.
    pub opened: AtomicU64,
    /// Partitions at the last opening.
    pub partitions: AtomicU64,
    /// Puts fail.
    pub broken: AtomicBool,
    /// Puts take a tenth of a second.
    pub slow: bool,
    /// How often it settled.
    pub settled: Arc<AtomicU64>,
}

struct Open {
    entries: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    log: Mutex<File>,
    written: AtomicU64,
    restless: bool,
    broken: bool,
    slow: bool,
    settled: Arc<AtomicU64>,
}

impl Factory for Shelf {
    fn name(&self) -> &'static str {
        "shelf"
    }

    fn open(&self, path: &Path, _: &Settings, splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        assert_eq!(fs::read_dir(path).unwrap().count(), 0, "the database's directory is not empty");
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.partitions.store(splits.len() as u64 + 1, Ordering::Relaxed);
        Ok(Box::new(Open {
            entries: Mutex::default(),
            log: Mutex::new(File::create(path.join("log")).unwrap()),
            written: AtomicU64::new(0),
            restless: self.restless,
            broken: self.broken.load(Ordering::Relaxed),
            slow: self.slow,
            settled: Arc::clone(&self.settled),
        }))
    }
}

impl Engine for Open {
    fn describe(&self) -> Description {
        Description { name: "shelf".into(), version: "1".into(), ..Description::default() }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<bool> {
        self.settled.fetch_add(1, Ordering::Relaxed);
        // What compactions would write: it must be seen in what was drained, and only there.
        self.written.fetch_add(1_000_000, Ordering::Relaxed);
        Ok(!self.restless)
    }

    fn counters(&self) -> Counters {
        let written_bytes = [("log".to_owned(), self.written.load(Ordering::Relaxed))].into();
        Counters { written_bytes, ..Counters::default() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Session for &Open {
    fn put(&mut self, key: &[u8], value: &[u8], _: bool) -> Result<()> {
        if self.broken {
            return Err(Error::engine("shelf", "put", "it is broken"));
        }
        if self.slow {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        self.log.lock().unwrap().write_all(value).unwrap();
        self.written.fetch_add(value.len() as u64, Ordering::Relaxed);
        self.entries.lock().unwrap().insert(key.into(), value.into());
        Ok(())
    }

    fn put_batch(&mut self, _: &[(Vec<u8>, Vec<u8>)], _: bool) -> Result<()> {
        Err(Error::engine("shelf", "put a batch", "it has none"))
    }

    fn remove(&mut self, key: &[u8], _: bool) -> Result<()> {
        self.entries.lock().unwrap().remove(key);
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let entries = self.entries.lock().unwrap();
        let found = entries.get(key);
        found.inspect(|found| value(found));
        Ok(found.is_some())
    }

    fn scan(&mut self, _: &[u8], _: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        Err(Error::engine("shelf", "scan", "it is in no order"))
    }
}

/// A load, one of few records, a reader, a writer; and a load and a reader of another kind.
pub const CATALOGUE: &[&Definition] = &[
    &definition("fake-fill", DatasetKind::Numbered, "fake-fill", defaults(10_000, None, None)),
    &definition("fake-fill-few", DatasetKind::Numbered, "fake-fill-few", defaults(100, None, None)),
    &definition("fake-read", DatasetKind::Numbered, "fake-fill", defaults(10_000, Some(5000), Some(10.0))),
    &definition("fake-write", DatasetKind::Numbered, "fake-fill", defaults(10_000, None, None)),
    &definition("other-fill", DatasetKind::Ycsb, "other-fill", defaults(2000, None, None)),
    &definition("other-read", DatasetKind::Ycsb, "other-fill", defaults(2000, None, None)),
];

const fn defaults(records: u64, operations: Option<u64>, seconds: Option<f64>) -> Defaults {
    Defaults { records, operations, seconds, bounded: false, key_bytes: 8, value_bytes: 100 }
}

const fn definition(name: &'static str, dataset: DatasetKind, load: &'static str, defaults: Defaults) -> Definition {
    // A name tells what it does by its last letter.
    let make = match name.as_bytes() {
        [.., b'd'] => make_read,
        [.., b'e'] => make_write,
        _ => make_fill,
    };
    Definition { name, about: "a fake", source: "a test", dataset, load, defaults, share: 1, make, splits }
}

fn splits(_: &Parameters, records: u64, partitions: u32) -> Vec<Vec<u8>> {
    (1..u64::from(partitions)).map(|n| (records * n / u64::from(partitions)).to_be_bytes().into()).collect()
}

struct Fake {
    class: Class,
    dataset: Arc<Dataset>,
}

struct FakeClient<'a> {
    fake: &'a Fake,
    key: u64,
}

fn make_fill(_: &Parameters, dataset: &Arc<Dataset>) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Fake { class: Class::Insert, dataset: Arc::clone(dataset) }))
}

fn make_read(_: &Parameters, dataset: &Arc<Dataset>) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Fake { class: Class::Get, dataset: Arc::clone(dataset) }))
}

fn make_write(_: &Parameters, dataset: &Arc<Dataset>) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Fake { class: Class::Update, dataset: Arc::clone(dataset) }))
}

impl Workload for Fake {
    fn client(&self, _thread: usize, _threads: usize, seed: u64) -> Box<dyn Client + '_> {
        Box::new(FakeClient { fake: self, key: seed })
    }
}

impl Client for FakeClient<'_> {
    fn prepare(&mut self) -> Option<Class> {
        let dataset = &self.fake.dataset;
        self.key = match self.fake.class {
            Class::Insert => dataset.next.fetch_add(1, Ordering::Relaxed),
            _ => self.key.wrapping_add(7919) % dataset.records,
        };
        (self.key < dataset.records).then_some(self.fake.class)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let key = self.key.to_be_bytes();
        if self.fake.class == Class::Get {
            let found = session.get(&key, &mut |_| {})?;
            return Ok(Outcome { operations: 1, missing: u64::from(!found), written_bytes: 0, read_bytes: 100 });
        }
        session.put(&key, &[7; 100], false)?;
        Ok(Outcome { operations: 1, missing: 0, written_bytes: 108, read_bytes: 0 })
    }
}

/// One event of each sort, with something in every field.
pub fn events() -> Vec<Event> {
    let description = Description {
        name: "shelf".into(),
        version: "1".into(),
        settings: [("cache".to_owned(), "1".to_owned())].into(),
        ignored: vec!["growth factor".into()],
        terms: [("durability".to_owned(), "none".to_owned())].into(),
    };
    let pace = Pace::Open { rate: 1000.5, arrival: Arrival::Poisson, percent: Some(90.0) };
    let search = Pace::Search { arrival: Arrival::Uniform, probe_seconds: 2.0 };
    let step = |pace| Event::Step { number: 1, count: 2, workload: "a".into(), pace, doing: "running".into() };
    let sustained = Sustained {
        engine: "shelf".into(),
        round: 1,
        workload: "a".into(),
        rate: 1000.5,
        probes: vec![(500.0, true), (2000.0, false)],
    };
    vec![
        Event::Opened(description),
        step(Pace::Closed),
        step(pace),
        step(search),
        step(Pace::OfSustained { percent: 50.0, arrival: Arrival::Uniform }),
        Event::Progress(Progress { seconds: 0.5, operations: 7, rate: 14.0, p99_ns: 9, share: 0.25 }),
        Event::Run(Box::new(run(pace))),
        Event::Sustained(sustained),
        Event::Note("two\nlines".into()),
        Event::Failed("why".into()),
        Event::Done,
    ]
}

fn run(pace: Pace) -> Run {
    let syncs = Some(Syncs { count: 3, total_ns: Some(4), waited_for: None });
    let counters = Counters { written_bytes: [("log".to_owned(), 5)].into(), syncs, ..Counters::default() };
    let usage = Usage { seconds: 1.5, counters, ..Usage::default() };
    let latency = Latency { count: 1, mean_ns: 2.5, cdf: vec![(1, 0.5), (2, 1.0)], ..Latency::default() };
    Run {
        engine: "shelf".into(),
        round: 1,
        attempt: 2,
        workload: "a".into(),
        preparation: true,
        pace,
        limit: Limit { operations: Some(u64::MAX), seconds: Some(0.5) },
        threads: 4,
        records: 5,
        seconds: 1.25,
        operations: 6,
        operations_per_second: 4.8,
        missing: 7,
        background_operations: 8,
        user_written_bytes: 9,
        user_read_bytes: 10,
        client_faults: 12,
        latency: [(Class::ReadModifyWrite, latency.clone()), (Class::Get, latency.clone())].into(),
        lateness: Some(latency),
        behind_ns: 11,
        abandoned: 13,
        series: vec![Second { operations: 1, p50_ns: 2, p99_ns: 3, max_ns: 4 }],
        intervals: vec![Second { operations: 5, p50_ns: 6, p99_ns: 7, max_ns: 8 }],
        stalls: Stalls { count: 1, total_ms: 2, longest_ms: 3, zero_seconds: 4 },
        stall_periods: vec![StallPeriod { from_ms: 5, ms: 6 }],
        samples: vec![Sample { ms: 1, rss_bytes: 2, mapped_bytes: 3, page_cache_bytes: None, ..Sample::default() }],
        drained: Some(usage.clone()),
        usage,
        drain_seconds: Some(0.5),
        space_bytes: 12,
        space_by_kind: [("log".to_owned(), 12)].into(),
        replaced_bytes: Some(3),
        noisy: true,
    }
}
