//! [`Task`]: what one process does; [`Run`]: what it measured; [`Report`]: all of them.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thalweg_bench::Settings;
use thalweg_bench::engine::Description;
use thalweg_bench::report::{Machine, Usage};

/// The paper's directories, the greatest depth of one, and the files of each directory of the other workload.
const PAPER_DIRECTORIES: u64 = 50_000_000;
const PAPER_FILE_DIRECTORIES: u64 = 10_000;
pub const DIRECTORIES_DEPTH_MAX: u8 = 19;
pub const FILES_DEPTH_MAX: u8 = 12;
pub const FILES_EACH: u64 = 5_000;

/// One of the paper's two workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Directories are made in depth-first order, and then listed at random.
    Directories,
    /// Files are created in random order, and then queried at random.
    Files,
}

impl Workload {
    pub const ALL: [Workload; 2] = [Workload::Directories, Workload::Files];

    /// How many directories it has, at one part in `scale` of the paper's sizes.
    pub fn directories(self, scale: u64) -> u32 {
        let paper = match self {
            Workload::Directories => PAPER_DIRECTORIES,
            Workload::Files => PAPER_FILE_DIRECTORIES,
        };
        u32::try_from((paper / scale).max(1)).unwrap_or(u32::MAX)
    }
}

/// What a process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The engine.
    pub store: String,
    /// An empty folder.
    pub folder: PathBuf,
    /// What is run there.
    pub workload: Workload,
    /// How.
    pub parameters: Parameters,
}

/// What is the same for all processes of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// What the paper's sizes are divided by.
    pub scale: u64,
    /// How many rounds there are.
    pub rounds: u32,
    /// Of queries and listings, and before them.
    pub seconds: f64,
    pub ramp_seconds: f64,
    /// The engine's memory with its page cache.
    pub memory_limit: Option<u64>,
    /// The engine's settings.
    pub settings: Settings,
    pub seed: u64,
}

/// A part of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// `mkdir`, `list`, `create`, `query`; `settle` is what a load leaves to the background.
    pub name: String,
    /// How many operations.
    pub operations: u64,
    /// How many entries were listed.
    pub entries: u64,
    /// What they cost.
    pub usage: Usage,
}

/// One workload on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub store: String,
    pub workload: Workload,
    pub round: u32,
    pub description: Description,
    pub phases: Vec<Phase>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The commit that the program was built from: `THALWEG_COMMIT` at build time.
    pub commit: Option<String>,
    pub machine: Machine,
    pub parameters: Parameters,
    pub runs: Vec<Run>,
}
