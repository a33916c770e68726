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
        let taken = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Only a guard that holds the turn may come into being: dropping one gives the turn back.
        taken.then(|| TurnGuard { turn: self })
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.turn.taken.store(false, Ordering::Release);
        self.turn.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_is_taken_stays_taken_however_often_it_is_asked_for() {
        let turn = Turn::default();
        let guard = turn.try_take();
        assert!(guard.is_some());
        assert!(turn.try_take().is_none());
        assert!(turn.try_take().is_none());
        drop(guard);
        assert!(turn.try_take().is_some());
    }
}
