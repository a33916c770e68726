//! [`Range`]: entries in key order, from both ends.

use super::engine::Engine;
use super::view_refresh::ViewRefresh;
use crate::error::{Error, Result};
use crate::format::{SeqNo, Slice};
use crate::keyspaces::SnapshotSeq;
use crate::ordered::cursor::{Bounds, DoubleEnded};
use crate::ordered::{OrderedKeyspace, SuperVersionSource, have_lost_tables};
use crate::runtime::{Environment, Point};
use arc_swap::Guard;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// A key and its value, as iterators give them.
pub type Entry = (Slice, Slice);

/// Entries of a keyspace in key order as of one moment; double-ended. After an error it ends.
///
/// While it lives, its state stays readable and its tables stay on disk. If tables that only readers hold take more
/// than a tenth of a fast tier, the next step of the range releases its replaced ones.
///
/// Every item is a `Result`. [`Iterator::count`] counts an error as an entry; [`Range::try_count`] does not.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-entries-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let rivers = db.keyspace("rivers")?;
/// for (name, km) in [("Aare", "288"), ("Elbe", "1094"), ("Inn", "518"), ("Rhine", "1233")] {
///     rivers.insert(name, km)?;
/// }
/// for entry in rivers.range("B"..) {
///     let (name, km) = entry?;
///     println!("{}: {} km", name.escape_ascii(), km.escape_ascii());
/// }
/// let mut entries = rivers.iter();
/// entries.seek("F");
/// assert_eq!(entries.next().transpose()?.map(|(name, _)| name).as_deref(), Some(b"Inn".as_slice()));
/// assert_eq!(rivers.iter().keys().next_back().transpose()?.as_deref(), Some(b"Rhine".as_slice()));
/// assert_eq!(rivers.prefix("E").try_count()?, 1);
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
pub struct Range {
    /// The partitions not yet exhausted from either side, in key order.
    parts: VecDeque<DoubleEnded<SuperVersionSource>>,
    error: Option<Error>,
    /// Whether the range held the last handle of a super version, so that tables may have been released.
    let_go: bool,
    /// Present if there is a fast tier.
    refresh: Option<ViewRefresh>,
    /// Pins the state until the range is dropped.
    seq: Arc<SnapshotSeq>,
    engine: Arc<Engine>,
}

impl Range {
    pub(super) fn new(
        engine: &Arc<Engine>,
        seq: &Arc<SnapshotSeq>,
        keyspace: Result<Guard<Arc<OrderedKeyspace>>>,
        bounds: Bounds,
    ) -> Self {
        let found = keyspace.and_then(|keyspace| {
            let refresh = ViewRefresh::new(engine, &keyspace);
            Ok((parts(&engine.environment, &keyspace, seq.seq(), bounds)?, refresh))
        });
        match found {
            Ok((parts, refresh)) => Range::of(engine, seq, parts, refresh, None),
            Err(error) => Range::failed(engine, seq, error),
        }
    }

    /// A range that gives an error.
    pub(super) fn failed(engine: &Arc<Engine>, seq: &Arc<SnapshotSeq>, error: Error) -> Self {
        Range::of(engine, seq, VecDeque::new(), None, Some(error))
    }

    fn of(
        engine: &Arc<Engine>,
        seq: &Arc<SnapshotSeq>,
        parts: VecDeque<DoubleEnded<SuperVersionSource>>,
        refresh: Option<ViewRefresh>,
        error: Option<Error>,
    ) -> Self {
        Range { parts, error, let_go: false, refresh, seq: Arc::clone(seq), engine: Arc::clone(engine) }
    }

    /// The keys alone.
    pub fn keys(self) -> Keys {
        Keys(self)
    }

    /// The values alone.
    pub fn values(self) -> Values {
        Values(self)
    }

    /// Moves the front to the first entry at or above `key`. It only moves forward: if the front has passed `key`,
    /// nothing happens, and skipped entries are gone from the range. It costs as much as a new range, but sees the same
    /// moment.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        while self.parts.front().is_some_and(|part| part.ends_before(key)) {
            if let Some(part) = self.parts.pop_front() {
                self.leave(part);
            }
        }
        if let Some(part) = self.parts.front_mut() {
            part.skip_below(key);
        }
    }

    /// As [`Range::seek`], for the back: moves it to the last entry at or below `key`.
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        while self.parts.back().is_some_and(|part| part.begins_after(key)) {
            if let Some(part) = self.parts.pop_back() {
                self.leave(part);
            }
        }
        if let Some(part) = self.parts.back_mut() {
            part.skip_above(key);
        }
    }

    /// Reads all entries that are left, and returns their number.
    ///
    /// # Errors
    /// The error that ends the range.
    pub fn try_count(mut self) -> Result<u64> {
        self.try_fold(0, |count, entry| entry.map(|_| count + 1))
    }

    /// Takes newer views of the entries that are left, if these views release fast tables. Keeps the present views if
    /// the keyspace can no longer be read.
    #[cold]
    fn take_newer_views(&mut self) {
        let (Some(refresh), Some(first), Some(last)) = (&mut self.refresh, self.parts.front(), self.parts.back())
        else {
            return;
        };
        let rest = Bounds { from: first.rest().from, to: last.rest().to };
        let keyspace = refresh.begin(&self.engine);
        let Ok(newer) = parts(&self.engine.environment, keyspace, self.seq.seq(), rest) else { return };
        let before = self.parts.iter().filter_map(|part| part.source().0.fast.as_deref());
        if !have_lost_tables(before, newer.iter().filter_map(|part| part.source().0.fast.as_deref())) {
            return;
        }
        for part in std::mem::replace(&mut self.parts, newer) {
            self.leave(part);
        }
        if std::mem::take(&mut self.let_go) {
            self.engine.readers_left();
        }
    }

    /// The error that ends the range: one met when the range was made, or a close of the database. If there is none,
    /// takes newer views if they are due.
    #[inline]
    fn obstacle(&mut self) -> Option<Error> {
        if self.error.is_some() {
            return self.error.take();
        }
        let closed = self.engine.readable().err().filter(|_| !self.parts.is_empty());
        if closed.is_none() && self.refresh.as_ref().is_some_and(|refresh| refresh.is_due(&self.engine)) {
            self.take_newer_views();
        }
        closed
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

    /// Releases a partition's super version.
    fn leave(&mut self, part: DoubleEnded<SuperVersionSource>) {
        let SuperVersionSource(super_version) = part.into_source();
        self.let_go |= Arc::into_inner(super_version).is_some();
    }
}

/// The partitions with keys in `bounds`, each within its own part of them. Each partition is looked up where the one
/// before it ends. So a split meanwhile leaves nothing out and gives nothing twice.
fn parts(
    environment: &Environment,
    keyspace: &OrderedKeyspace,
    seq: SeqNo,
    bounds: Bounds,
) -> Result<VecDeque<DoubleEnded<SuperVersionSource>>> {
    let mut parts = VecDeque::new();
    let mut super_version = match bounds.lower() {
        Bound::Included(key) | Bound::Excluded(key) => keyspace.super_version_for(key)?,
        Bound::Unbounded => keyspace.super_version_for(&[])?,
    };
    let mut from = bounds.from.clone();
    loop {
        let end = super_version.range.to.clone().filter(|end| !bounds.is_above(end));
        let end = end.map(|end| Slice::from(&*end));
        let to = end.as_ref().map_or_else(|| bounds.to.clone(), |end| Bound::Excluded(end.clone()));
        parts.push_back(DoubleEnded::new(SuperVersionSource(Arc::clone(&super_version)), seq, Bounds { from, to }));
        let Some(end) = end else { return Ok(parts) };
        environment.point(Point::Viewed);
        super_version = keyspace.super_version_for(&end)?;
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
            self.engine.readers_left();
        }
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("partitions_left", &self.parts.len()).field("error", &self.error).finish()
    }
}

/// The keys of a [`Range`].
#[derive(Debug)]
pub struct Keys(Range);

/// The values of a [`Range`].
#[derive(Debug)]
pub struct Values(Range);

impl Iterator for Keys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Result<Slice>> {
        Some(self.0.next()?.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Result<Slice>> {
        Some(self.0.next_back()?.map(|(key, _)| key))
    }
}

impl std::iter::FusedIterator for Keys {}

impl Iterator for Values {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Result<Slice>> {
        Some(self.0.next()?.map(|(_, value)| value))
    }
}

impl DoubleEndedIterator for Values {
    fn next_back(&mut self) -> Option<Result<Slice>> {
        Some(self.0.next_back()?.map(|(_, value)| value))
    }
}

impl std::iter::FusedIterator for Values {}
