//! [`IdleMemory`]: memory that the background keeps for its next work, and gives back when there is none for a while.
//!
//! Blocks of memtables and buffers of table I/O are kept from one flush or compaction to the next: memory that was
//! never touched is slow. A database that has become quiet would keep up to two memtables' worth of them for ever. So a
//! coroutine that has worked and then had nothing to do for [`QUIET_NS`] gives them back; after that it sleeps without
//! a timer.
//!
//! Memory that flushes and compactions allocate and free stays with the allocator, in arenas that only their threads
//! use. After [`TRIM_BYTES`] of tables were written, a rest makes the allocator give it back, too. Rests after fewer
//! bytes do not: a process may have a thousand databases.

use crate::memory::rest_runs;
use crate::memtable::MemtablePool;
use crate::metrics::Metrics;
use crate::runtime::{Environment, Event, Ticket};
use crate::table::TableStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A coroutine gives memory back after it has had nothing to do for this time, in nanoseconds.
const QUIET_NS: u64 = 5_000_000_000;

/// A rest trims the heap when this many bytes of tables were written since the last trim.
const TRIM_BYTES: u64 = 64 << 20;

/// See the module.
pub(crate) struct IdleMemory {
    environment: Environment,
    pool: MemtablePool,
    tables: Arc<TableStore>,
    metrics: Arc<Metrics>,
    /// The bytes of tables that were written when the heap was last trimmed.
    trimmed_at_bytes: AtomicU64,
}

impl IdleMemory {
    pub(crate) fn new(
        environment: &Environment,
        pool: &MemtablePool,
        tables: &Arc<TableStore>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        IdleMemory {
            environment: environment.clone(),
            pool: pool.clone(),
            tables: Arc::clone(tables),
            metrics: Arc::clone(metrics),
            trimmed_at_bytes: AtomicU64::new(0),
        }
    }

    /// The pool of memtables whose blocks are kept.
    pub(crate) fn pool(&self) -> &MemtablePool {
        &self.pool
    }

    /// Waits until `wanted` is notified after `ticket`. If that takes long and the caller `has_worked`, gives kept
    /// memory back, sets `has_worked` to `false` and returns.
    pub(crate) async fn rest(&self, wanted: &Event, ticket: Ticket, has_worked: &mut bool) {
        if !*has_worked {
            wanted.listen(ticket).await;
            return;
        }
        self.environment.sleep_or(QUIET_NS, wanted, ticket).await;
        if !wanted.passed(ticket) {
            *has_worked = false;
            self.pool.rest();
            self.tables.rest();
            rest_runs();
            self.trim();
        }
    }

    fn trim(&self) {
        let written = self.metrics.flush_written_bytes.get() + self.metrics.compaction_written_bytes.get();
        let since = written.saturating_sub(self.trimmed_at_bytes.load(Ordering::Relaxed));
        if since >= TRIM_BYTES {
            self.trimmed_at_bytes.store(written, Ordering::Relaxed);
            self.environment.storage.trim_heap();
        }
    }
}
