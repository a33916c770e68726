//! Helpers of the tests of the workloads.

pub(in crate::workload) mod exercise;
