//! Tests of tasks in execution (`executing`), and what tests of other modules need of them (`fake`).

mod executing;
pub(crate) mod fake;
