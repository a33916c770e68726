//! [`TableIo`]: the device access that all tables of a database share: the gate, buffers and rings.

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::runtime::{Gate, ReadRings};
use crate::storage::{ALIGNMENT, BufferPool};
use std::sync::Arc;

/// The size of the pieces in which background work reads and writes tables. A device is near its full speed at this
/// size, and all buffers in use take only a few megabytes.
pub(in crate::table) const CHUNK_BYTES: usize = 256 << 10;

/// The size of a buffer for one block that is read past the page cache or in a batch. Larger blocks are read alone.
const BLOCK_BUFFER_BYTES: usize = 32 << 10;

/// See the module.
#[derive(Clone)]
pub(in crate::table) struct TableIo {
    pub(in crate::table) gate: Arc<Gate>,
    /// Buffers of [`CHUNK_BYTES`], for background reads and writes.
    pub(in crate::table) chunk_buffers: Arc<BufferPool>,
    /// Buffers of [`BLOCK_BUFFER_BYTES`], for foreground reads.
    pub(in crate::table) block_buffers: Arc<BufferPool>,
    /// Buffers of a page, for writes in small pieces.
    pub(in crate::table) page_buffers: Arc<BufferPool>,
    pub(in crate::table) rings: Arc<ReadRings>,
}

impl TableIo {
    /// `io_depth`: the operations that the device may have at once before writes wait.
    pub(in crate::table) fn new(io_depth: usize, metrics: &Arc<Metrics>, clock: &Arc<dyn Clock>) -> Self {
        TableIo {
            gate: Gate::timed(io_depth, Arc::clone(metrics), Arc::clone(clock)),
            chunk_buffers: BufferPool::new(CHUNK_BYTES),
            block_buffers: BufferPool::new(BLOCK_BUFFER_BYTES),
            page_buffers: BufferPool::new(ALIGNMENT),
            rings: ReadRings::new(Arc::clone(metrics)),
        }
    }
}
