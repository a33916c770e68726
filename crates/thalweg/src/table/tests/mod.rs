//! Tests of tables as their users see them.
//!
//! `disk`, `bench` and `entries` are what they stand on.

pub(super) mod bench;
mod caching;
mod damaged;
pub(super) mod disk;
pub(super) mod entries;
mod foreground;
mod golden;
mod mapped;
mod model;
mod replaced;
mod writing;
