//! An engine for tests of other modules: `model`.

pub(crate) mod model;
