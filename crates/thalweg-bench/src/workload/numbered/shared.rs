//! [`Numbered`]: the state that all clients of a workload on numbered keys share.

use super::key::Keys;
use crate::distribution::{Chooser, Random};
use crate::error::{Error, Result};
use crate::parameters::{Distribution, Parameters};
use crate::workload::values::Values;
use crate::workload::{Dataset, Defaults};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The sizes and limits of a workload that is no load.
pub(super) const DEFAULTS: Defaults = Defaults {
    records: 1_000_000,
    operations: None,
    seconds: Some(10.0),
    bounded: false,
    key_bytes: 16,
    value_bytes: 100,
};

/// `fillsync` writes the number of records divided by this.
pub(super) const FILL_SYNC_SHARE: u64 = 1000;

/// Keys that `multireadrandom` reads at once by default.
pub(super) const KEYS_AT_ONCE: u64 = 32;

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    FillSeq,
    FillRandom,
    FillSync,
    Overwrite,
    ReadSeq,
    ReadRandom,
    MultiReadRandom,
    ReadMissing,
    SeekRandom,
    DeleteRandom,
    ReadWhileWriting,
    Compact,
}

/// A workload made for a dataset: the state that all of its clients share.
pub(super) struct Numbered {
    pub(super) kind: Kind,
    pub(super) dataset: Arc<Dataset>,
    pub(super) keys: Keys,
    pub(super) chooser: Chooser,
    pub(super) values: Values,
    pub(super) value_bytes: usize,
    /// Records that writes draw from: all records, except in `fillsync`.
    pub(super) records: u64,
    pub(super) batch: u64,
    pub(super) sync: bool,
    /// Entries of a seek, or of a stretch of `readseq`.
    pub(super) scan_entries: u64,
}

impl Numbered {
    /// The workload `kind` for `dataset`.
    pub(super) fn new(kind: Kind, parameters: &Parameters, dataset: &Arc<Dataset>) -> Result<Numbered> {
        if dataset.records == 0 || parameters.batch == 0 {
            return Err(Error::Usage("records and batch must be above 0".into()));
        }
        let keys = Keys::new(parameters.key_bytes.unwrap_or(DEFAULTS.key_bytes), dataset.records)?;
        let value_bytes = parameters.value_bytes.unwrap_or(DEFAULTS.value_bytes) as usize;
        let records = if kind == Kind::FillSync { (dataset.records / FILL_SYNC_SHARE).max(1) } else { dataset.records };
        let scan_entries = match (kind, parameters.scan_entries_max) {
            (_, Some(entries)) => u64::from(entries).max(1),
            (Kind::ReadSeq, None) => 10_000,
            (_, None) => 1,
        };
        if matches!(kind, Kind::FillSeq | Kind::FillRandom | Kind::FillSync) {
            dataset.next.store(0, Ordering::SeqCst); // The database is empty.
        }
        let distribution = parameters.distribution.unwrap_or(Distribution::Uniform);
        Ok(Numbered {
            kind,
            dataset: Arc::clone(dataset),
            keys,
            chooser: Chooser::new(distribution, records, records),
            values: Values::new(value_bytes, parameters.compressible, parameters.seed)?,
            value_bytes,
            records,
            batch: u64::from(parameters.batch),
            sync: parameters.settings.sync || kind == Kind::FillSync,
            scan_entries: scan_entries.min(dataset.records),
        })
    }

    /// Keys of one call of `multireadrandom`: as many as a batch has; [`KEYS_AT_ONCE`] for a batch of one.
    pub(super) fn keys_at_once(&self) -> u64 {
        if self.batch > 1 { self.batch } else { KEYS_AT_ONCE }
    }
}

/// Keys drawn from all records, for one thread.
pub(super) struct Drawn {
    pub(super) keys: Keys,
    pub(super) chooser: Chooser,
    pub(super) random: Random,
    pub(super) records: u64,
    /// The key last drawn.
    pub(super) key: Vec<u8>,
}

impl Drawn {
    pub(super) fn new(workload: &Numbered, random: Random) -> Drawn {
        let key = Vec::with_capacity(workload.keys.bytes() + 1);
        Drawn { keys: workload.keys, chooser: workload.chooser.clone(), random, records: workload.records, key }
    }

    /// Draws the next key.
    pub(super) fn draw(&mut self) {
        let number = self.chooser.next(self.records, &mut self.random);
        self.keys.write(number, &mut self.key);
    }
}
