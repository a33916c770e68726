//! Tests of tables as their users see them.

mod damaged;
pub(super) mod disk;
mod foreground;
mod golden;
mod mapped;
mod model;
mod replaced;
mod writing;
