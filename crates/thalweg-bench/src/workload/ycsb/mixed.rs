//! [`Mixed`]: what all clients of `ycsb-a` to `ycsb-f` share.

use super::table::Table;
use crate::distribution::Chooser;
use crate::parameters::Distribution;
use crate::workload::mix::Mix;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// A workload, `ycsb-a` to `ycsb-f`.
pub(super) struct Mixed {
    pub(super) name: &'static str,
    pub(super) table: Table,
    pub(super) mix: Mix,
    pub(super) distribution: Distribution,
    /// Made by the first client, when the load is done.
    pub(super) chooser: OnceLock<Chooser>,
    /// Inserts to be expected, by which a zipfian is wider than what exists at first.
    pub(super) inserts: u64,
    pub(super) scan_entries_max: u64,
}

impl Mixed {
    /// Over what exists when the first client is made; the same for all of them.
    pub(super) fn chooser(&self) -> Chooser {
        let made = self.chooser.get_or_init(|| {
            let existing = self.table.dataset.acknowledged.load(Ordering::SeqCst);
            Chooser::new(self.distribution, existing, existing + self.inserts)
        });
        made.clone()
    }
}
