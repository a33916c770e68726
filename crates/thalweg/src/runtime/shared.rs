//! [`Runtime`]: worker threads that several databases of a process share.

use super::scheduler::Scheduler;
use super::tenant::Tenant;
use super::threads::{Crew, ThreadScheduler};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of compaction threads that a runtime may have.
const COMPACTION_WORKERS_MAX: usize = 64;

/// Worker threads that several databases share, for processes with many databases. A database that is opened without a
/// runtime ([`crate::Builder::runtime`]) has its own workers: two threads, those for compactions, and their rings.
///
/// A clone is the same runtime. Handles may be dropped before the databases: the threads end when the last handle and
/// the last database are gone. Closing a database ends only its own background work, and a failed assertion in that
/// work poisons only its database.
///
/// The databases share these threads:
/// - *Log syncs* are handed to the kernel (io_uring), all at the same time. Where the kernel refuses rings
///   ([`Runtime::io_uring_refused`]), a sync blocks the worker, and each log waits for the syncs of the others. A
///   database whose writers wait for `Durability::Sync` then needs its own runtime.
/// - *Flushes* of all databases share one thread, and *compactions* share `compaction_workers` threads. Many busy
///   databases need more compaction workers, or a runtime for each group.
///
/// Block cache, memtables and limits are not shared.
///
/// ```
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-runtime-{}", std::process::id()));
/// let runtime = thalweg::Runtime::new(1)?;
/// for tenant in ["anna", "bert", "cleo"] {
///     let db = thalweg::Database::builder(dir.join(tenant)).runtime(&runtime).open()?;
///     db.keyspace("inbox")?.insert("1", "welcome")?;
/// }
/// # let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    clock: Arc<dyn Clock>,
    scheduler: Arc<ThreadScheduler>,
    /// The number of the next database's first compaction worker.
    next_worker: Arc<AtomicUsize>,
}

impl Runtime {
    /// Starts the threads: one for logs, one for flushes, and `compaction_workers` (1 to 64).
    ///
    /// # Errors
    /// `InvalidInput` for a number out of range; `Io` when the operating system refuses a thread.
    pub fn new(compaction_workers: usize) -> Result<Runtime> {
        if !(1..=COMPACTION_WORKERS_MAX).contains(&compaction_workers) {
            return Err(Error::invalid_input("compaction_workers of a runtime: 1 to 64"));
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let crew = Crew { is_shared: true, ..Crew::of(compaction_workers) };
        let scheduler = Arc::new(ThreadScheduler::with_crew(Arc::clone(&clock), crew)?);
        Ok(Runtime { clock, scheduler, next_worker: Arc::default() })
    }

    /// Why background operations block a worker instead of being handed to the kernel (io_uring); `None` where they are
    /// handed over.
    pub fn io_uring_refused(&self) -> Option<&str> {
        self.scheduler.ring_refused()
    }

    /// The clock of its timers.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The scheduler of one database, which has `compaction_workers` compactors.
    pub(crate) fn tenant(&self, compaction_workers: usize) -> Arc<dyn Scheduler> {
        let first_worker = self.next_worker.fetch_add(compaction_workers, Ordering::Relaxed);
        Arc::new(Tenant::new(Arc::clone(&self.scheduler) as Arc<dyn Scheduler>, first_worker))
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runtime").field("io_uring_refused", &self.io_uring_refused()).finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn handle<T: Send + Sync>() {}
    handle::<Runtime>();
};
