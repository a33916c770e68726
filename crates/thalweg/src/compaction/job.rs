//! [`Job`]: one compaction, and [`RunningJob`]: what other jobs must know of it while it runs.

use super::look_ahead::Cut;
use super::shape::hull;
use super::split::split;
use crate::error::Result;
use crate::format::TableId;
use crate::table::{KeyRange, Table, TableMeta};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One compaction. Never empty: it has at least one upper table.
pub(crate) struct Job {
    /// Inputs of `level`, and what they overlap in `level + 1`.
    pub(crate) level: usize,
    /// Of level 0: its oldest tables, oldest first; of any other level one table.
    pub(crate) upper: Vec<Arc<Table>>,
    /// In key order.
    pub(crate) lower: Vec<Arc<Table>>,
    /// The one upper table goes down as it is.
    pub(crate) trivial_move: bool,
    /// No deeper level has keys of the job's range: tombstones that nobody can see any more are dropped.
    pub(crate) bottom: bool,
    /// Where its tables end.
    pub(crate) cut: Cut,
    /// It takes a table of level 1 that lies over too much of level 2 (vLSM).
    pub(crate) is_poor: bool,
}

/// What a job that runs reserves: its inputs, and its range in the level it writes to.
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
}

impl Job {
    /// What [`super::Policy::pick`] must be told while this job runs.
    pub(crate) fn running(&self) -> RunningJob {
        RunningJob::new(self.level, self.inputs())
    }

    /// Cuts its keys into at most `parts` ranges, at least one, of about equal bytes. Opens the tables if there is to
    /// be more than one.
    pub(crate) fn split(&self, parts: usize) -> Result<Vec<Arc<KeyRange>>> {
        split(self.tables(), parts)
    }

    /// The same job for some of its lower tables.
    pub(crate) fn part(&self, lower: Vec<Arc<Table>>) -> Job {
        let (upper, cut) = (self.upper.clone(), self.cut.clone());
        let Job { level, bottom, is_poor, .. } = *self;
        Job { level, upper, lower, trivial_move: false, bottom, cut, is_poor }
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
    pub(super) fn new<'m>(level: usize, inputs: impl Iterator<Item = &'m TableMeta> + Clone) -> Self {
        let Some((key_min, key_max)) = hull(inputs.clone()) else { unreachable!("a job has inputs") };
        RunningJob {
            level,
            key_min: Box::from(key_min),
            key_max: Box::from(key_max),
            tables: inputs.map(|table| table.id).collect(),
            output_level: level + 1,
        }
    }

    /// Whether two jobs must not run at the same time:
    /// - they share an input;
    /// - both take from level 0, whose tables overlap;
    /// - both write the same keys of one level, so that their outputs would not be disjoint.
    ///
    /// The jobs that the policies make never do the last two without the first. They are asked all the same: order and
    /// disjointness rest on them, and not on how a policy chooses its inputs.
    pub(super) fn conflicts(&self, other: &RunningJob) -> bool {
        (self.level == 0 && other.level == 0)
            || (self.output_level == other.output_level
                && self.key_min <= other.key_max
                && other.key_min <= self.key_max)
            || !self.tables.is_disjoint(&other.tables)
    }
}
