//! What the background keeps for its next work, and gives back when there is none for a while.
//!
//! Blocks of memtables and buffers of table I/O are kept from one flush or compaction to the next: memory that was
//! never touched is slow. A database that has become quiet would keep up to two memtables' worth of them for ever. So a
//! coroutine that has worked and then had nothing to do for [`QUIET_NS`] gives them back; after that it sleeps without
//! a timer.

use super::Workshop;
use crate::runtime::{Event, Ticket};

/// In nanoseconds.
const QUIET_NS: u64 = 5_000_000_000;

impl Workshop {
    /// Returns when `wanted` was notified after `ticket`, or once kept memory was given back, which it is if the caller
    /// `has_worked`. Takes note of that.
    pub(super) async fn rest(&self, wanted: &Event, ticket: Ticket, has_worked: &mut bool) {
        if !*has_worked {
            wanted.listen(ticket).await;
            return;
        }
        self.environment.sleep_or(QUIET_NS, wanted, ticket).await;
        if !wanted.passed(ticket) {
            *has_worked = false;
            self.memtable_pool.rest();
            self.tables.rest();
        }
    }
}
