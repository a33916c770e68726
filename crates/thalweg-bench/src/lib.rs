//! The measuring instrument: workloads, closed and open loops, honest tail latency, and reports.
//!
//! The modules, from the bottom: `distribution` (chooses the next key), `workload` (chooses the next operation),
//! `engine` (the measured engines, behind one trait), `driver` (runs a workload and times it), `machine` (what the run
//! cost the machine), `process` (one engine, one round, one process of its own), `report` (shows and writes the
//! results), `preset` (the papers' experiments) and `command` (the command line that the `thalweg` command and the
//! peers share).
//!
//! A run, end to end: [`command::run`] makes [`Parameters`] from preset, file and flags. For each round and each engine
//! it starts a process with a [`process::Task`]. That process opens the engine and goes through the steps of the
//! [`plan`]. For each step it hands a [`workload::Workload`] to the [`driver`]; the measurements come back as a
//! [`report::Run`]. All runs make a [`report::Report`], which becomes a table, JSON and a page.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod command;
pub mod distribution;
pub mod driver;
pub mod engine;
mod error;
pub mod machine;
mod parameters;
pub mod plan;
pub mod preset;
pub mod process;
pub mod report;
mod settings;
pub mod workload;

pub use error::{Error, Result};
pub use parameters::{Arrival, Distribution, Parameters};
pub use settings::{Compression, Settings, TableIo, Tuning};
