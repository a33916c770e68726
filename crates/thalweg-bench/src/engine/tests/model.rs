//! [`Model`]: an engine that is a map in memory, and records the calls of workloads and drivers.
//!
//! One lock around it all; a scan holds it to its end.

use crate::engine::{Counters, Description, Engine, Factory, Session};
use crate::error::Result;
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Mutex;

/// An engine that keeps entries in memory and counts calls.
#[derive(Default)]
pub(crate) struct Model(Mutex<State>);

/// Its entries and its calls.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// The entries.
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Calls of each method of [`Session`], by its name.
    pub calls: BTreeMap<&'static str, u64>,
    /// Writes that were to be durable.
    pub synced: u64,
    /// Every key that was written, removed, read or scanned from, in the order of the calls.
    pub keys: Vec<Vec<u8>>,
    /// The value of its gauge; `None` if it has none.
    pub gauge: Option<u64>,
}

impl Model {
    /// A copy of its state.
    pub fn state(&self) -> State {
        self.0.lock().unwrap().clone()
    }

    /// Has its gauge show `value`.
    pub fn set_gauge(&self, value: u64) {
        self.0.lock().unwrap().gauge = Some(value);
    }

    fn ask<T>(&self, call: &'static str, key: &[u8], sync: bool, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.0.lock().unwrap();
        *state.calls.entry(call).or_default() += 1;
        state.synced += u64::from(sync);
        state.keys.push(key.to_vec());
        act(&mut state)
    }
}

impl Factory for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn open(&self, _path: &Path, _settings: &Settings, _splits: &[Vec<u8>]) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Model::default()))
    }
}

impl Engine for Model {
    fn describe(&self) -> Description {
        Description { name: "model".into(), version: env!("CARGO_PKG_VERSION").into(), ..Description::default() }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn persist(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<bool> {
        Ok(true)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn gauges(&self) -> BTreeMap<String, u64> {
        self.state().gauge.map(|value| ("gauge".to_owned(), value)).into_iter().collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Session for &Model {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.ask("put", key, sync, |state| state.entries.insert(key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()> {
        let first = entries.first().map(|(key, _)| key.as_slice()).unwrap_or_default();
        self.ask("put_batch", first, sync, |state| {
            state.keys.extend(entries.iter().skip(1).map(|(key, _)| key.clone()));
            state.entries.extend(entries.iter().cloned());
        });
        Ok(())
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        self.ask("remove", key, sync, |state| state.entries.remove(key));
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.ask("get", key, false, |state| state.entries.get(key).map(|found| value(found)).is_some()))
    }

    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.ask("scan", from, false, |state| {
            for (key, value) in state.entries.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)) {
                if !entry(key, value) {
                    break;
                }
            }
        });
        Ok(())
    }
}
