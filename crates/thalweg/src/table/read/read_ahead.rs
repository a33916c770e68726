//! [`ReadAhead`]: blocks that a cursor reads from the file before it comes to them.
//!
//! The second miss in a row on neighbouring blocks begins it; each further read takes twice as many bytes, up to
//! [`WINDOW_BYTES_MAX`]. The bytes lie here as the file has them and are verified when the cursor comes to their block.
//! What cannot be read ahead is read, and reported, when it is needed.

use super::file::Opened;
use crate::error::Result;
use crate::format::Slice;
use crate::table::format::index::Handle;
use crate::table::page_cache::mapping::Room;

/// What the first read ahead takes, and the longest.
const WINDOW_BYTES_MIN: u64 = 16 << 10;
const WINDOW_BYTES_MAX: u64 = 256 << 10;

/// See the module.
#[derive(Default)]
pub(in crate::table) struct ReadAhead {
    /// The block after the last miss.
    next: usize,
    window_bytes: u64,
    /// Bytes of the file from `start`.
    bytes: Vec<u8>,
    start: u64,
    /// For blocks of a mapping: while the cursor stands in one of them, the next is put into the other.
    rooms: [Room; 2],
}

impl ReadAhead {
    /// Block `at`, which is not cached: of the bytes read ahead, with what follows if it is the neighbour of the last
    /// miss, or as `alone` reads it.
    pub(in crate::table) fn read(
        &mut self,
        opened: &Opened,
        at: usize,
        handle: Handle,
        alone: impl FnOnce() -> Result<Slice>,
    ) -> Result<Slice> {
        if self.sealed(handle).is_none() {
            let follows = self.next > 0 && self.next == at;
            self.window_bytes =
                if follows { (2 * self.window_bytes).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX) } else { 0 };
            if follows {
                self.fill(opened, at, handle);
            }
        }
        self.next = at + 1;
        match self.sealed(handle) {
            Some(sealed) => opened.unseal(&Slice::from_long(sealed), handle),
            None => alone(),
        }
    }

    /// Memory for the next block of a mapping.
    pub(in crate::table) fn room(&mut self) -> &mut Room {
        let [first, second] = &mut self.rooms;
        std::mem::swap(first, second);
        first
    }

    /// The block with its trailer, if it is here.
    fn sealed(&self, handle: Handle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let end = usize::try_from(handle.end()?.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..end)
    }

    /// Reads block `at` and as many after it as the window takes.
    fn fill(&mut self, opened: &Opened, at: usize, first: Handle) {
        let ends = (at..opened.index.blocks()).filter_map(|at| opened.index.handle(at)?.end());
        let last = ends.take_while(|end| *end - first.offset <= self.window_bytes).last();
        let bytes = last.and_then(|end| usize::try_from(end - first.offset).ok()).unwrap_or(0);
        self.bytes.resize(bytes, 0);
        self.start = first.offset;
        if opened.file.read_exact_at(first.offset, &mut self.bytes).is_err() {
            self.bytes.clear();
        } else if self.window_bytes == WINDOW_BYTES_MAX {
            // The kernel was told not to read ahead of reads (`live.rs`): for a long scan it is asked to, by name.
            let end = first.offset + bytes as u64;
            opened.file.will_need(end, WINDOW_BYTES_MAX.min(opened.footer.data_end().saturating_sub(end)));
        }
    }
}
