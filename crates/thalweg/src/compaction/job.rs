//! [`Job`]: one compaction, and [`RunningJob`]: what other jobs must know of it while it runs.

use super::look_ahead::Cut;
use super::shape::hull;
use super::split::split;
use crate::error::Result;
use crate::format::TableId;
use crate::table::{KeyRange, Table, TableMeta};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One compaction. It merges upper tables with the tables that they overlap in the level below, or rewrites upper
/// tables in their own level. It has at least one upper table.
pub(crate) struct Job {
    /// The level of the upper tables.
    pub(crate) level: usize,
    /// The level of the lower tables and of the outputs: the next level, or `level` if the job rewrites in place.
    pub(crate) output_level: usize,
    /// The oldest tables of level 0, oldest first, or neighbours of any other level.
    pub(crate) upper: Vec<Arc<Table>>,
    /// In key order.
    pub(crate) lower: Vec<Arc<Table>>,
    /// Whether the upper tables go down as they are. From level 0 this is one table.
    pub(crate) trivial_move: bool,
    /// Whether no deeper level has keys of the job's range. Then tombstones that no reader can see are dropped.
    pub(crate) bottom: bool,
    /// Where its tables end.
    pub(crate) cut: Cut,
    /// Whether the job takes a table of level 1 that lies over too much of level 2 (vLSM).
    pub(crate) is_poor: bool,
    /// Whether a caller requested the job and waits.
    pub(crate) is_awaited: bool,
}

/// The reservation of a running job: its inputs, and its range in the level it writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningJob {
    /// The level of the upper inputs.
    pub(crate) level: usize,
    /// Every input, upper and lower.
    pub(crate) tables: BTreeSet<TableId>,
    /// First and last user key of the inputs, so also of the outputs.
    pub(crate) key_min: Box<[u8]>,
    pub(crate) key_max: Box<[u8]>,
    /// Where the outputs go.
    pub(crate) output_level: usize,
    /// Whether the job has failed, and waits for its next attempt.
    pub(crate) is_parked: bool,
}

impl Job {
    /// Returns the reservation that [`super::Policy::pick`] must know while this job runs.
    pub(crate) fn running(&self) -> RunningJob {
        RunningJob::new(self.level, self.output_level, self.inputs())
    }

    /// Cuts the keys of the job into at most `parts` ranges, at least one, of about equal bytes. Opens the tables if
    /// `parts` is more than one.
    pub(crate) fn split(&self, parts: usize) -> Result<Vec<Arc<KeyRange>>> {
        split(self.tables(), parts)
    }

    /// Returns the same job for some of its lower tables.
    pub(crate) fn part(&self, lower: Vec<Arc<Table>>) -> Job {
        let (upper, cut) = (self.upper.clone(), self.cut.clone());
        let Job { level, output_level, bottom, is_poor, is_awaited, .. } = *self;
        Job { level, output_level, upper, lower, trivial_move: false, bottom, cut, is_poor, is_awaited }
    }

    /// Whether the outputs stay in the level of the inputs.
    pub(crate) fn is_in_place(&self) -> bool {
        self.output_level == self.level
    }

    /// Every input, upper and lower.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> + Clone {
        self.upper.iter().chain(&self.lower)
    }

    fn inputs(&self) -> impl Iterator<Item = &TableMeta> + Clone {
        self.tables().map(|table| table.meta())
    }
}

impl RunningJob {
    pub(super) fn new<'m>(
        level: usize,
        output_level: usize,
        inputs: impl Iterator<Item = &'m TableMeta> + Clone,
    ) -> Self {
        let Some((key_min, key_max)) = hull(inputs.clone()) else { unreachable!("a job has inputs") };
        RunningJob {
            level,
            key_min: Box::from(key_min),
            key_max: Box::from(key_max),
            tables: inputs.map(|table| table.id).collect(),
            output_level,
            is_parked: false,
        }
    }

    /// Returns the reservation of a merge of fast tables. It reserves nothing that a job takes. While the merge runs,
    /// no split and no merge of partitions begins.
    pub(crate) fn fast() -> Self {
        RunningJob {
            level: usize::MAX,
            tables: BTreeSet::new(),
            key_min: Box::default(),
            key_max: Box::default(),
            output_level: usize::MAX,
            is_parked: false,
        }
    }

    /// Whether it is a merge of fast tables.
    pub(crate) fn is_fast(&self) -> bool {
        self.level == usize::MAX
    }

    /// Whether two jobs must not run at the same time:
    /// - they share an input;
    /// - both take from level 0, whose tables overlap;
    /// - both write the same keys of one level, so that their outputs would not be disjoint.
    ///
    /// Among the jobs that the policies make, the last two never occur without the first. They are checked
    /// nevertheless: order and disjointness rest on these checks, not on how a policy chooses its inputs.
    pub(super) fn conflicts(&self, other: &RunningJob) -> bool {
        (self.level == 0 && other.level == 0)
            || (self.output_level == other.output_level
                && self.key_min <= other.key_max
                && other.key_min <= self.key_max)
            || !self.tables.is_disjoint(&other.tables)
    }
}
