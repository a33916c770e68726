//! An engine for tests of other modules.

pub(crate) mod model;
