//! The command line. A flag that is not given changes nothing: `resolved` has the order of defaults, files and flags.

use super::amount;
use super::settings_args::SettingsArgs;
use crate::parameters::{Arrival, Distribution};
use std::path::PathBuf;

/// Run workloads, and measure what they do and what they cost
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    // Without this, clap calls a negative amount an unknown flag, with a misleading tip.
    allow_negative_numbers = true,
    after_help = "Examples:
  thalweg bench ycsb-a                           loads, then runs YCSB's workload A for ten seconds
  thalweg bench fillrandom readrandom --records 1M --value-bytes 100 --html run.html
  thalweg bench ycsb-b --find-max --at 60,80,95  how fast it can go, and the latency at shares of that
  thalweg bench ycsb-a --rate 10k,20k,40k --arrival poisson --json open.json
  thalweg bench fillrandom --engines thalweg,thalweg:table=2M   settings compared in one run
  thalweg bench --preset nob-e2 --scale 0.01     an experiment of a paper, with the paper's own table
  thalweg bench ycsb --rounds 3 --print-config > ycsb.toml
  thalweg bench --config ycsb.toml --json before.json
  thalweg bench compare before.json after.json
  thalweg bench report docs/results              a page of stored reports of one build

Sizes may be written 64M, 64MiB or 1G (1024s), counts and rates 10k or 1.5M (1000s).
What counts, from weak to strong: the workload's own defaults, --preset, --config, flags.
The databases lie in a directory of their own below --directory, and are removed at the end.
Exit codes: 0 done; 2 wrong usage, and nothing was run; 3 failed; 129, 130 and 143 stopped by a signal."
)]
pub struct Bench {
    #[command(subcommand)]
    pub(super) other: Option<Other>,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// The commands other than a run.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Other {
    /// List workloads, presets and engines
    List,
    Limits(Limits),
    Compare(Compare),
    Show(Show),
    Report(Results),
    /// Carry out one round of one engine, as standard input says
    #[command(hide = true)]
    Worker,
}

/// Measure what no engine can beat here: the device's reads, writes and syncs, and the copy of a record
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example:
  thalweg bench limits --directory /mnt/data --value-bytes 1000 --json limits.json"
)]
pub(super) struct Limits {
    /// Where the file lies that is written and read: an existing directory [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Size of that file
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes, default_value = "512M")]
    pub file: u64,
    /// Seconds of each measurement, at most
    #[arg(long, value_name = "S", value_parser = amount::some_seconds, default_value = "1")]
    pub seconds: f64,
    /// Size of a record's key
    #[arg(long, value_name = "SIZE", value_parser = amount::small_bytes, default_value = "16")]
    pub key_bytes: u32,
    /// Size of a record's value
    #[arg(long, value_name = "SIZE", value_parser = amount::small_bytes, default_value = "1000")]
    pub value_bytes: u32,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub colour: Colour,
}

/// Compare two stored reports: ratios of medians, with their spread
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  thalweg bench compare before.json after.json")]
pub(super) struct Compare {
    /// The report that is compared with
    #[arg(value_name = "A.json")]
    pub before: PathBuf,
    /// The report that is compared
    #[arg(value_name = "B.json")]
    pub after: PathBuf,
    #[command(flatten)]
    pub colour: Colour,
}

/// Print a stored report again, or make a page of it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  thalweg bench show run.json
  thalweg bench show run.json --html run.html")]
pub(super) struct Show {
    /// The report
    #[arg(value_name = "A.json")]
    pub report: PathBuf,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The engine that the others are compared with [default: the first]
    #[arg(long, value_name = "ENGINE")]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub colour: Colour,
}

/// Make a Markdown page of a directory of stored reports of one build
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  thalweg bench report docs/results --markdown docs/results.md

The directory holds the reports (*.json, written with --brief) and questions.toml, which says what each
of them answers. Reports of different commits or machines are refused.")]
pub(super) struct Results {
    /// The directory of the reports
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Write the page to a file [default: the standard output]
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// Whether the output has colours.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Colour {
    /// Colours in the output
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_value = "auto",
        default_missing_value = "always"
    )]
    pub color: When,
}

/// When the output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A run.
#[derive(Debug, Default, clap::Args)]
pub(super) struct RunArgs {
    /// Workloads, or families of them (`ycsb`, `metadata`), one after the other on one database; `bench list` has all
    #[arg(value_name = "WORKLOAD", value_delimiter = ',')]
    pub workloads: Vec<String>,
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub settings: SettingsArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where the parameters come from.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Where parameters come from")]
pub(super) struct SourceArgs {
    /// An experiment of a paper; `bench list` has all
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// A TOML file of parameters, as --print-config prints it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the parameters that would be run, as TOML, and stop
    #[arg(long)]
    pub print_config: bool,
}

/// The work to measure.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "What is done")]
pub(super) struct WorkArgs {
    /// Engines, interleaved; also variants with other settings, by the names of their flags: thalweg:backend=none
    #[arg(long, value_name = "ENGINE[:KEY=VALUE]…", value_delimiter = ',')]
    pub engines: Option<Vec<String>>,
    /// How often all of it is done; medians and spreads are over the rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Records that a load writes
    #[arg(long, value_name = "N", value_parser = amount::count)]
    pub records: Option<u64>,
    /// Operations of a step that is no load, all threads together
    #[arg(long, value_name = "N", value_parser = amount::count)]
    pub operations: Option<u64>,
    /// Seconds after which a step that is no load ends; 0: no limit [default: 10, if --operations is not given]
    #[arg(long, value_name = "S", value_parser = amount::seconds)]
    pub seconds: Option<f64>,
    /// Threads of a closed loop, workers of an open one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Size of a key
    #[arg(long, value_name = "SIZE", value_parser = amount::small_bytes)]
    pub key_bytes: Option<u32>,
    /// Size of a value
    #[arg(long, value_name = "SIZE", value_parser = amount::small_bytes)]
    pub value_bytes: Option<u32>,
    /// Entries of a directory, of the `metadata` workloads
    #[arg(long, value_name = "N", value_parser = amount::count)]
    pub directory_entries: Option<u64>,
    /// Entries that fills write at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: Option<u32>,
    /// Which keys are taken, where the workload leaves it open
    #[arg(long, value_name = "WHICH")]
    pub distribution: Option<Distribution>,
    /// Entries of the longest scan, where the workload leaves it open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub scan_entries_max: Option<u32>,
    /// Shares of operations, instead of the workload's own: get=95,update=5
    #[arg(long, value_name = "NAME=SHARE", value_delimiter = ',', value_parser = amount::mix_share)]
    pub mix: Option<Vec<(String, f64)>>,
    /// How much of a value compression can take away: 0 nothing, 0.5 half
    #[arg(long, value_name = "SHARE", value_parser = amount::share)]
    pub compressible: Option<f64>,
    /// Multiplies records and operations
    #[arg(long, value_name = "FACTOR", value_parser = amount::factor)]
    pub scale: Option<f64>,
    /// --scale also multiplies memtable, table, level 1 and cache
    #[arg(long)]
    pub scale_settings: bool,
    /// Seed of all that is random; round r takes seed + r
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
}

/// How operations follow each other.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Open loop: operations arrive at a rate, whether the engine is ready or not")]
pub(super) struct PaceArgs {
    /// Operations a second, one step for each rate
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = amount::rate)]
    pub rate: Option<Vec<f64>>,
    /// How operations arrive
    #[arg(long, value_name = "HOW")]
    pub arrival: Option<Arrival>,
    /// Search for the highest rate that the engine sustains
    #[arg(long)]
    pub find_max: bool,
    /// After the search: run at these percentages of what it found
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = amount::percent)]
    pub at: Option<Vec<f64>>,
    /// Seconds of one probe of the search
    #[arg(long, value_name = "S", value_parser = amount::some_seconds)]
    pub probe_seconds: Option<f64>,
    /// Attempts in all at a step while other processes disturb it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub attempts: Option<u32>,
}

/// The machine to measure on.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "The machine")]
pub(super) struct MachineArgs {
    /// Where the databases go: an existing directory [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Leave the databases there
    #[arg(long)]
    pub keep: bool,
    /// Memory for the engine's process, page cache included (a memory control group: needs root)
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub memory_limit: Option<u64>,
    /// Begin with cold memory
    #[arg(long)]
    pub no_warm: bool,
    /// Seconds that a step which is no load runs before it is measured [default: 1]
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_warm")]
    pub ramp: Option<f64>,
    /// Seconds of idleness after a step that writes, before bytes and space are looked at [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub rest: Option<f64>,
}

/// Where results go.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Results")]
pub(super) struct OutputArgs {
    /// Write the whole report; docs/bench/json.md has its fields
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Leave out of --json preparations and what only plots need: series, samples and distributions
    #[arg(long, requires = "json")]
    pub brief: bool,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The engine that the others are compared with [default: the first]
    #[arg(long, value_name = "ENGINE")]
    pub baseline: Option<String>,
    /// No progress
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    pub colour: Colour,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    fn parse(words: &[&str]) -> Result<Bench, String> {
        Line::try_parse_from([&["bench"], words].concat()).map(|line| line.bench).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn workloads_are_separated_by_spaces_or_commas() {
        let run = parse(&["fillseq,fillrandom", "ycsb-a", "--threads", "4"]).unwrap().run;
        assert_eq!(run.workloads, ["fillseq", "fillrandom", "ycsb-a"]);
        assert_eq!((run.work.threads, run.work.records), (Some(4), None));
    }

    #[test]
    fn a_word_of_a_subcommand_is_no_workload() {
        assert!(matches!(parse(&["list"]).unwrap().other, Some(Other::List)));
        assert!(matches!(parse(&["compare", "a", "b"]).unwrap().other, Some(Other::Compare(_))));
        assert!(parse(&["compare", "a"]).is_err());
    }

    #[test]
    fn limits_are_measured_with_sizes_and_times_of_their_own() {
        let Some(Other::Limits(limits)) = parse(&["limits", "--file", "64M", "--seconds", "0.5"]).unwrap().other else {
            panic!("no measurement of limits");
        };
        assert_eq!((limits.file, limits.seconds, limits.key_bytes, limits.value_bytes), (64 << 20, 0.5, 16, 1000));
        assert!(parse(&["limits", "--seconds", "0"]).is_err());
    }

    #[test]
    fn colours_are_forced_by_a_bare_flag() {
        let colour = |words: &[&str]| match parse(words).unwrap().other {
            Some(Other::Compare(compare)) => compare.colour.color,
            _ => panic!("not a comparison"),
        };
        assert_eq!(colour(&["compare", "a", "b"]), When::Auto);
        assert_eq!(colour(&["compare", "--color", "a", "b"]), When::Always);
        assert_eq!(colour(&["compare", "a", "b", "--color=never"]), When::Never);
    }

    #[test]
    fn amounts_are_read_with_their_units() {
        let run = parse(&["ycsb-a", "--memtable", "64M", "--rate", "10k,20k", "--mix", "get=50,put=50"]).unwrap().run;
        assert_eq!(run.settings.memtable, Some(64 << 20));
        assert_eq!(run.pace.rate, Some(vec![1e4, 2e4]));
        assert_eq!(run.work.mix, Some(vec![("get".into(), 50.0), ("put".into(), 50.0)]));
        let refused = parse(&["ycsb-a", "--memtable", "64X"]).unwrap_err();
        assert!(refused.contains("--memtable") && refused.contains("is no unit of bytes"), "{refused}");
    }

    #[test]
    fn a_negative_amount_is_refused_for_what_it_is() {
        for (flag, words) in [("--debt", "negative"), ("--seconds", "negative"), ("--threads", "1..=1024")] {
            let refused = parse(&["ycsb-a", flag, "-1"]).unwrap_err();
            assert!(refused.contains(flag) && refused.contains(words) && !refused.contains("tip:"), "{refused}");
        }
        assert!(parse(&["limits", "--file", "-1"]).unwrap_err().contains("negative"));
    }
}
