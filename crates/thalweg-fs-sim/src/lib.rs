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
//! | `engine.rs` `engine_objects.rs` | the engine and objects on the simulated disk |
//! | `bugs.rs` | planted bugs, and what catches them |
//! | `hooked.rs` | [`HookedObjects`], for tests of races |
//! | `clock.rs` | the time of volume and model |
//!
//! One client executes operations at a time. The locks of inodes are the standard library's, so on the one thread of a
//! simulation several clients could not wait for each other. `tests/threads.rs` tests with threads.

mod answer;
mod bugs;
mod clock;
mod engine;
mod engine_objects;
mod evidence;
mod ground;
mod histories;
mod hooked;
mod lives;
mod memory;
mod model;
mod operation;
mod pair;

pub use bugs::{Catch, catch_bug};
pub use clock::{SharedClock, VirtualClock};
pub use engine::EngineGround;
pub use ground::Ground;
pub use histories::{Bed, run_history};
pub use hooked::{HookedObjects, ObjectCall};
pub use lives::run_lives;
pub use memory::{End, MemoryDisk};
pub use model::Model;
pub use operation::{CALLERS, Histories, Operation};
pub use pair::{Applied, Pair, Tree, check, check_totals};

/// Runs lives in memory.
///
/// # Errors
/// The first violation.
pub fn run_memory(seed: u64, says: bool) -> Result<(), String> {
    let clock = std::sync::Arc::new(VirtualClock::default());
    let mut disk = MemoryDisk::new(seed, false, &clock);
    run_lives(seed, &mut disk, &clock, says)
}

/// Runs lives on the engine, on the simulated disk.
///
/// # Errors
/// The first violation.
pub fn run_engine(seed: u64, says: bool) -> Result<(), String> {
    let clock = std::sync::Arc::new(VirtualClock::default());
    let mut ground = EngineGround::new(seed, &clock);
    run_lives(seed, &mut ground, &clock, says)
}
