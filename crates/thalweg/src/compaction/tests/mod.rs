//! Tests of policies and merges over stand-ins for tables, and those stand-ins.

pub(super) mod fakes;
mod golden;
pub(super) mod golden_cuts;
mod load;
mod session;
mod simulate;
