//! [`MergedRuns`]: the entries of several sorted runs of tables, in one internal-key order.
//!
//! A [`Run`] is one level-0 table, or tables of one level one after the other; only the table it is in is being read.
//! The merge is a binary heap of runs. It compares keys where they lie in the runs' buffers, first by a prefix of
//! eight bytes kept in the heap, so that no entry costs an allocation.
//!
//! What comes out is checked: an entry not after the one before it means that a table is damaged in a way its
//! checksums did not show, and writing it on would spread the damage.

use crate::error::{Error, Result};
use crate::format::{EntryKind, SeqNo, TableId, key};
use crate::table::{Table, TableScan};
use std::cmp::Ordering;
use std::future::Future;
use std::sync::Arc;

/// A table to be merged: [`Table`], and a fake in tests.
pub(super) trait Input: Send + Sync {
    type Scan: Scan;
    fn id(&self) -> TableId;
    fn scan(&self) -> Self::Scan;
}

/// See [`TableScan`].
pub(super) trait Scan: Send + Sync {
    fn advance(&mut self) -> impl Future<Output = Result<bool>> + Send;
    fn key(&self) -> &[u8];
    fn seq(&self) -> SeqNo;
    fn kind(&self) -> EntryKind;
    fn value(&self) -> &[u8];
}

impl Input for Arc<Table> {
    type Scan = TableScan;
    fn id(&self) -> TableId {
        self.meta().id
    }
    fn scan(&self) -> TableScan {
        Table::scan(self)
    }
}

impl Scan for TableScan {
    async fn advance(&mut self) -> Result<bool> {
        TableScan::advance(self).await
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
}

/// Sorted tables, read one after the other.
pub(super) struct Run<I: Input> {
    /// Still to be read.
    inputs: std::vec::IntoIter<I>,
    current: Option<(TableId, I::Scan)>,
}

impl<I: Input> Run<I> {
    pub(super) fn new(inputs: Vec<I>) -> Self {
        Run { inputs: inputs.into_iter(), current: None }
    }

    /// To the next entry, opening the next table when one ends; `false` after the last.
    async fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some((_, scan)) = &mut self.current
                && scan.advance().await?
            {
                return Ok(true);
            }
            let Some(input) = self.inputs.next() else {
                self.current = None;
                return Ok(false);
            };
            self.current = Some((input.id(), input.scan()));
        }
    }

    fn table(&self) -> &(TableId, I::Scan) {
        let Some(current) = &self.current else { unreachable!("a run in the heap is at an entry") };
        current
    }

    fn scan(&self) -> &I::Scan {
        &self.table().1
    }
}

/// A run in the heap, with the first bytes of its key.
#[derive(Clone, Copy)]
struct Head {
    prefix: u64,
    run: usize,
}

/// The k-way merge. `advance` first; then the entry is that of [`MergedRuns::entry`].
pub(super) struct MergedRuns<I: Input> {
    runs: Vec<Run<I>>,
    /// A binary heap, the smallest first; `None` until the first `advance`.
    heap: Option<Vec<Head>>,
    /// The user key and sequence number of the entry before this one.
    previous_key: Vec<u8>,
    previous_seq: Option<SeqNo>,
    key_changed: bool,
}

impl<I: Input> MergedRuns<I> {
    pub(super) fn new(runs: Vec<Run<I>>) -> Self {
        MergedRuns { runs, heap: None, previous_key: Vec::new(), previous_seq: None, key_changed: false }
    }

    /// To the next entry (the first call: to the first one); `false` at the end. `damaged` makes the error for a table
    /// whose entries are not in order, from what was expected and what was found.
    pub(super) async fn advance(
        &mut self,
        damaged: &(dyn Fn(TableId, String, String) -> Error + Sync),
    ) -> Result<bool> {
        match self.heap.as_ref().map(|heap| heap.first().map(|head| head.run)) {
            None => self.open().await?,
            Some(None) => return Ok(false),
            Some(Some(run)) => {
                self.remember(run);
                self.step(run).await?;
            }
        }
        let Some(run) = self.top() else { return Ok(false) };
        self.check_order(run, damaged)?;
        Ok(true)
    }

    /// The entry. Requires that the last `advance` gave `true`.
    pub(super) fn entry(&self) -> &I::Scan {
        let Some(run) = self.top() else { unreachable!("no entry after the end") };
        self.run(run).scan()
    }

    /// Whether the entry is the first of its user key.
    pub(super) fn key_changed(&self) -> bool {
        self.key_changed
    }

    fn top(&self) -> Option<usize> {
        self.heap.as_ref()?.first().map(|head| head.run)
    }

    fn run(&self, run: usize) -> &Run<I> {
        &self.runs[run]
    }

    async fn open(&mut self) -> Result<()> {
        let mut heap = Vec::with_capacity(self.runs.len());
        for (index, run) in self.runs.iter_mut().enumerate() {
            if run.advance().await? {
                heap.push(Head { prefix: prefix(run.scan().key()), run: index });
            }
        }
        for position in (0..heap.len() / 2).rev() {
            self.sift_down(&mut heap, position);
        }
        self.heap = Some(heap);
        Ok(())
    }

    /// Advances the run at the top and puts it where it now belongs.
    async fn step(&mut self, run: usize) -> Result<()> {
        let more = self.runs[run].advance().await?;
        let Some(mut heap) = self.heap.take() else { unreachable!("stepping an open merge") };
        if more {
            heap[0].prefix = prefix(self.run(run).scan().key());
        } else {
            heap.swap_remove(0);
        }
        self.sift_down(&mut heap, 0);
        self.heap = Some(heap);
        Ok(())
    }

    fn sift_down(&self, heap: &mut [Head], mut position: usize) {
        loop {
            let mut least = position;
            for child in [2 * position + 1, 2 * position + 2] {
                if child < heap.len() && self.compare(heap[child], heap[least]).is_lt() {
                    least = child;
                }
            }
            if least == position {
                return;
            }
            heap.swap(position, least);
            position = least;
        }
    }

    fn compare(&self, a: Head, b: Head) -> Ordering {
        a.prefix.cmp(&b.prefix).then_with(|| {
            let (x, y) = (self.run(a.run).scan(), self.run(b.run).scan());
            key::compare((x.key(), x.seq()), (y.key(), y.seq())).then(a.run.cmp(&b.run))
        })
    }

    fn remember(&mut self, run: usize) {
        let Some((_, scan)) = &self.runs[run].current else { unreachable!("a run in the heap is at an entry") };
        if self.key_changed {
            self.previous_key.clear();
            self.previous_key.extend_from_slice(scan.key());
        }
        self.previous_seq = Some(scan.seq());
    }

    fn check_order(&mut self, run: usize, damaged: &(dyn Fn(TableId, String, String) -> Error + Sync)) -> Result<()> {
        let (id, scan) = self.runs[run].table();
        let Some(previous_seq) = self.previous_seq else {
            self.key_changed = true;
            return Ok(());
        };
        match scan.key().cmp(&self.previous_key) {
            Ordering::Greater => self.key_changed = true,
            Ordering::Equal if scan.seq() < previous_seq => self.key_changed = false,
            _ => {
                let expected = format!("an entry after \"{}\" @{previous_seq}", self.previous_key.escape_ascii());
                let found = format!("\"{}\" @{}", scan.key().escape_ascii(), scan.seq());
                return Err(damaged(*id, expected, found));
            }
        }
        Ok(())
    }
}

/// The first eight bytes of a key, in an order that agrees with that of the keys where two prefixes differ.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(key) {
        *to = *from;
    }
    u64::from_be_bytes(bytes)
}
