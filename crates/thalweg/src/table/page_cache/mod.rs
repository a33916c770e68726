//! How tables use the kernel's page cache (`docs/io.md`).

pub(super) mod direct_fds;
pub(super) mod mapping;
pub(super) mod recent_reads;
pub(super) mod warming;
pub(super) mod write_through;
