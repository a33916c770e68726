//! Background coroutines, and how foreground calls wait: the scheduling seam.
//!
//! Background work is `async fn`, spawned on a [`Scheduler`]. Foreground calls are plain functions. A foreground call
//! that must wait does so on an [`Event`] through [`Environment::wait_until`], and nowhere else. In production a
//! [`Scheduler`] is worker threads and a wait is a futex. In simulation it is one thread with a seeded choice of what
//! runs next, and a wait runs other clients and background steps until the waiting client may continue.
//!
//! No lock may be held across an `.await`, an [`Environment::wait_until`] or an [`Environment::point`].
//!
//! Files, in reading order:
//! - `event.rs`: [`Event`], which threads and coroutines wait for;
//! - `scheduler.rs`: [`Scheduler`], [`Lane`], [`Point`]; `environment.rs`: [`Environment`], all seams together;
//! - `threads.rs`: the production scheduler; `ring.rs`: its workers' io_uring; `affinity.rs`: binds workers to
//!   processors; `courtesy.rs`: when a worker leaves its processor to others;
//! - `scheduling.rs`: how compactions share workers;
//! - `shared.rs`, `tenant.rs`: one set of workers for several databases;
//! - `gate.rs`: [`Gate`], which bounds the background writes at the device;
//! - `file.rs`: [`BackgroundFile`]; `write_queue.rs`: the table writes of one worker;
//! - `read_ring.rs`: [`ReadRings`], several reads of one foreground call; `read_queue.rs`: [`ReadQueue`], reads of one
//!   thread; `worker_read.rs`: [`WorkerRead`], a read that a worker makes for a future;
//! - `async_mutex.rs`, `join_bounded.rs`: tools for coroutines;
//! - `background_error.rs`, `health.rs`: what fails in the background, and whether writes are accepted;
//! - `reserve.rs`, `space.rs`: what space the database may use.
//!
//! `tests/` has the tests of the file of the same name.

mod affinity;
mod async_mutex;
mod background_error;
mod courtesy;
mod environment;
mod event;
mod file;
mod gate;
mod health;
mod join_bounded;
mod read_queue;
mod read_ring;
mod reserve;
mod ring;
mod scheduler;
mod scheduling;
mod shared;
mod space;
mod tenant;
pub mod threads;
mod worker_read;
mod write_queue;

pub(crate) use async_mutex::AsyncMutex;
pub use background_error::BackgroundWork;
pub(crate) use background_error::{BackgroundError, LastError};
pub use environment::Environment;
pub use event::{Event, Ticket};
pub(crate) use file::{BackgroundDirectory, BackgroundFile};
pub(crate) use gate::Gate;
pub(crate) use health::Health;
pub(crate) use join_bounded::join_bounded;
pub(crate) use read_queue::ReadQueue;
pub(crate) use read_ring::{ForegroundRead, ReadRings};
pub(crate) use scheduler::yield_now;
pub use scheduler::{Lane, Point, Scheduler, Task};
pub use scheduling::CompactionScheduling;
pub use shared::Runtime;
pub(crate) use space::{Room, Space};
pub(crate) use worker_read::{WorkerRead, read_on_worker};
pub(crate) use write_queue::{WriteQueue, WrittenFile, write_queue};
