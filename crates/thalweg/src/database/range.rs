//! [`Range`]: entries in key order, from both ends.

use super::handle::Shared;
use crate::error::{Error, Result};
use crate::format::{Cursor, Slice};
use crate::ordered::cursor::{Bounds, DoubleEnded};
use crate::ordered::{OrderedKeyspace, SnapshotSeq};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// A key and its value, as iterators give them.
pub type Entry = (Slice, Slice);

/// Makes a cursor over one partition's view.
type Open = Box<dyn FnMut() -> Box<dyn Cursor + Send> + Send>;

/// Entries of a keyspace in key order as of one moment; double-ended. After an error it ends.
///
/// While it lives it keeps its state readable and the tables it reads on disk.
pub struct Range {
    /// The partitions not yet exhausted from either side, in key order.
    parts: VecDeque<DoubleEnded<Open>>,
    error: Option<Error>,
    /// Pins the state until the range is dropped.
    _seq: Arc<SnapshotSeq>,
    shared: Arc<Shared>,
}

impl Range {
    pub(super) fn new(
        shared: &Arc<Shared>,
        seq: &Arc<SnapshotSeq>,
        keyspace: Result<&Arc<OrderedKeyspace>>,
        bounds: Bounds,
    ) -> Self {
        let mut range =
            Range { parts: VecDeque::new(), error: None, _seq: Arc::clone(seq), shared: Arc::clone(shared) };
        let keyspace = match keyspace {
            Ok(keyspace) => keyspace,
            Err(error) => {
                range.error = Some(error);
                return range;
            }
        };
        let partitions = keyspace.partitions();
        let first = match &bounds.from {
            Bound::Included(key) | Bound::Excluded(key) => keyspace.index_for(key),
            Bound::Unbounded => 0,
        };
        let last = match &bounds.to {
            Bound::Included(key) | Bound::Excluded(key) => keyspace.index_for(key),
            Bound::Unbounded => partitions.len() - 1,
        };
        for partition in partitions.iter().take(last + 1).skip(first) {
            let view = partition.pinned_view();
            let open: Open = Box::new(move || view.cursor());
            range.parts.push_back(DoubleEnded::new(open, seq.seq(), bounds.clone()));
        }
        range
    }

    /// What keeps it from going on: an error met when it was made, or a close of the database.
    fn obstacle(&mut self) -> Option<Error> {
        let closed = || self.shared.engine.readable().err().filter(|_| !self.parts.is_empty());
        self.error.take().or_else(closed)
    }

    fn fail(&mut self, error: Error) -> Option<Result<Entry>> {
        self.parts.clear();
        Some(Err(error))
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if let Some(error) = self.obstacle() {
            return self.fail(error);
        }
        while let Some(part) = self.parts.front_mut() {
            match part.next() {
                Some(Ok(entry)) => return Some(Ok(entry)),
                None => drop(self.parts.pop_front()),
                Some(Err(error)) => return self.fail(error),
            }
        }
        None
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        if let Some(error) = self.obstacle() {
            return self.fail(error);
        }
        while let Some(part) = self.parts.back_mut() {
            match part.next_back() {
                Some(Ok(entry)) => return Some(Ok(entry)),
                None => drop(self.parts.pop_back()),
                Some(Err(error)) => return self.fail(error),
            }
        }
        None
    }
}

impl std::iter::FusedIterator for Range {}

impl Drop for Range {
    fn drop(&mut self) {
        self.parts.clear();
        self.shared.engine.readers_left();
    }
}
