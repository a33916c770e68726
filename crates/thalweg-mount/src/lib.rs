//! Mounts a volume of `thalweg-fs` by FUSE.
//!
//! - `options.rs`: [`MountOptions`], and what the kernel is asked for.
//! - `serve.rs`: answers the kernel's requests; `daemon.rs`: what all answers share.
//! - `listing.rs`: lists directories.
//! - `opening.rs`: opens and closes files; `passthrough.rs`: which of them the kernel reads and writes by itself.
//! - `waiting.rs`: operations that may wait for the device, on the threads of `pool.rs`; `turns.rs`: which
//!   threads stay free on a full disk.
//! - `convert.rs`: converts between the types of the volume and those of `fuser`.
//! - `session.rs`: [`mount`]: from the mount to the end of it.
//! - `background.rs`: calls the volume's background work.
//! - `operations.rs`, `report.rs`: what was asked of a volume, and what tools are told.
//! - `control.rs`: the socket by which tools reach a mounted volume.
//! - `daemon_log.rs`: what the daemon says.
//! - `place.rs`: checks of volume and mount point, and dead mounts.
//!
//! `fuser` is pinned, and no other crate of the project knows it.

mod background;
mod control;
mod convert;
mod daemon;
mod daemon_log;
mod listing;
mod opening;
mod operations;
mod options;
mod passthrough;
mod place;
mod pool;
mod report;
mod serve;
mod session;
mod turns;
mod waiting;

pub use control::{ask, ask_with, wait_for_end};
pub use options::{ListAttributes, MountOptions, UnknownOption};
pub use place::{Mounted, ask_to_end, find_mount, unmount};
pub use report::{check_as_json, counts};
pub use session::mount;
