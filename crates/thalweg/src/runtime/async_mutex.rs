//! [`AsyncMutex`]: mutual exclusion among coroutines, held across awaits.

use super::environment::Environment;
use super::event::Event;
use std::sync::atomic::{AtomicBool, Ordering};

/// A mutex that at most one coroutine holds. It is not fair, which is enough for the few coroutines that compete.
#[derive(Debug, Default)]
pub(crate) struct AsyncMutex {
    is_locked: AtomicBool,
    unlocked: Event,
}

/// The lock, until dropped.
#[derive(Debug)]
pub(crate) struct AsyncMutexGuard<'a> {
    mutex: &'a AsyncMutex,
}

impl AsyncMutex {
    /// Waits for the lock.
    pub(crate) async fn lock(&self, environment: &Environment) -> AsyncMutexGuard<'_> {
        environment.until(&self.unlocked, || self.try_lock()).await
    }

    /// Waits for the lock, for a foreground caller.
    pub(crate) fn lock_blocking(&self, environment: &Environment) -> AsyncMutexGuard<'_> {
        environment.wait_until(&self.unlocked, || self.try_lock())
    }

    fn try_lock(&self) -> Option<AsyncMutexGuard<'_>> {
        let locked = self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // `then`, not `then_some`: dropping a guard that does not hold the lock would release it.
        locked.then(|| AsyncMutexGuard { mutex: self })
    }
}

impl Drop for AsyncMutexGuard<'_> {
    fn drop(&mut self) {
        self.mutex.is_locked.store(false, Ordering::Release);
        self.mutex.unlocked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_mutex_stays_locked_however_often_the_lock_is_tried() {
        let mutex = AsyncMutex::default();
        let guard = mutex.try_lock();
        assert!(guard.is_some());
        assert!(mutex.try_lock().is_none());
        assert!(mutex.try_lock().is_none());
        drop(guard);
        assert!(mutex.try_lock().is_some());
    }
}
