//! Copies segments, for checkpoints. Locks: the tail's, to find the segments; none over I/O.

use super::open::Log;
use super::segment::{open_file, slot_path};
use crate::error::{Error, Result};
use crate::format::LogMark;
use crate::runtime::Environment;
use std::path::Path;
use std::sync::Arc;

/// How many bytes are copied at a time.
const CHUNK_BYTES: u64 = 1 << 20;

impl Log {
    /// Copies the segments that hold `[from, to)` to `directory`, durably except for the directory's own name. `to`
    /// must be published. The segments from `from` on must not be released, or must be pinned (see [`Log::pin`]). Zeros
    /// follow `to` in the copy.
    pub(crate) fn copy_to(self: &Arc<Self>, from: LogMark, to: LogMark, directory: &Path) -> Result<()> {
        assert!(to.position <= self.published().position, "only what is published can be copied");
        let _pin = self.pin(from);
        // Position 0 stands for the start of the first segment, which has index 1.
        let (first, last) = (from.position.segment().max(1), to.position.segment());
        let segments: Vec<_> = {
            let tail = self.lock_tail();
            tail.segments.range(first..=last).map(|(_, segment)| Arc::clone(segment)).collect()
        };
        if segments.first().is_none_or(|segment| segment.id.index != first) {
            return Err(Error::internal(format!("log segment {first} was let go before it could be copied")));
        }
        self.environment.storage.create_directory(directory)?;
        for (number, segment) in (0..).zip(&segments) {
            let is_last = segment.id.index == last;
            let used = if is_last { to.position.offset() } else { segment.bytes };
            let copy = slot_path(directory, number);
            copy_file(&self.environment, &segment.path, &copy, u64::from(used), u64::from(segment.bytes))?;
        }
        self.environment.storage.sync_directory(directory)
    }
}

/// Copies the first `used` bytes of a file to a new file of `bytes` bytes, and syncs it.
pub(super) fn copy_file(environment: &Environment, from: &Path, to: &Path, used: u64, bytes: u64) -> Result<()> {
    let source = open_file(environment, from)?;
    let copy = environment.storage.create(to)?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < bytes {
        let count = CHUNK_BYTES.min(bytes - at);
        buffer.clear();
        buffer.resize(count as usize, 0);
        let held = used.saturating_sub(at).min(count);
        if let Some(held) = buffer.get_mut(..held as usize) {
            source.read_exact_at(at, held)?;
        }
        copy.write_all_at(at, &buffer)?;
        at += count;
    }
    copy.sync()
}
