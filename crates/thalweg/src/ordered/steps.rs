//! [`Step`]: large jobs run in steps if the file system has little room.
//!
//! Each step is an edit of its own, so that the tables that it replaces are removed before the next step needs room.
//!
//! A job merges its upper tables with its lower ones. A step merges the keys of some lower tables, and its edit
//! replaces these alone; the edit of the last step removes the upper tables. Until then the versions that a step has
//! written down are in both levels. That is sound: no newer version can get below the upper tables, which the job has
//! reserved; readers look there first; and a version that is there twice counts once. After a crash between two steps,
//! the next job that takes the upper tables merges these versions again.

use crate::compaction::Job;
use crate::runtime::Space;
use crate::table::{KeyRange, Table};
use std::sync::Arc;

/// The lower tables of a step have at most this part of the free space, unless it is only one table: a quarter.
const STEP_PART: u64 = 4;

/// Some keys of a job.
pub(super) struct Step {
    /// Its upper tables, and the lower ones that the step replaces.
    pub(super) job: Job,
    pub(super) range: KeyRange,
    /// Whether its edit removes the upper tables.
    pub(super) is_last: bool,
}

/// The steps in which a job is to run: one, unless it might not find room for all of its outputs at once.
pub(super) fn steps_of(job: Job, space: &Space) -> Vec<Step> {
    let bytes = |tables: &[Arc<Table>]| tables.iter().map(|table| table.meta().bytes).sum::<u64>();
    let free = space.free_bytes().filter(|_| space.is_short()).unwrap_or(u64::MAX);
    if job.trivial_move || (bytes(&job.upper) + bytes(&job.lower)).saturating_mul(2) <= free {
        return vec![Step { job, range: KeyRange::default(), is_last: true }];
    }
    let mut groups: Vec<Vec<Arc<Table>>> = vec![Vec::new()];
    for table in &job.lower {
        let last = groups.last().map_or(&[][..], Vec::as_slice);
        if !last.is_empty() && bytes(last) + table.meta().bytes > free / STEP_PART {
            groups.push(Vec::new());
        }
        if let Some(last) = groups.last_mut() {
            last.push(Arc::clone(table));
        }
    }
    let mut steps = Vec::with_capacity(groups.len());
    let mut groups = groups.into_iter().peekable();
    let mut from = None;
    while let Some(lower) = groups.next() {
        // A step has the keys up to the first lower table of the next one.
        let next = groups.peek().and_then(|next| next.first());
        let to = next.map(|table| table.meta().key_min.clone());
        let range = KeyRange { from: std::mem::replace(&mut from, to.clone()), to };
        steps.push(Step { is_last: range.to.is_none(), job: job.part(lower), range });
    }
    steps
}
