//! The orders in which entries are put: all in a random order, or directories in a random order.

use super::entry::{KEY_BYTES, entries_of};
use crate::distribution::Permutation;
use crate::error::{Error, Result};
use crate::parameters::Parameters;
use crate::workload::Dataset;

/// Returns a random order of all entries, the same for every step of a run.
///
/// # Errors
/// `Usage` for keys of another size, and for no records.
pub(super) fn random_order(parameters: &Parameters, dataset: &Dataset) -> Result<Permutation> {
    if let Some(bytes) = parameters.key_bytes.filter(|&bytes| bytes != KEY_BYTES) {
        return Err(Error::Usage(format!("a key of metadata has {KEY_BYTES} bytes, not {bytes}")));
    }
    if dataset.records == 0 {
        return Err(Error::Usage("metadata needs at least one record".into()));
    }
    Ok(Permutation::new(dataset.records, parameters.seed))
}

/// An order of the directories at random, with the entries of each together. A directory that is not full comes last.
pub(super) struct DirectoryOrder {
    /// The order of the full directories; `None`: there are none.
    directories: Option<Permutation>,
    entries: u64,
}

impl DirectoryOrder {
    /// # Errors
    /// As of [`random_order`].
    pub(super) fn new(parameters: &Parameters, dataset: &Dataset) -> Result<DirectoryOrder> {
        random_order(parameters, dataset)?;
        let entries = entries_of(parameters);
        let full = dataset.records / entries;
        let directories = (full > 0).then(|| Permutation::new(full, parameters.seed));
        Ok(DirectoryOrder { directories, entries })
    }

    /// The entry of a place.
    pub(super) fn entry(&self, place: u64) -> u64 {
        let (directory, within) = (place / self.entries, place % self.entries);
        match &self.directories {
            Some(full) if directory < full.limit() => full.number(directory) * self.entries + within,
            _ => place,
        }
    }
}
