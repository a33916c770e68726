//! The coroutine that makes the log durable for the callbacks that wait, and calls them.
//!
//! It is one member of the groups of the frontier. Of the positions that are waited for it takes the first one. So it
//! joins a sync in flight that covers that position. Otherwise it issues one, which covers every callback that waits.

use super::callbacks::Callbacks;
use super::open::Log;
use crate::planted::{Bug, planted};
use std::sync::Arc;

/// Ends the callbacks with the coroutine, however that ends.
struct End(Arc<Callbacks>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Log {
    /// Calls each callback soon after its position is durable. A callback that comes while a sync is in flight waits at
    /// most for that sync and the next one.
    pub(super) async fn answer_callbacks(self: Arc<Self>) {
        let callbacks = &End(Arc::clone(&self.callbacks)).0;
        loop {
            let is_due = || if self.is_ended() { Some(None) } else { callbacks.first_wanted().map(Some) };
            let Some(first) = self.environment.until(&callbacks.wanted, is_due).await else { return };
            if self.sync_in_background(first).await.is_err() {
                return;
            }
            let is_early = planted(Bug::TicketTooEarly);
            callbacks.call_up_to(if is_early { self.published().position } else { self.durable() });
        }
    }
}
