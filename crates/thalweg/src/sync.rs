//! [`Mutex`], [`RwLock`], [`Condvar`]: locks whose operations cannot fail.
//!
//! The standard library *poisons* a lock when a thread panics while it holds the lock: every later `lock` is an error.
//! These types give the lock all the same. A panic under a lock is a bug of the engine; where it may have broken an
//! invariant, the owner of the state refuses writes ([`crate::Error::Poisoned`]).
//!
//! In a model check (`--cfg loom`) these are loom's locks, which only exist inside of a model.

#[cfg(all(test, loom))]
use loom::sync as locks;
#[cfg(not(all(test, loom)))]
use std::sync as locks;

pub(crate) use locks::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// A mutual exclusion lock.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(locks::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub(crate) fn new(value: T) -> Self {
        Mutex(locks::Mutex::new(value))
    }

    /// Blocks this thread until it has the lock.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if no thread holds it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A lock for many readers or one writer.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(locks::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub(crate) fn new(value: T) -> Self {
        RwLock(locks::RwLock::new(value))
    }

    /// Blocks this thread until no writer has the lock.
    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks this thread until nobody else has the lock.
    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition variable, for guards of a [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(locks::Condvar);

impl Condvar {
    /// Releases the lock, blocks this thread until a notification, and takes the lock again. May end earlier.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Condvar::wait`], for `timeout` at most.
    pub(crate) fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one thread that waits.
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_a_lock_does_not_take_the_lock_away() {
        let (mutex, rw) = (Mutex::new(1), RwLock::new(2));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guards = (mutex.lock(), rw.write());
            panic!("under both locks");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 1);
        assert_eq!(*rw.read(), 2);
        assert_eq!(*rw.write(), 2);
        let guard = mutex.try_lock();
        assert!(guard.is_some() && mutex.try_lock().is_none());
    }
}
