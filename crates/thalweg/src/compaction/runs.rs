//! [`MergedRuns`]: the entries of several sorted runs of tables, in one internal-key order.
//!
//! A [`Run`] is one level-0 table, or tables of one level one after the other; only its current table is being read. A
//! [`Tournament`] finds the next run by eight bytes of the key after those that all keys of the merge share. If these
//! are equal, keys are compared in the runs' buffers. Nearly every step stays within one chunk of a table and is a
//! plain call; a step has to wait only where a chunk ends.
//!
//! Each entry that comes out is checked against the previous one. If it is not after that one, a table is damaged in a
//! way that its checksums did not show, and writing the entry would spread the damage. The check also finds any
//! disorder within one run, because an entry is looked at only after those before it in its run came out. It also makes
//! the order of the output independent of the key ranges that the tables state, from which the shared bytes are taken.

use super::predecessor::{Predecessor, Relation};
use super::shape::hull;
use super::tournament::Tournament;
use crate::cache::Warmth;
use crate::error::{Error, Result};
use crate::format::{EntryKind, SeqNo, TableId, key};
use crate::table::{KeyRange, PackScan, Table, TableMeta, TableScan};
use std::future::Future;
use std::sync::Arc;

/// A table to be merged: [`Table`], a pack, a fast table, and a fake in tests.
pub(super) trait Input: Send + Sync {
    type Scan: Scan;
    fn meta(&self) -> &TableMeta;
    /// The entries of a range.
    fn scan(&self, range: &Arc<KeyRange>) -> Self::Scan;
    /// Returns at most about `most` of its user keys, ascending, each with the bytes from the previous one up to it.
    fn samples(&self, most: usize) -> Result<Vec<(Box<[u8]>, u64)>>;
}

/// See [`TableScan`].
pub(super) trait Scan: Send + Sync {
    fn advance_in_chunk(&mut self) -> Result<bool>;
    fn enter_next_chunk(&mut self) -> impl Future<Output = Result<bool>> + Send;
    fn key(&self) -> &[u8];
    fn seq(&self) -> SeqNo;
    fn kind(&self) -> EntryKind;
    /// Requires that [`Scan::has_value`].
    fn value(&self) -> &[u8];
    fn warmth(&self) -> Warmth;
    /// Whether the value is in memory. If not, [`Scan::read_value`] reads it.
    #[inline]
    fn has_value(&self) -> bool {
        true
    }
    fn read_value(&mut self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

impl Input for Arc<Table> {
    type Scan = TableScan;
    fn meta(&self) -> &TableMeta {
        Table::meta(self)
    }
    fn scan(&self, range: &Arc<KeyRange>) -> TableScan {
        Table::scan(self, range)
    }
    fn samples(&self, most: usize) -> Result<Vec<(Box<[u8]>, u64)>> {
        Table::samples(self, most)
    }
}

impl Scan for TableScan {
    #[inline]
    fn advance_in_chunk(&mut self) -> Result<bool> {
        TableScan::advance_in_chunk(self)
    }
    async fn enter_next_chunk(&mut self) -> Result<bool> {
        TableScan::enter_next_chunk(self).await
    }
    fn key(&self) -> &[u8] {
        TableScan::key(self)
    }
    fn seq(&self) -> SeqNo {
        TableScan::seq(self)
    }
    fn kind(&self) -> EntryKind {
        TableScan::kind(self)
    }
    fn value(&self) -> &[u8] {
        TableScan::value(self)
    }
    fn warmth(&self) -> Warmth {
        TableScan::warmth(self)
    }
}

/// A pack of a directory keyspace.
#[derive(Clone)]
pub(super) struct PackInput(pub(super) Arc<Table>);

impl Input for PackInput {
    type Scan = PackScan;
    fn meta(&self) -> &TableMeta {
        self.0.meta()
    }
    fn scan(&self, range: &Arc<KeyRange>) -> PackScan {
        PackScan::new(&self.0, range)
    }
    fn samples(&self, _: usize) -> Result<Vec<(Box<[u8]>, u64)>> {
        unreachable!("jobs of directory keyspaces are not cut")
    }
}

impl Scan for PackScan {
    #[inline]
    fn advance_in_chunk(&mut self) -> Result<bool> {
        PackScan::advance_in_chunk(self)
    }
    async fn enter_next_chunk(&mut self) -> Result<bool> {
        PackScan::enter_next_chunk(self).await
    }
    fn key(&self) -> &[u8] {
        PackScan::key(self)
    }
    fn seq(&self) -> SeqNo {
        PackScan::seq(self)
    }
    fn kind(&self) -> EntryKind {
        PackScan::kind(self)
    }
    fn value(&self) -> &[u8] {
        PackScan::value(self)
    }
    fn warmth(&self) -> Warmth {
        Warmth::Cold
    }
    #[inline]
    fn has_value(&self) -> bool {
        PackScan::has_value(self)
    }
    async fn read_value(&mut self) -> Result<()> {
        PackScan::read_value(self).await
    }
}

/// The entries of sorted tables in a range of keys, read one after the other.
pub(super) struct Run<I: Input> {
    /// The tables that are still to be read.
    inputs: std::vec::IntoIter<I>,
    range: Arc<KeyRange>,
    /// `None` before the first entry and after the last.
    current: Option<(TableId, I::Scan)>,
}

impl<I: Input> Run<I> {
    pub(super) fn new(mut inputs: Vec<I>, range: &Arc<KeyRange>) -> Self {
        inputs.retain(|input| range.overlaps(&input.meta().key_min, &input.meta().key_max));
        Run { inputs: inputs.into_iter(), range: Arc::clone(range), current: None }
    }

    /// Moves to the next entry of the chunk; returns `false` if the chunk ends.
    #[inline]
    fn advance_in_chunk(&mut self) -> Result<bool> {
        self.current.as_mut().map_or(Ok(false), |(_, scan)| scan.advance_in_chunk())
    }

    /// Moves to the first entry of the next chunk, and opens the next table when one ends; returns `false` after the
    /// last. Requires that `advance_in_chunk` gave `false`.
    async fn enter_next_chunk(&mut self) -> Result<bool> {
        loop {
            if let Some((_, scan)) = &mut self.current
                && scan.enter_next_chunk().await?
            {
                return Ok(true);
            }
            let Some(input) = self.inputs.next() else {
                self.current = None;
                return Ok(false);
            };
            self.current = Some((input.meta().id, input.scan(&self.range)));
        }
    }

    /// Returns the scan at the run's current entry; `None` at the end of the run.
    #[inline]
    fn scan(&self) -> Option<&I::Scan> {
        self.current.as_ref().map(|(_, scan)| scan)
    }

    /// Returns the eight bytes of the current key after the first `shared`; the greatest number at the end of the run.
    #[inline]
    fn prefix(&self, shared: usize) -> u64 {
        self.scan().map_or(u64::MAX, |scan| prefix(scan.key(), shared))
    }
}

/// The k-way merge. A step is `advance_in_chunk` or, if that gives `false`, `enter_next_chunk`; then
/// [`MergedRuns::entry`] returns the entry. Nothing may be called after an error.
pub(super) struct MergedRuns<I: Input> {
    runs: Vec<Run<I>>,
    /// How many first bytes all keys share.
    shared: usize,
    /// `None` until the first step.
    tournament: Option<Tournament>,
    predecessor: Predecessor,
    /// The run of the previous entry.
    last_run: usize,
    relation: Relation,
}

impl<I: Input> MergedRuns<I> {
    pub(super) fn new(runs: Vec<Run<I>>) -> Self {
        let metas = runs.iter().flat_map(|run| run.inputs.as_slice()).map(Input::meta);
        let shared = hull(metas).map_or(0, |(from, to)| key::shared_bytes(from, to));
        let (predecessor, relation) = (Predecessor::default(), Relation::default());
        MergedRuns { runs, shared, tournament: None, predecessor, last_run: usize::MAX, relation }
    }

    /// Moves to the next entry. Returns `false` if the chunk of the current entry ends, and before the first entry.
    /// `damaged` makes the error for a table whose entries are not in order, from what was expected and what was found.
    #[inline]
    pub(super) fn advance_in_chunk(&mut self, damaged: &Damaged<'_>) -> Result<bool> {
        let Some(tournament) = &mut self.tournament else { return Ok(false) };
        let winner = tournament.winner();
        let run = &mut self.runs[winner];
        if !run.advance_in_chunk()? {
            return Ok(false);
        }
        let prefix = run.prefix(self.shared);
        tournament.replay(prefix, |a, b| before(&self.runs, a, b));
        self.check_order(damaged)
    }

    /// Moves to the next entry, which is the first of another chunk; returns `false` at the end. Requires that
    /// `advance_in_chunk` gave `false`.
    pub(super) async fn enter_next_chunk(&mut self, damaged: &Damaged<'_>) -> Result<bool> {
        if self.runs.is_empty() {
            return Ok(false);
        }
        match &mut self.tournament {
            None => {
                for run in &mut self.runs {
                    run.enter_next_chunk().await?;
                }
                let prefixes: Vec<u64> = self.runs.iter().map(|run| run.prefix(self.shared)).collect();
                self.tournament = Some(Tournament::new(&prefixes, |a, b| before(&self.runs, a, b)));
            }
            Some(tournament) => {
                let run = &mut self.runs[tournament.winner()];
                run.enter_next_chunk().await?;
                let prefix = run.prefix(self.shared);
                tournament.replay(prefix, |a, b| before(&self.runs, a, b));
            }
        }
        self.check_order(damaged)
    }

    /// The entry. Requires that the last step gave `true`.
    #[inline]
    pub(super) fn entry(&self) -> &I::Scan {
        match self.winner().and_then(Run::scan) {
            Some(scan) => scan,
            None => unreachable!("no entry after the end"),
        }
    }

    /// Reads the value of the entry, if it is not in memory. Requires that the last step gave `true`.
    pub(super) async fn read_value(&mut self) -> Result<()> {
        let Some(tournament) = &self.tournament else { return Ok(()) };
        match &mut self.runs[tournament.winner()].current {
            Some((_, scan)) => scan.read_value().await,
            None => Ok(()),
        }
    }

    /// Returns how the entry relates to the previous one.
    #[inline]
    pub(super) fn relation(&self) -> Relation {
        self.relation
    }

    fn winner(&self) -> Option<&Run<I>> {
        Some(&self.runs[self.tournament.as_ref()?.winner()])
    }

    /// Compares the entry with the previous one; returns `false` if there is no entry.
    #[inline]
    fn check_order(&mut self, damaged: &Damaged<'_>) -> Result<bool> {
        let Some(tournament) = &self.tournament else { return Ok(false) };
        let winner = tournament.winner();
        let Some((id, scan)) = &self.runs[winner].current else { return Ok(false) };
        let is_other_run = std::mem::replace(&mut self.last_run, winner) != winner;
        let relation = match self.predecessor.advance(scan.key(), scan.seq()) {
            // A compaction in steps that was interrupted leaves entries in two levels. In one run a repeated entry is
            // damage.
            None if is_other_run => self.predecessor.repeat(scan.key(), scan.seq()),
            relation => relation,
        };
        match relation {
            Some(relation) => {
                self.relation = relation;
                Ok(true)
            }
            None => {
                let expected = format!("an entry after {}", self.predecessor.describe());
                Err(damaged(*id, expected, format!("\"{}\" @{}", scan.key().escape_ascii(), scan.seq())))
            }
        }
    }
}

/// Makes an error for a damaged table, from what was expected and what was found.
pub(super) type Damaged<'a> = dyn Fn(TableId, String, String) -> Error + Sync + 'a;

/// Whether the entry of run `a` goes before that of run `b`. A run that has ended goes before no other.
fn before<I: Input>(runs: &[Run<I>], a: usize, b: usize) -> bool {
    match (runs[a].scan(), runs[b].scan()) {
        (Some(x), Some(y)) => key::compare((x.key(), x.seq()), (y.key(), y.seq())).then(a.cmp(&b)).is_lt(),
        (x, _) => x.is_some(),
    }
}

/// Returns the eight bytes of a key after the first `shared`. If the prefixes of two keys that share these first bytes
/// differ, they are in the order of the keys.
#[inline]
fn prefix(key: &[u8], shared: usize) -> u64 {
    let rest = key.get(shared..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    if let Some(bytes) = key.last_chunk() {
        // The rest is the end of these eight bytes.
        return u64::from_be_bytes(*bytes).checked_shl(64 - 8 * rest.len() as u32).unwrap_or(0);
    }
    let bytes = rest.iter().chain(std::iter::repeat(&0)).take(8);
    bytes.fold(0, |prefix, byte| prefix << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn a_prefix_is_the_next_eight_bytes_with_zeros_for_those_that_are_not_there() {
        for len in 0..20usize {
            let key: Vec<u8> = (1..=len as u8).collect();
            for shared in 0..22 {
                let mut expected = [0; 8];
                for (to, from) in expected.iter_mut().zip(key.iter().skip(shared)) {
                    *to = *from;
                }
                assert_eq!(prefix(&key, shared), u64::from_be_bytes(expected), "{len} {shared}");
            }
        }
    }
}
