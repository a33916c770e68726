//! One engine and one round in a process of its own, so that its memory, CPU and I/O can be measured alone.
//!
//! The parent starts its own executable with the words of [`Host::worker`], writes a [`Task`] as one line of JSON to
//! its standard input, and reads [`Event`]s, one line of JSON each, from its standard output. Standard error passes
//! through. A worker dies with its parent, and a parent that gives up kills its worker.
//!
//! - `parent`: starts and follows a worker
//! - `worker`: the worker's side
//! - `execute`: the steps of a task
//! - `database`: the worker's database: emptied, opened, drained, closed
//! - `peaks`: the greatest values of an engine's gauges
//! - `outcome`: the measurements of a step, as a run of the report

use crate::driver::Progress;
use crate::engine::{Description, Factory};
use crate::parameters::Parameters;
use crate::plan::Pace;
use crate::report::{Run, Sustained};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

mod database;
mod execute;
mod outcome;
mod parent;
mod peaks;
#[cfg(test)]
pub(crate) mod tests;
mod worker;

pub use execute::execute;
pub use parent::start;
pub use worker::work;

/// The program that contains the instrument.
pub struct Host {
    /// The words before a workload on the command line: `thalweg bench`.
    pub command: &'static str,
    /// The arguments that make the program's executable a worker: `bench worker`.
    pub worker: &'static [&'static str],
    /// The engines that the program can open.
    pub factories: &'static [&'static dyn Factory],
    /// The engines that run when none is named.
    pub engines: &'static [&'static str],
}

/// The task of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The name in reports of the engine, or of a variant of it. `parameters` has the variant's settings.
    pub engine: String,
    /// The round, from 1.
    pub round: u32,
    /// An empty directory for the database. The worker leaves what it wrote; the parent removes it.
    pub directory: PathBuf,
    /// The parameters of the run.
    pub parameters: Parameters,
}

/// A message of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The engine is open.
    Opened(Description),
    /// A step begins.
    Step {
        /// The number of the step, from 1.
        number: usize,
        /// The number of all steps.
        count: usize,
        /// The workload.
        workload: String,
        /// How operations follow each other.
        pace: Pace,
        /// The activity: `warming`, `loading`, `running`, `searching`, `draining`, `again: 7 % foreign CPU`.
        doing: String,
    },
    /// How far the step is.
    Progress(Progress),
    /// A step, or an attempt at it, was run.
    Run(Box<Run>),
    /// A search found the rate.
    Sustained(Sustained),
    /// A note for the user: one sentence.
    Note(String),
    /// The task failed, for this reason.
    Failed(String),
    /// All steps were run.
    Done,
}
