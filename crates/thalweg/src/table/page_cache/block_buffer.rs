//! [`BlockBuffer`]: the reused memory that blocks of a mapping are copied to.

use crate::format::Slice;
use crate::memory::Buffer;

/// The size of a buffer is a multiple of this, because the sizes of blocks differ by an entry.
const BUFFER_STEP_BYTES: usize = 1 << 10;

/// A block is not copied to a buffer of more than this many times its size.
const BUFFER_PART: usize = 4;

/// The longest buffer that is kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Memory for one block after the other, reused once no part of the previous block is referenced.
#[derive(Default)]
pub(in crate::table) struct BlockBuffer {
    buffer: Option<Buffer>,
}

impl BlockBuffer {
    pub(in crate::table) const fn new() -> Self {
        BlockBuffer { buffer: None }
    }

    /// Returns the `bytes` bytes that `fill` writes, or `None` if `fill` returns `false`.
    #[inline]
    pub(super) fn fill(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> bool) -> Option<Slice> {
        let free = self.buffer.take().filter(|buffer| fits(buffer.len(), bytes));
        let free = free.and_then(|mut buffer| buffer.get_mut().is_some().then_some(buffer));
        let mut buffer = free.unwrap_or_else(|| Buffer::zeroed(bytes.next_multiple_of(BUFFER_STEP_BYTES)));
        let is_filled = buffer.get_mut().and_then(|buffer| buffer.get_mut(..bytes)).is_some_and(fill);
        let filled = is_filled.then(|| Slice::start_of(buffer.clone(), bytes));
        self.buffer = Some(buffer).filter(|buffer| buffer.len() <= KEPT_BYTES_MAX);
        filled
    }
}

/// Whether a buffer of `buffer_bytes` may hold `bytes`. A value that a caller keeps should not keep much more memory.
fn fits(buffer_bytes: usize, bytes: usize) -> bool {
    bytes <= buffer_bytes && buffer_bytes <= BUFFER_STEP_BYTES.max(bytes).saturating_mul(BUFFER_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_once_no_part_of_the_block_is_referenced() {
        let mut buffer = BlockBuffer::default();
        let fill = |buffer: &mut BlockBuffer, byte: u8, bytes| {
            buffer
                .fill(bytes, |content| {
                    content.fill(byte);
                    true
                })
                .unwrap()
        };
        let first = fill(&mut buffer, 1, 4000);
        let second = fill(&mut buffer, 2, 4090);
        assert_eq!((first, &second), (Slice::from(vec![1; 4000]), &Slice::from(vec![2; 4090])));
        let place = second.as_ptr();
        drop(second);
        let third = fill(&mut buffer, 3, 10);
        assert_eq!((third.as_ptr(), &third), (place, &Slice::from(vec![3; 10])));
        assert!(buffer.fill(10, |_| false).is_none());
        assert_eq!(third, [3; 10]);
        fill(&mut buffer, 4, KEPT_BYTES_MAX + 1);
        assert!(buffer.buffer.is_none(), "too long to be kept");
    }
}
