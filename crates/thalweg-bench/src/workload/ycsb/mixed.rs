//! [`Mixed`]: the state that all clients of `ycsb-a` to `ycsb-f` share.

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
    /// The chooser, made by the first client when the load is done.
    pub(super) chooser: OnceLock<Chooser>,
    /// The expected number of inserts, by which a zipfian is wider than the records that exist at first.
    pub(super) inserts: u64,
    pub(super) scan_entries_max: u64,
}

impl Mixed {
    /// A chooser over the records that exist when the first client is made; the same for all clients.
    pub(super) fn chooser(&self) -> Chooser {
        let made = self.chooser.get_or_init(|| {
            let existing = self.table.dataset.acknowledged.load(Ordering::SeqCst);
            Chooser::new(self.distribution, existing, existing + self.inserts)
        });
        made.clone()
    }
}
