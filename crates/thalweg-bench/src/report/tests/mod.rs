//! Tests of what is printed, and reports made up for tests.

mod results;
pub(crate) mod sample;
mod tables;
