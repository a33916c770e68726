//! Tests of tables as their users see them.

mod damaged;
mod disk;
mod golden;
mod model;
mod writing;
