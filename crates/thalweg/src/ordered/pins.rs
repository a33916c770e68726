//! From where a partition needs the log: the oldest record that none of its tables has.

use super::fast_level::FastLevel;
use super::partition::Partition;
use crate::format::LogMark;
use crate::memtable::MemtableHandle;
use crate::planted::{Bug, planted};
use std::sync::Arc;

/// The memtables or fast tables that an edit is about to write to tables.
#[derive(Clone, Copy)]
pub(super) enum Flushed<'a> {
    Nothing,
    Memtable(&'a Arc<MemtableHandle>),
    /// These fast tables.
    Fast(&'a FastLevel),
}

impl Partition {
    /// Where the oldest record begins that is in none of its tables once `flushed` is in one.
    pub(super) fn oldest_mark_without(&self, flushed: Flushed<'_>) -> Option<LogMark> {
        let super_version = self.super_version();
        let is_flushed = |handle: &Arc<MemtableHandle>| match flushed {
            Flushed::Memtable(flushed) => Arc::ptr_eq(handle, flushed),
            Flushed::Nothing | Flushed::Fast(_) => false,
        };
        let kept = super_version.memtables().filter(|handle| !is_flushed(handle));
        let memtables = kept.filter_map(|handle| handle.first());
        let fast = match (&super_version.fast, flushed) {
            _ if planted(Bug::FastTableForgottenByLog) => None,
            (Some(fast), Flushed::Fast(evicted)) => fast.without(evicted).first(),
            (Some(fast), _) => fast.first(),
            (None, _) => None,
        };
        memtables.chain(fast).min_by_key(|mark| mark.position)
    }

    /// Where the oldest record begins that is in one of its memtables.
    pub(super) fn oldest_buffer_mark(&self) -> Option<LogMark> {
        let super_version = self.super_version();
        super_version.memtables().filter_map(|handle| handle.first()).min_by_key(|mark| mark.position)
    }
}
