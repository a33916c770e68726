//! [`Lifecycle`]: whether a keyspace, or one generation of it, was dropped or cleared.
//!
//! It is shared by everything that has a route to the keyspace, so that a late writer or job finds out.

use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// No new jobs begin; running ones give up.
    dropped: AtomicBool,
    /// Another generation has taken its place. Only older snapshots read this one.
    cleared: AtomicBool,
    /// Nobody may read it.
    emptied: AtomicBool,
}

impl Lifecycle {
    /// Refuses reads and writes from now on.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::SeqCst);
    }

    /// Refuses writes from now on. Reads go on until [`Lifecycle::set_emptied`].
    pub(crate) fn set_cleared(&self) {
        self.cleared.store(true, Ordering::SeqCst);
        self.set_dropped();
    }

    /// Refuses reads from now on. Called before the contents are released.
    pub(crate) fn set_emptied(&self) {
        self.emptied.store(true, Ordering::SeqCst);
    }

    /// Whether it was dropped, or cleared.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Whether it was cleared: then the registry has the next generation, unless that was dropped.
    pub(crate) fn is_cleared(&self) -> bool {
        self.cleared.load(Ordering::SeqCst)
    }

    /// Whether it may still be read.
    pub(crate) fn is_readable(&self) -> bool {
        !self.is_dropped() || (self.is_cleared() && !self.emptied.load(Ordering::SeqCst))
    }
}
