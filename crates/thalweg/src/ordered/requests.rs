//! [`Requests`]: compactions that a caller asks for and waits for ([`crate::Keyspace::compact_range`]).
//!
//! A [`Request`] takes the keys of a range down in *passes*, one for each level from level 0 on. A pass takes the
//! tables that are in its level when it begins and overlap the range and something below (in level 0 all that overlap
//! the range). It ends when none of them is left in its level, whichever job took them. The next pass takes what this
//! one writes down. So in the end every version that was there at the call has been merged with all older ones of its
//! key. The last passes rewrite the tables at the bottom that still have dead entries (see [`crate::compaction`]). A
//! job that ran when such a pass began may have kept versions for a reader that has ended since, so another pass looks
//! again.
//!
//! Writes go on meanwhile: later tables belong to no pass that has begun, so each pass ends.
//!
//! The caller begins the passes, the compaction coroutines take the jobs. Locks: `waiting` is held to look at the list;
//! `Request::pass` is taken after a partition's `running`, and nothing under it.

use super::generation::Generation;
use super::partition::{Partition, SuperVersion};
use super::partitions::Partitions;
use crate::compaction::{Job, Levels, RunningJob};
use crate::format::{SeqNo, TableId};
use crate::sync::Mutex;
use crate::table::{KeyRange, TableMeta};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The requests of all callers that wait.
#[derive(Default)]
pub(super) struct Requests {
    waiting: Mutex<Vec<Arc<Request>>>,
}

/// The request of one caller.
pub(super) struct Request {
    generation: Arc<Generation>,
    range: KeyRange,
    /// `None` before the first pass.
    pass: Mutex<Option<Pass>>,
}

struct Pass {
    stage: Stage,
    /// The number of the pass in its stage.
    number: usize,
    /// The tables that the pass compacts.
    tables: BTreeSet<TableId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Takes tables of this level down.
    Down(usize),
    /// Rewrites tables with dead entries at the bottom.
    Dead,
}

/// The last passes are no more than this many: readers that come and go may keep versions again and again.
const DEAD_PASSES_MAX: usize = 8;

impl Requests {
    /// Makes the compaction coroutines take the jobs of a request, until the guard is dropped.
    pub(super) fn begin(&self, generation: &Arc<Generation>, range: KeyRange) -> Waiting<'_> {
        let request = Arc::new(Request { generation: Arc::clone(generation), range, pass: Mutex::default() });
        self.waiting.lock().push(Arc::clone(&request));
        Waiting { requests: self, request }
    }

    /// The next job in the partition that somebody waits for.
    pub(super) fn pick(
        &self,
        partition: &Partition,
        super_version: &SuperVersion,
        running: &[RunningJob],
        all_see: &dyn Fn(SeqNo) -> bool,
    ) -> Option<Job> {
        let waiting = self.waiting.lock();
        waiting.iter().find_map(|request| request.pick(partition, super_version, running, all_see))
    }
}

/// A request that is waited for.
pub(super) struct Waiting<'r> {
    requests: &'r Requests,
    pub(super) request: Arc<Request>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.requests.waiting.lock().retain(|request| !Arc::ptr_eq(request, &self.request));
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its pass goes on.
    Same,
    /// A pass has begun, for which there are jobs.
    Next,
    Done,
}

impl Request {
    fn pick(
        &self,
        partition: &Partition,
        super_version: &SuperVersion,
        running: &[RunningJob],
        all_see: &dyn Fn(SeqNo) -> bool,
    ) -> Option<Job> {
        if !self.is_about(partition) {
            return None;
        }
        let pass = self.pass.lock();
        let Pass { stage, tables, .. } = pass.as_ref()?;
        let wanted = |table: &TableMeta| tables.contains(&table.id);
        let (policy, levels) = (partition.policy(), &super_version.levels);
        match stage {
            Stage::Down(level) => policy.pick_wanted(levels, running, *level, &wanted),
            Stage::Dead => policy.pick_wanted_dead(levels, running, &wanted, all_see),
        }
    }

    fn is_about(&self, partition: &Partition) -> bool {
        Arc::ptr_eq(&self.generation, &partition.generation)
    }

    /// Begins the next pass once the present one has ended.
    pub(super) fn advance(&self, partitions: &Partitions, all_see: &dyn Fn(SeqNo) -> bool) -> Progress {
        let mut pass = self.pass.lock();
        let mut progress = Progress::Same;
        loop {
            let is_over = |pass: &Pass| !self.any(partitions, |super_version| pass.has_left(super_version, all_see));
            if pass.as_ref().is_some_and(|pass| !partitions.unchanged_while(|| is_over(pass))) {
                return progress;
            }
            let (stage, number) = match pass.as_ref().map(|pass| (pass.stage, pass.number)) {
                None => (Stage::Down(0), 0),
                Some((Stage::Dead, number)) => (Stage::Dead, number + 1),
                Some((Stage::Down(level), _)) => {
                    let is_deeper = |super_version: &SuperVersion| super_version.levels.len() > level + 2;
                    (if self.any(partitions, is_deeper) { Stage::Down(level + 1) } else { Stage::Dead }, 0)
                }
            };
            let tables = self.tables_of(stage, partitions, all_see);
            if stage == Stage::Dead && number > 0 && (tables.is_empty() || number == DEAD_PASSES_MAX) {
                return Progress::Done;
            }
            *pass = Some(Pass { stage, number, tables });
            progress = Progress::Next;
        }
    }

    fn any(&self, partitions: &Partitions, mut is_so: impl FnMut(&SuperVersion) -> bool) -> bool {
        partitions.iter().filter(|it| self.is_about(it)).any(|partition| is_so(&partition.super_version()))
    }

    /// The tables of a pass of `stage` that begins now.
    fn tables_of(&self, stage: Stage, partitions: &Partitions, all_see: &dyn Fn(SeqNo) -> bool) -> BTreeSet<TableId> {
        loop {
            let mut found = BTreeSet::new();
            let is_whole = partitions.unchanged_while(|| {
                self.any(partitions, |super_version| {
                    found.extend(self.wanted_of(stage, super_version, all_see));
                    false
                });
                true
            });
            if is_whole {
                return found;
            }
        }
    }

    fn wanted_of(&self, stage: Stage, super_version: &SuperVersion, all_see: &dyn Fn(SeqNo) -> bool) -> Vec<TableId> {
        let levels = &super_version.levels;
        let covers = |table: &TableMeta| {
            self.range.overlaps(&table.key_min, &table.key_max)
                && super_version.range.overlaps(&table.key_min, &table.key_max)
        };
        let of_level = |level: usize, wanted: &dyn Fn(&TableMeta) -> bool| -> Vec<TableId> {
            let metas = levels.get(level).into_iter().flatten().map(|table| table.meta());
            metas.filter(|table| covers(table) && wanted(table)).map(|table| table.id).collect()
        };
        match stage {
            Stage::Down(0) => of_level(0, &|_| true),
            Stage::Down(level) => of_level(level, &|table| lies_over_others(levels, level, table)),
            Stage::Dead => {
                let is_dead = |level, table: &TableMeta| is_dead(levels, level, table, all_see);
                (1..levels.len()).flat_map(|level| of_level(level, &|table| is_dead(level, table))).collect()
            }
        }
    }
}

impl Pass {
    /// Whether one of its tables is where it was.
    fn has_left(&self, super_version: &SuperVersion, all_see: &dyn Fn(SeqNo) -> bool) -> bool {
        let levels = &super_version.levels;
        let of_level = |level: usize, is_left: &dyn Fn(&TableMeta) -> bool| {
            let mut metas = levels.get(level).into_iter().flatten().map(|table| table.meta());
            metas.any(|table| self.tables.contains(&table.id) && is_left(table))
        };
        match self.stage {
            Stage::Down(level) => of_level(level, &|_| true),
            // A table that lies over others, because partitions were merged meanwhile, is not rewritten.
            Stage::Dead => {
                (1..levels.len()).any(|level| of_level(level, &|table| is_dead(levels, level, table, all_see)))
            }
        }
    }
}

/// Whether a deeper level has keys of the table's range.
fn lies_over_others(levels: &Levels, level: usize, table: &TableMeta) -> bool {
    levels.iter().skip(level + 1).any(|deeper| {
        let first = deeper.partition_point(|other| other.meta().key_max < table.key_min);
        deeper.get(first).is_some_and(|other| other.meta().overlaps(&table.key_min, &table.key_max))
    })
}

/// Whether a rewrite of the table drops entries.
fn is_dead(levels: &Levels, level: usize, table: &TableMeta, all_see: &dyn Fn(SeqNo) -> bool) -> bool {
    table.dead() > 0 && !lies_over_others(levels, level, table) && all_see(table.seq_max)
}
