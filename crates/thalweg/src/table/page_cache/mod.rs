//! How tables use the kernel's page cache: which tables it gets (`docs/io.md`), and which reads go through it
//! (`docs/reads.md`).
//!
//! Nothing here is needed for correctness. A table never changes, so every way to its bytes gives the same bytes.
//!
//! - `write_through`: whether a new table is written through the page cache
//! - `write_back`: whether such a table is all on the device
//! - `probe`: whether the page cache keeps what it was given
//! - `room`: whether it has room for all tables, or for more of them than it has
//! - `recent_reads`: which pieces of a table were read past the page cache recently
//! - `direct_fd_pool`: second descriptors of tables, for reads past the page cache
//! - `warming`: the coroutine that reads tables into the page cache and drops the pages of replaced tables
//! - `block_buffer`: the reused memory that blocks of a mapping are copied to
//! - `mapping`: mapped tables
//! - `state`: all of these for one database

pub(super) mod block_buffer;
pub(super) mod direct_fd_pool;
pub(super) mod mapping;
pub(super) mod probe;
pub(super) mod recent_reads;
pub(super) mod room;
pub(super) mod state;
pub(super) mod warming;
pub(super) mod write_back;
pub(super) mod write_through;
