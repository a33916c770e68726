//! What the tests of the workloads share.

pub(in crate::workload) mod exercise;
