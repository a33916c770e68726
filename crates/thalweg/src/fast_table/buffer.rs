//! [`GroupBuffer`]: the memory that groups are copied to and unpacked in, reused from group to group.

use std::cell::Cell;

/// The longest buffer that a thread keeps between its point reads.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static BUFFER: Cell<GroupBuffer> = const { Cell::new(GroupBuffer::new()) };
}

/// See the module. Each part only grows; bytes behind the newest group have no meaning.
#[derive(Debug, Default)]
pub(super) struct GroupBuffer {
    /// A group as it is stored, if its table is not in memory.
    pub(super) copied: Vec<u8>,
    /// The uncompressed content of a group, if the group is compressed.
    pub(super) unpacked: Vec<u8>,
}

impl GroupBuffer {
    pub(super) const fn new() -> Self {
        GroupBuffer { copied: Vec::new(), unpacked: Vec::new() }
    }

    /// Calls `read` with the buffer that this thread keeps.
    pub(super) fn with_kept<T>(read: impl FnOnce(&mut GroupBuffer) -> T) -> T {
        // The thread's buffer no longer exists while the thread ends.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        let read = read(&mut buffer);
        for part in [&mut buffer.copied, &mut buffer.unpacked] {
            if part.len() > KEPT_BYTES_MAX {
                *part = Vec::new();
            }
        }
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
        read
    }
}

/// Returns the first `bytes` of `part`, to be overwritten. They are not zeroed each time.
pub(super) fn room(part: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if part.len() < bytes {
        part.resize(bytes, 0);
    }
    part.get_mut(..bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_short_buffers_only() {
        GroupBuffer::with_kept(|buffer| {
            room(&mut buffer.copied, KEPT_BYTES_MAX).fill(1);
            room(&mut buffer.unpacked, KEPT_BYTES_MAX + 1).fill(2);
        });
        GroupBuffer::with_kept(|buffer| {
            assert_eq!((buffer.copied.len(), buffer.unpacked.len()), (KEPT_BYTES_MAX, 0));
            assert_eq!(room(&mut buffer.copied, 3), [1; 3], "not zeroed again");
        });
    }
}
