//! [`Table`]: the records and how they are written.

use super::key::{self, Keys};
use crate::error::{Error, Result};
use crate::parameters::Parameters;
use crate::workload::acknowledgements::Acknowledgements;
use crate::workload::values::Values;
use crate::workload::{Dataset, Defaults};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const RECORDS: u64 = 500_000;

/// The sizes and limits of all the workloads.
pub(super) const DEFAULTS: Defaults = Defaults {
    records: RECORDS,
    operations: Some(2 * RECORDS),
    seconds: Some(10.0),
    bounded: false,
    key_bytes: key::PUBLISHED_BYTES,
    value_bytes: 1000,
};

/// The state that loads and runs share: the table, and how it is written.
pub(super) struct Table {
    pub(super) dataset: Arc<Dataset>,
    pub(super) acknowledgements: Acknowledgements,
    pub(super) keys: Keys,
    pub(super) values: Values,
    pub(super) value_bytes: usize,
    pub(super) sync: bool,
}

impl Table {
    pub(super) fn new(parameters: &Parameters, dataset: &Arc<Dataset>) -> Result<Table> {
        if dataset.records == 0 {
            return Err(Error::Usage("records must be above 0".into()));
        }
        let value_bytes = parameters.value_bytes.unwrap_or(DEFAULTS.value_bytes) as usize;
        Ok(Table {
            dataset: Arc::clone(dataset),
            acknowledgements: Acknowledgements::new(),
            keys: Keys::new(parameters.key_bytes.unwrap_or(DEFAULTS.key_bytes))?,
            values: Values::new(value_bytes, parameters.compressible, parameters.seed)?,
            value_bytes,
            sync: parameters.settings.sync,
        })
    }
}

impl Drop for Table {
    /// Clients that were stopped between taking a number and writing its record leave holes. The next workload inserts
    /// these records, and again the few records beyond the first hole.
    fn drop(&mut self) {
        self.dataset.next.store(self.dataset.acknowledged.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}
