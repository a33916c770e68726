//! Stand-ins for the tests of cursors.

pub(crate) mod fake;
