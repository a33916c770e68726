//! [`Shape`]: the number of pages of an f-hash, and of lines of a page (PHAT-3, PHAT-6).
//!
//! An f-hash of less than 4 KiB is one page of 1 to 32 lines. From 4 KiB on it has pages of 64 lines, and the highest
//! bits of a hash choose the page. Each step doubles its size. A page overflows into lines of its own, so a lookup
//! needs that page alone.

use super::page::{Entry, LINE_BYTES, LINE_ENTRIES, LINES_MAX, Page};
use crate::format::NameHash;

/// The most pages: 256 MiB.
const PAGES_MAX: usize = 1 << 16;

/// An f-hash becomes smaller when its entries fill less than an eighth of its places.
const SPARSE_PART: usize = 8;

/// The size of an f-hash; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Powers of two.
    pub(super) lines: usize,
    pub(super) pages: usize,
}

impl Shape {
    /// The shape of the smallest f-hash.
    pub(super) const SMALLEST: Shape = Shape { lines: 1, pages: 1 };

    /// The page of a hash.
    pub(super) fn page_of(self, hash: NameHash) -> usize {
        let bits = self.pages.trailing_zeros();
        hash.0.checked_shr(u64::BITS - bits).unwrap_or(0) as usize
    }

    /// The bytes of a page.
    pub(super) fn page_bytes(self) -> usize {
        self.lines * LINE_BYTES
    }

    /// The number of entries if each place has one.
    fn places(self) -> usize {
        self.pages * self.lines * LINE_ENTRIES
    }

    /// The shape of twice the size.
    fn doubled(self) -> Shape {
        if self.lines < LINES_MAX {
            Shape { lines: self.lines * 2, ..self }
        } else {
            Shape { pages: self.pages * 2, ..self }
        }
    }

    /// Puts entries into the pages of an f-hash of this shape, or of the next larger one that has room for them, or of
    /// a smaller one if this one would be sparse. `None`: no f-hash has room, because too many hashes are equal.
    pub(super) fn filled(self, entries: &[Entry]) -> Option<(Shape, Vec<Page>)> {
        let is_sparse = entries.len() * SPARSE_PART < self.places();
        let mut shape = if is_sparse { Shape::SMALLEST } else { self };
        while shape.places() < entries.len() {
            shape = shape.doubled();
        }
        // Larger shapes are sparse if the hashes are even, and do not help if they are equal.
        let most = (entries.len() * SPARSE_PART * 2).max(LINES_MAX * LINE_ENTRIES);
        while shape.pages <= PAGES_MAX && shape.places() <= most {
            if let Some(pages) = shape.try_filled(entries) {
                return Some((shape, pages));
            }
            shape = shape.doubled();
        }
        None
    }

    fn try_filled(self, entries: &[Entry]) -> Option<Vec<Page>> {
        let mut pages = vec![Page::new(self.lines); self.pages];
        let has_room = entries.iter().all(|entry| pages[self.page_of(entry.hash)].insert(*entry));
        has_room.then_some(pages)
    }
}
