//! [`ReadAhead`]: blocks that a cursor reads from the file before it reaches them.
//!
//! Reading ahead begins at the second consecutive miss on neighbouring blocks. Each further read takes twice as many
//! bytes, up to [`WINDOW_BYTES_MAX`]. The bytes are kept as the file has them; a block is verified when the cursor
//! reaches it. If reading ahead fails, the block is read when it is needed, and that read reports the error.

use super::file::TableFile;
use crate::error::Result;
use crate::format::Slice;
use crate::table::format::index::BlockHandle;
use crate::table::page_cache::block_buffer::BlockBuffer;

/// The bytes that the first read ahead takes, and the most that any takes.
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
    /// Two buffers for blocks of a mapping: the next block goes into the one that the cursor does not stand in.
    buffers: [BlockBuffer; 2],
}

impl ReadAhead {
    /// Reads block `at`, which is not in the block cache. If the last miss was the block before, this reads ahead; else
    /// `alone` reads the block.
    pub(in crate::table) fn read(
        &mut self,
        table_file: &TableFile,
        at: usize,
        handle: BlockHandle,
        alone: impl FnOnce() -> Result<Slice>,
    ) -> Result<Slice> {
        if self.sealed(handle).is_none() {
            let follows = self.next > 0 && self.next == at;
            self.window_bytes =
                if follows { (2 * self.window_bytes).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX) } else { 0 };
            if follows {
                self.fill(table_file, at, handle);
            }
        }
        self.next = at + 1;
        match self.sealed(handle) {
            Some(sealed) => table_file.unseal(&Slice::from_long(sealed), handle),
            None => alone(),
        }
    }

    /// Returns the buffer for the next block of a mapping.
    pub(in crate::table) fn buffer(&mut self) -> &mut BlockBuffer {
        let [first, second] = &mut self.buffers;
        std::mem::swap(first, second);
        first
    }

    /// Returns the block with its trailer, if it was read ahead.
    fn sealed(&self, handle: BlockHandle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let end = usize::try_from(handle.end()?.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..end)
    }

    /// Reads block `at` and the blocks after it that fit in the window.
    fn fill(&mut self, table_file: &TableFile, at: usize, first: BlockHandle) {
        let ends = (at..table_file.index.blocks()).filter_map(|at| table_file.index.handle(at)?.end());
        let last = ends.take_while(|end| *end - first.offset <= self.window_bytes).last();
        let bytes = last.and_then(|end| usize::try_from(end - first.offset).ok()).unwrap_or(0);
        self.bytes.resize(bytes, 0);
        self.start = first.offset;
        if table_file.file.read_exact_at(first.offset, &mut self.bytes).is_err() {
            self.bytes.clear();
        } else if self.window_bytes == WINDOW_BYTES_MAX {
            // The file is open for random reads (`open_table.rs`), so the kernel does not read ahead by itself. For a
            // long scan this requests it to.
            let end = first.offset + bytes as u64;
            table_file.file.will_need(end, WINDOW_BYTES_MAX.min(table_file.footer.data_end().saturating_sub(end)));
        }
    }
}
