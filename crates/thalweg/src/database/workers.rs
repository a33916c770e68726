//! The threads of a database: how many compactions run on how many of them, and how they take turns.

use super::options::Options;
use crate::fast_tier::FastTierMode;
use crate::runtime::CompactionScheduling;
use crate::runtime::threads::Crew;
use std::thread::available_parallelism;

/// The most compaction workers that a database has by default. Each is a thread with buffers, and many databases may be
/// open in a process.
const WORKERS_MAX: usize = 4;

/// The most compaction coroutines that share a worker by default. They take subtasks of one large job, or else whole
/// jobs; each further job delays the one that relieves level 0. With read-ahead and a write queue, one coroutine keeps
/// its processor busy. A second one fills the gaps while the first waits for reads, syncs and its edit.
const COMPACTIONS_A_WORKER_MAX: usize = 2;

impl Options {
    /// How compactions are scheduled. The default is that of the mode of the fast tier.
    pub(super) fn scheduling(&self) -> CompactionScheduling {
        let has_part = |mode: &FastTierMode| self.fast_tier.is_some() || !mode.uses_tier();
        self.compaction_scheduling.unwrap_or(match self.fast_tier_mode.filter(has_part) {
            Some(mode) if !mode.uses_coroutines() => CompactionScheduling::Threads,
            _ => CompactionScheduling::PmBlade,
        })
    }

    /// The number of compaction workers: one for each processor, but at most [`WORKERS_MAX`]. So no processor idles
    /// while level 0 slows writers down. Workers leave their processor to callers (`runtime/courtesy.rs`). Where
    /// threads are shared or simulated, there is one worker.
    pub(super) fn compaction_workers(&self) -> usize {
        self.compaction_workers.unwrap_or_else(|| if self.has_own_threads { workers_for(processors()) } else { 1 })
    }

    /// `k = max(q / c, 1)` (PMB-16), but no more than [`COMPACTIONS_A_WORKER_MAX`] unless it was set.
    pub(super) fn compactions_a_worker(&self) -> usize {
        let default = || (self.io_depth / self.compaction_workers().max(1)).clamp(1, COMPACTIONS_A_WORKER_MAX);
        self.compactions_a_worker.unwrap_or_else(default)
    }

    /// Compactions that run at once.
    pub(super) fn compactors(&self) -> usize {
        self.compactions_a_worker().saturating_mul(self.compaction_workers())
    }

    /// The workers of a database that has its own.
    pub(super) fn crew(&self) -> Crew {
        let compactions_block = self.scheduling().blocks();
        Crew {
            io_uring: self.io_uring,
            compactions_block,
            bound_to: self.pin_compaction_workers.then(|| self.compaction_workers()),
            ..Crew::of(if compactions_block { self.compactors() } else { self.compaction_workers() })
        }
    }
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn workers_for(processors: usize) -> usize {
    processors.clamp(1, WORKERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_a_worker_where_threads_are_the_databases_own() {
        assert_eq!([1, 2, 3, 4, 8, 64].map(workers_for), [1, 2, 3, 4, WORKERS_MAX, WORKERS_MAX]);
        let of = |has_own_threads, compaction_workers| {
            Options { has_own_threads, compaction_workers, ..Options::default() }.compaction_workers()
        };
        assert_eq!(of(true, None), workers_for(processors()));
        assert_eq!((of(false, None), of(false, Some(7)), of(true, Some(7))), (1, 7, 7));
    }
}
