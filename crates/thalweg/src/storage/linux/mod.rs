//! The operating system's files, as a [`crate::storage::Storage`].
//!
//! It relies on these properties of Linux:
//! - `fdatasync` makes contents *and length* durable. POSIX and Linux write with it all metadata that is needed to read
//!   the data back, and a grown length is such metadata (ext4: `i_datasync_tid`). Only times are left out.
//! - A name is durable after an `fsync` of its directory.
//! - A failed sync is reported once per open file description, so every `open` makes a new description.
//! - Direct reads (`O_DIRECT`) come from the medium; see `direct.rs`.
//!
//! Each call carries its position. Only `lock.rs` has a lock.
//!
//! Files, in reading order:
//! - `storage.rs`: [`LinuxStorage`];
//! - `file.rs`, `direct.rs`: files through the page cache, and files that bypass it; `calls.rs`: what both need;
//! - `page_cache.rs`: what the page cache has of a file, and its write-back;
//! - `extents.rs`: whether the blocks of a file were written;
//! - `journal.rs`: whether a file system has one journal, and its commits;
//! - `lock.rs`: the advisory lock on a database;
//! - `memory.rs`: how much memory and address space there is; `heap.rs`: the allocator's free memory;
//! - `mapping.rs`, `read_mapping.rs`: files mapped for stores and for reads; `sigbus.rs`: pages that cannot be read.

mod calls;
mod direct;
mod extents;
mod file;
mod heap;
mod journal;
mod lock;
mod mapping;
mod memory;
mod page_cache;
mod read_mapping;
mod sigbus;
mod storage;

pub use storage::LinuxStorage;
