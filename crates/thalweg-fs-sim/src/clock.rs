//! [`VirtualClock`]: the time of a volume and of its model, which moves between operations.

use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_fs::{Clock, Time};

/// A clock that stands still during an operation.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: AtomicU64,
}

impl VirtualClock {
    /// Advances the clock, and returns the new time.
    pub fn advance(&self) -> Time {
        self.now.fetch_add(1, Ordering::Relaxed);
        self.now()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        let now = self.now.load(Ordering::Relaxed);
        Time { seconds: i64::try_from(now / 1000).unwrap_or(0), nanoseconds: (now % 1000) as u32 }
    }
}

/// The clock of a volume, shared with the simulation.
pub struct SharedClock(pub std::sync::Arc<VirtualClock>);

impl Clock for SharedClock {
    fn now(&self) -> Time {
        self.0.now()
    }
}
