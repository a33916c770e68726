//! [`Turn`]: mutual exclusion among coroutines, held across awaits.

use super::{Environment, Event};
use std::sync::atomic::{AtomicBool, Ordering};

/// At most one coroutine has the turn. Not fair, which is enough for the few that ever compete.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: AtomicBool,
    given_back: Event,
}

/// The turn, until dropped.
#[derive(Debug)]
pub(crate) struct TurnGuard<'a> {
    turn: &'a Turn,
}

impl Turn {
    /// Waits for the turn.
    pub(crate) async fn take(&self, environment: &Environment) -> TurnGuard<'_> {
        environment.until(&self.given_back, || self.try_take()).await
    }

    /// Waits for the turn, for a foreground caller.
    pub(crate) fn take_blocking(&self, environment: &Environment) -> TurnGuard<'_> {
        environment.wait_until(&self.given_back, || self.try_take())
    }

    fn try_take(&self) -> Option<TurnGuard<'_>> {
        self.taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then_some(TurnGuard { turn: self })
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.turn.taken.store(false, Ordering::Release);
        self.turn.given_back.notify_all();
    }
}
