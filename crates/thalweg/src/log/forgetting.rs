//! [`Forgetting`]: which pages of the log the page cache forgets, so that tables have their memory. Pure.
//!
//! A durable segment is read only after a crash. But until flushes release it, the page cache keeps its pages, because
//! they were stored to. Where reads of tables miss the page cache, they need this memory more. What it costs: once the
//! file is used again, its pages become zeros before they become records ([`Segment::renew`]).

use super::segment::Segment;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// Segments are forgotten if tables had a read past the page cache for this many of their bytes: for a quarter of their
/// pages. Such a read takes ten times as long as a page that becomes zeros.
const BYTES_A_READ: u64 = 16 << 10;

/// How many bytes one step forgets.
const STEP_BYTES: u32 = 1 << 20;

/// The segments that the page cache shall forget.
#[derive(Debug, Default)]
pub(super) struct Forgetting {
    /// The reads past the page cache up to the latest look, since the database was opened.
    direct_reads: u64,
    /// Oldest first.
    segments: VecDeque<Pages>,
}

/// Pages of a segment that is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    /// The segment's index.
    index: u32,
    pub(super) path: PathBuf,
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Forgetting {
    /// Looks whether reads miss the page cache, and if so takes the segments in `closed`, which syncs made durable.
    /// Exceptions are segments before index `let_go_before`, which are used again soon, and those whose records were
    /// written by position: when such a file is used again, old pages that are missing are read. `direct_reads` counts
    /// all since the database was opened.
    pub(super) fn look(&mut self, closed: &[Arc<Segment>], let_go_before: u32, direct_reads: u64) {
        let bytes: u64 = closed.iter().map(|segment| u64::from(segment.bytes)).sum();
        if bytes == 0 {
            return;
        }
        let reads = direct_reads.saturating_sub(self.direct_reads);
        self.direct_reads = direct_reads;
        if reads.saturating_mul(BYTES_A_READ) < bytes {
            return;
        }
        let is_worth_it = |segment: &&Arc<Segment>| segment.id.index >= let_go_before && segment.stored_to().is_some();
        let mut taken: Vec<Pages> = closed
            .iter()
            .filter(is_worth_it)
            .map(|it| Pages { index: it.id.index, path: it.path.clone(), from: 0, to: it.bytes })
            .collect();
        taken.sort_by_key(|pages| pages.index);
        self.segments.extend(taken);
    }

    /// Returns the next pages to forget. A segment that is not kept any more is left out: its file may be in use again.
    pub(super) fn next(&mut self, is_kept: impl Fn(u32) -> bool) -> Option<Pages> {
        loop {
            let first = self.segments.front_mut()?;
            let step = Pages { to: first.from.saturating_add(STEP_BYTES).min(first.to), ..first.clone() };
            let is_known = is_kept(first.index);
            first.from = step.to;
            if first.from == first.to || !is_known {
                self.segments.pop_front();
            }
            if is_known {
                return Some(step);
            }
        }
    }
}
