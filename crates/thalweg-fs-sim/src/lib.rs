//! A model of POSIX, random histories and crashes, against `thalweg-fs`.
//!
//! | module | holds |
//! |---|---|
//! | `model/` | [`Model`], a file system in memory, written from POSIX |
//! | `operation.rs` `answer.rs` | the operations of a history, and what they give |
//! | `pair.rs` | [`Pair`]: a volume and the model, compared |
//! | `memory/` | [`MemoryDisk`]: rows and objects in memory, with crashes |
//! | `histories.rs` | histories without crashes |
//! | `lives.rs` `evidence.rs` `ground.rs` | lives with crashes, and their judgement |
//!
//! One client does operations at a time: the locks of inodes are the standard library's, so several clients could not
//! wait for each other on the one thread of a simulation. The threads of `crates/thalweg-fs/tests/threads.rs` do that.

mod answer;
mod evidence;
mod ground;
mod histories;
mod lives;
mod memory;
mod model;
mod operation;
mod pair;

pub use histories::{Bed, run_history};
pub use lives::{Ground, run_lives};
pub use memory::{End, MemoryDisk};
pub use model::Model;
pub use operation::{CALLERS, Histories, Operation};
pub use pair::{Applied, Pair, Tree, check};

use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_fs::{Clock, Time};

/// A clock that stands still during an operation.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: AtomicU64,
}

impl VirtualClock {
    /// The next moment.
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

/// The clock of a volume, which is shared.
pub struct SharedClock(pub std::sync::Arc<VirtualClock>);

impl Clock for SharedClock {
    fn now(&self) -> Time {
        self.0.now()
    }
}

/// Runs lives in memory.
///
/// # Errors
/// The first violation.
pub fn run_memory(seed: u64, says: bool) -> Result<(), String> {
    let clock = std::sync::Arc::new(VirtualClock::default());
    let mut disk = MemoryDisk::new(seed, false, &clock);
    run_lives(seed, &mut disk, &clock, says)
}
