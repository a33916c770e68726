//! [`Figure14`]: the command line.

use crate::volume::STORES;
use std::path::PathBuf;
use thalweg_bench::Tuning;
use thalweg_bench::command::amount;

/// Measure a file system's metadata on several engines: figure 14 of the `PhatKV` paper
#[derive(Debug, clap::Parser)]
#[command(
    name = "figure14",
    after_help = "Example:
  thalweg-peers figure14 --directory /mnt/data --scale 1/50 --rounds 3 --json figure14.json"
)]
pub struct Figure14 {
    /// Where the volumes lie: an existing directory [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
    /// The engines, in the order of their turns
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = STORES, value_parser = store)]
    pub(super) stores: Vec<String>,
    /// The part of the paper's sizes: 1/10, 1/50
    #[arg(long, value_name = "PART", value_parser = part, default_value = "1/10")]
    pub(super) scale: u64,
    /// Rounds, in each of which every engine has its turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "3")]
    pub(super) rounds: u32,
    /// Seconds of queries and of listings
    #[arg(long, value_name = "S", value_parser = amount::some_seconds, default_value = "10")]
    pub(super) seconds: f64,
    /// Seconds of queries and of listings before those that are measured
    #[arg(long, value_name = "S", value_parser = amount::seconds, default_value = "5")]
    pub(super) ramp: f64,
    /// Memory that an engine and its page cache may have
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub(super) memory_limit: Option<u64>,
    /// Each engine's block cache [default: the tuning's]
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub(super) cache: Option<u64>,
    /// Where settings that are not given come from
    #[arg(long, value_enum, default_value_t)]
    pub(super) tuning: Tuning,
    /// Choose one workload: `directories` or `files`
    #[arg(long, value_enum)]
    pub(super) only: Option<super::task::Workload>,
    /// Where random numbers begin
    #[arg(long, value_name = "N", default_value_t = 14)]
    pub(super) seed: u64,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Print the tables of reports that `--json` wrote as Markdown, and measure nothing
    #[arg(long, value_name = "FILES", value_delimiter = ',', conflicts_with = "json")]
    pub(super) from: Vec<PathBuf>,
    /// Carry out one workload on one engine, as standard input says
    #[arg(long, hide = true)]
    pub(super) worker: bool,
}

fn store(text: &str) -> Result<String, String> {
    if STORES.contains(&text) { Ok(text.to_owned()) } else { Err(format!("choose from {}", STORES.join(", "))) }
}

/// The number that the sizes are divided by.
fn part(text: &str) -> Result<u64, String> {
    let divisor = text.strip_prefix("1/").unwrap_or(text).parse().ok();
    divisor.filter(|divisor| (1..=10_000).contains(divisor)).ok_or_else(|| "write 1/10 or 1/50".to_owned())
}
