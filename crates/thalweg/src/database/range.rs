//! [`Range`]: entries in key order, from both ends.

use super::handle::Shared;
use crate::error::{Error, Result};
use crate::format::{SeqNo, Slice};
use crate::ordered::cursor::{Bounds, DoubleEnded};
use crate::ordered::{OrderedKeyspace, SnapshotSeq, ViewSource};
use crate::runtime::{Environment, Point};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// A key and its value, as iterators give them.
pub type Entry = (Slice, Slice);

/// Entries of a keyspace in key order as of one moment; double-ended. After an error it ends.
///
/// While it lives it keeps its state readable and the tables it reads on disk.
pub struct Range {
    /// The partitions not yet exhausted from either side, in key order.
    parts: VecDeque<DoubleEnded<ViewSource>>,
    error: Option<Error>,
    /// It had the last handle of a view: tables may have been let go.
    let_go: bool,
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
        let mut range = Range {
            parts: VecDeque::new(),
            error: None,
            let_go: false,
            _seq: Arc::clone(seq),
            shared: Arc::clone(shared),
        };
        let environment = &shared.engine.environment;
        match keyspace.and_then(|keyspace| parts(environment, keyspace, seq.seq(), bounds)) {
            Ok(parts) => range.parts = parts,
            Err(error) => range.error = Some(error),
        }
        range
    }

    /// What keeps it from going on: an error met when it was made, or a close of the database.
    #[inline]
    fn obstacle(&mut self) -> Option<Error> {
        if self.error.is_some() {
            return self.error.take();
        }
        self.shared.engine.readable().err().filter(|_| !self.parts.is_empty())
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Option<Result<Entry>> {
        self.end();
        Some(Err(error))
    }

    fn end(&mut self) {
        while let Some(part) = self.parts.pop_front() {
            self.leave(part);
        }
    }

    /// Lets go of a partition's view.
    fn leave(&mut self, part: DoubleEnded<ViewSource>) {
        let ViewSource(view) = part.into_source();
        self.let_go |= Arc::into_inner(view).is_some();
    }
}

/// The partitions with keys in `bounds`, each within its own part of them. Each is looked for where the one before it
/// ends: a split meanwhile leaves nothing out and gives nothing twice.
fn parts(
    environment: &Environment,
    keyspace: &OrderedKeyspace,
    seq: SeqNo,
    bounds: Bounds,
) -> Result<VecDeque<DoubleEnded<ViewSource>>> {
    let mut parts = VecDeque::new();
    let mut view = match bounds.lower() {
        Bound::Included(key) | Bound::Excluded(key) => keyspace.view_for(key)?,
        Bound::Unbounded => keyspace.view_for(&[])?,
    };
    let mut from = bounds.from.clone();
    loop {
        let end = view.range.to.clone().filter(|end| !bounds.is_above(end));
        let end = end.map(|end| Slice::from(&*end));
        let to = end.as_ref().map_or_else(|| bounds.to.clone(), |end| Bound::Excluded(end.clone()));
        parts.push_back(DoubleEnded::new(ViewSource(Arc::clone(&view)), seq, Bounds { from, to }));
        let Some(end) = end else { return Ok(parts) };
        environment.point(Point::Viewed);
        view = keyspace.view_for(&end)?;
        from = Bound::Included(end);
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
                None => {
                    if let Some(part) = self.parts.pop_front() {
                        self.leave(part);
                    }
                }
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
                None => {
                    if let Some(part) = self.parts.pop_back() {
                        self.leave(part);
                    }
                }
                Some(Err(error)) => return self.fail(error),
            }
        }
        None
    }
}

impl std::iter::FusedIterator for Range {}

impl Drop for Range {
    fn drop(&mut self) {
        self.end();
        if self.let_go {
            self.shared.engine.readers_left();
        }
    }
}
