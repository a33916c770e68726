//! [`Statistics`] of a partition: its reads and flushes update them, and the models read them.

use super::description::Counted;
use super::rates::{Averages, Rates};
use super::sampler::ReadSampler;
use crate::metrics::Counter;
use crate::sync::Mutex;

/// A fast table that a flush has written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flushed {
    pub(crate) entries: u64,
    /// Entries whose key the partition's fast tables already had: all entries, less the growth of the distinct keys.
    pub(crate) updates: u64,
    pub(crate) bytes: u64,
}

/// See the module. Threads update it side by side; totals only grow.
#[derive(Debug)]
pub(crate) struct Statistics {
    reads: ReadSampler,
    writes: Counter,
    updates: Counter,
    written_bytes: Counter,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    averages: Averages,
    /// The totals at which the paper's counters were zeroed, and when.
    zeroed: Counted,
    zeroed_ns: u64,
}

impl Statistics {
    /// Statistics that begin at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Statistics {
        Statistics::inherited(now_ns, Rates::default())
    }

    /// As [`Statistics::new`], with the rates that a predecessor leaves: half of a partition that was split, the sum of
    /// two that were merged.
    pub(crate) fn inherited(now_ns: u64, rates: Rates) -> Statistics {
        let averages = Averages::new(now_ns, rates);
        Statistics {
            reads: ReadSampler::default(),
            writes: Counter::default(),
            updates: Counter::default(),
            written_bytes: Counter::default(),
            state: Mutex::new(State { averages, zeroed: Counted::default(), zeroed_ns: now_ns }),
        }
    }

    /// Counts a point read that looks into fast tables. Returns `true` after another 64 Ki reads: then ask the models.
    #[inline]
    pub(crate) fn count_get(&self) -> bool {
        self.reads.count_get()
    }

    /// As [`Statistics::count_get`], for a seek of a range over fast tables.
    #[inline]
    pub(crate) fn count_seek(&self) -> bool {
        self.reads.count_seek()
    }

    pub(crate) fn flushed(&self, table: Flushed) {
        self.writes.add(table.entries);
        self.updates.add(table.updates.min(table.entries));
        self.written_bytes.add(table.bytes);
    }

    /// The rates at `now_ns`.
    pub(crate) fn rates(&self, now_ns: u64) -> Rates {
        let mut state = self.state.lock();
        let totals = Rates {
            gets: self.reads.gets() as f64,
            seeks: self.reads.seeks() as f64,
            writes: self.writes.get() as f64,
            updates: self.updates.get() as f64,
            written_bytes: self.written_bytes.get() as f64,
        };
        state.averages.observe(now_ns, totals)
    }

    /// The paper's counters at `now_ns`.
    pub(crate) fn counted(&self, now_ns: u64) -> Counted {
        let state = self.state.lock();
        let totals = self.totals();
        Counted {
            reads: totals.reads.saturating_sub(state.zeroed.reads),
            writes: totals.writes.saturating_sub(state.zeroed.writes),
            updates: totals.updates.saturating_sub(state.zeroed.updates),
            seconds: now_ns.saturating_sub(state.zeroed_ns) as f64 / 1e9,
        }
    }

    /// Zeroes the paper's counters, after an internal compaction or an eviction of the partition. The rates go on
    /// (PMB-A3).
    pub(crate) fn compacted(&self, now_ns: u64) {
        let mut state = self.state.lock();
        (state.zeroed, state.zeroed_ns) = (self.totals(), now_ns);
    }

    fn totals(&self) -> Counted {
        let reads = self.reads.gets() + self.reads.seeks();
        Counted { reads, writes: self.writes.get(), updates: self.updates.get(), seconds: 0.0 }
    }
}
