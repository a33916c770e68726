//! [`Load`]: puts every record of a dataset once.

use super::values::Values;
use super::{Class, Client, Dataset, Outcome, Workload};
use crate::engine::Session;
use crate::error::Result;
use crate::parameters::Parameters;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A workload that puts every record once.
pub(super) struct Load<K> {
    /// The threads claim its numbers one by one, so that each record is written once by any thread.
    dataset: Arc<Dataset>,
    /// Writes the key of the record at a place.
    key: K,
    key_bytes: usize,
    values: Values,
    value_bytes: usize,
    sync: bool,
}

impl<K: Fn(u64, &mut [u8]) + Sync> Load<K> {
    /// A load of as many records as the dataset has, with keys of `key_bytes` that `key` writes for the places
    /// `0..records`.
    ///
    /// # Errors
    /// `Usage` for parameters of values that make no sense.
    pub fn new(
        parameters: &Parameters,
        dataset: &Arc<Dataset>,
        (key_bytes, key): (usize, K),
        value_bytes: usize,
    ) -> Result<Load<K>> {
        let values = Values::new(value_bytes, parameters.compressible, parameters.seed)?;
        let sync = parameters.settings.sync;
        dataset.next.store(0, Ordering::SeqCst); // The database is empty.
        Ok(Load { dataset: Arc::clone(dataset), key, key_bytes, values, value_bytes, sync })
    }
}

impl<K: Fn(u64, &mut [u8]) + Sync> Workload for Load<K> {
    fn client(&self, thread: usize, _threads: usize, _seed: u64) -> Box<dyn Client + '_> {
        Box::new(Loader { load: self, key: vec![0; self.key_bytes], values: self.values.of_thread(thread) })
    }
}

/// The client of one thread: puts the records that it claims.
struct Loader<'a, K> {
    load: &'a Load<K>,
    key: Vec<u8>,
    values: Values,
}

impl<K: Fn(u64, &mut [u8]) + Sync> Client for Loader<'_, K> {
    fn prepare(&mut self) -> Option<Class> {
        let place = self.load.dataset.claim(1, self.load.dataset.records)?;
        (self.load.key)(place, &mut self.key);
        self.values.draw(self.load.value_bytes);
        Some(Class::Insert)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let value = self.values.value();
        session.put(&self.key, value, self.load.sync)?;
        Ok(Outcome { operations: 1, written_bytes: (self.key.len() + value.len()) as u64, ..Outcome::default() })
    }
}
