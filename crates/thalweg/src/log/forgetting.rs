//! [`Forgetting`]: which pages of the log the page cache forgets, so that tables have their memory. Pure.
//!
//! A durable segment is read only after a crash. But until flushes release it, the page cache keeps its pages, because
//! they were stored to. If reads of tables miss the page cache, tables need this memory more. The cost: when the file
//! is used again, its pages become zeros before they become records ([`Segment::renew`]).

use super::segment::Segment;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// Segments are forgotten if tables had a read past the page cache for each 16 KiB of them, that is, for every fourth
/// page. Such a read takes ten times as long as a page that becomes zeros.
const BYTES_A_READ: u64 = 16 << 10;

/// How many bytes one step forgets.
const STEP_BYTES: u32 = 1 << 20;

/// The segments that the page cache shall forget.
#[derive(Debug, Default)]
pub(super) struct Forgetting {
    /// The number of reads past the page cache from the opening of the database to the latest look.
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
    /// Takes the segments in `closed`, which syncs made durable, if reads miss the page cache. Leaves out segments
    /// before index `let_go_before`, because their files are used again soon. Leaves out segments whose records were
    /// written by position, because missing pages of such a file are read when it is used again. `direct_reads` is the
    /// total since the database was opened.
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

    /// Returns the next pages to forget. Skips segments that are no longer kept, because their files may be in use
    /// again.
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
