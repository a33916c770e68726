//! A partition as [`crate::keyspaces`] knows it: a buffer whose writers are slowed down and stopped.

use super::level0_reads::Level0Bounds;
use super::partition::Partition;
use crate::error::Error;
use crate::keyspaces::{CompactionDebt, Pacer, WriteBuffer};

impl WriteBuffer for Partition {
    fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    fn sealed_memtables(&self) -> usize {
        Partition::sealed_memtables(self)
    }

    fn active_share(&self) -> f64 {
        let super_version = self.super_version();
        // A memtable may be sealed long before it is full, and grow larger than its part of the keyspace's memory.
        let part = self.generation.budget.part(self.generation.options.memtable_bytes);
        let largest = super_version.sealed.iter().map(|sealed| sealed.memtable.bytes()).max().unwrap_or(0);
        (super_version.active.memtable.bytes() as f64 / part.max(largest).max(1) as f64).min(1.0)
    }

    fn compaction_debt(&self) -> CompactionDebt {
        let options = &self.generation.options;
        let Level0Bounds { due_at, press_to } = self.level0_bounds(&options.policy);
        CompactionDebt { tables: self.level0_tables(), due_at, press_to, stop_at: options.level0_stop }
    }

    fn is_stopped(&self) -> bool {
        self.level0_tables() >= self.generation.options.level0_stop
    }

    fn compaction_error(&self) -> Option<Error> {
        self.trouble().map(|trouble| trouble.error)
    }

    fn is_dropped(&self) -> bool {
        Partition::is_dropped(self)
    }
}
