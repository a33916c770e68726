//! [`Chain`]: the chain of compactions that a memtable waits for (VLSM-1; figures 2 and 9 of the paper).
//!
//! A job of level 0 makes room for the memtables whose tables it takes. The levels below have moved bytes since the
//! last job of level 0, to make room for this job and for each other. So a chain is everything that a partition
//! compacts between two jobs of level 0, in *stages* by source level. The number of stages is the chain's length; the
//! bytes that a stage reads are the chain's width there. Every byte that compactions read belongs to one chain, except
//! the bytes of jobs that failed and of jobs after the last one of level 0.
//!
//! Locks: `stages` is held for bookkeeping.

use crate::metrics::ChainCounts;
use crate::sync::Mutex;

/// See the module.
#[derive(Default)]
pub(super) struct Chain {
    /// Bytes that jobs of each level have read since the last job of level 0.
    stages: Mutex<Vec<u64>>,
}

impl Chain {
    /// Notes that a job of a level below 0 has read `bytes`.
    pub(super) fn moved(&self, level: usize, bytes: u64) {
        let mut stages = self.stages.lock();
        add(&mut stages, level, bytes);
    }

    /// Notes that a job of level 0 has read `bytes`, and that `memtables` tables of level 0 are gone.
    pub(super) fn freed(&self, counts: &ChainCounts, memtables: u64, bytes: u64) {
        let mut stages = std::mem::take(&mut *self.stages.lock());
        add(&mut stages, 0, bytes);
        counts.bytes.record(stages.iter().sum(), memtables);
        counts.stages.record(stages.iter().filter(|bytes| **bytes > 0).count() as u64, memtables);
        for (stage, bytes) in counts.stage_bytes.iter().zip(stages) {
            stage.record(bytes, memtables);
        }
    }

    /// Adds the bytes that `other` has moved since its last job of level 0 to the present chain. Called when two
    /// partitions become one.
    pub(super) fn take_over(&self, other: &Chain) {
        let theirs = std::mem::take(&mut *other.stages.lock());
        let mut stages = self.stages.lock();
        for (level, bytes) in theirs.into_iter().enumerate() {
            add(&mut stages, level, bytes);
        }
    }
}

fn add(stages: &mut Vec<u64>, level: usize, bytes: u64) {
    if stages.len() <= level {
        stages.resize(level + 1, 0);
    }
    if let Some(stage) = stages.get_mut(level) {
        *stage += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_what_moves_between_two_jobs_of_level_0() {
        let (chain, counts) = (Chain::default(), ChainCounts::default());
        chain.freed(&counts, 2, 30);
        assert_eq!((counts.bytes.count(), counts.bytes.max(), counts.stages.max()), (2, 30, 1));
        chain.moved(1, 100);
        chain.moved(3, 1000);
        chain.moved(1, 50);
        chain.freed(&counts, 1, 7);
        assert_eq!((counts.bytes.count(), counts.bytes.max(), counts.stages.max()), (3, 1157, 3));
        assert_eq!((counts.stage_bytes[1].max(), counts.stage_bytes[2].max()), (150, 0));
        chain.freed(&counts, 1, 0);
        assert_eq!(counts.bytes.count(), 4, "a table that only moved is a memtable freed, for nothing");
        assert_eq!(counts.bytes.quantile(0.25), 0);
        let other = Chain::default();
        other.moved(2, 5);
        chain.moved(1, 3);
        chain.take_over(&other);
        chain.freed(&counts, 1, 2000);
        other.freed(&counts, 1, 1);
        assert_eq!((counts.bytes.count(), counts.bytes.max()), (6, 2008));
    }
}
