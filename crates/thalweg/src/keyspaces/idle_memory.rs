//! [`IdleMemory`]: memory that the background keeps for its next work, and gives back when there is none for a while.
//!
//! Blocks of memtables and buffers of table I/O are kept from one flush or compaction to the next: memory that was
//! never touched is slow. A database that has become quiet would keep up to two memtables' worth of them for ever. So a
//! coroutine that has worked and then had nothing to do for [`QUIET_NS`] gives them back; after that it sleeps without
//! a timer.

use crate::memtable::MemtablePool;
use crate::runtime::{Environment, Event, Ticket};
use crate::table::TableStore;
use std::sync::Arc;

/// In nanoseconds.
const QUIET_NS: u64 = 5_000_000_000;

/// See the module.
pub(crate) struct IdleMemory {
    pub(crate) environment: Environment,
    pub(crate) pool: MemtablePool,
    pub(crate) tables: Arc<TableStore>,
}

impl IdleMemory {
    /// Waits until `wanted` is notified after `ticket`. Gives kept memory back and returns if that takes long and the
    /// caller `has_worked`, which is `false` from then on.
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
        }
    }
}
