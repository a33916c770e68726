//! Tests of tasks in execution, and what tests of other modules need of them.

mod executing;
pub(crate) mod fake;
