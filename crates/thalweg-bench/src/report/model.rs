//! [`Report`]: the contents of a JSON file. Field names are the schema that `docs/bench/json.md` documents; they are
//! stable within a schema number. Names of times have their unit; bytes are bytes.

use crate::engine::{Counters, Description};
use crate::parameters::Parameters;
use crate::plan::{Limit, Pace};
use crate::workload::Class;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All runs of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this schema: 1.
    pub schema: u32,
    /// Version of the instrument.
    pub version: String,
    /// The commit that the program was built from: `THALWEG_COMMIT` at build time; `None`: it was not set.
    #[serde(default)]
    pub commit: Option<String>,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The exact command.
    pub command: String,
    /// The preset, if one was named.
    pub preset: Option<String>,
    /// Where it ran.
    pub machine: Machine,
    /// The parameters, everything filled in.
    pub parameters: Parameters,
    /// The engines.
    pub engines: Vec<Description>,
    /// Every step of every round of every engine, in the order they ran.
    pub runs: Vec<Run>,
    /// The time that the instrument itself adds to an operation in a closed loop, without workload and engine, in
    /// nanoseconds. It is measured on the null engine when the run begins.
    #[serde(default)]
    pub overhead_ns: Option<f64>,
    /// The sustained rates that searches found.
    pub sustained: Vec<Sustained>,
    /// The paper's own figures, for a preset.
    pub paper: Option<Paper>,
    /// Notes on these runs, a sentence each: what is missing and why, what could not be done.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Report {
    /// Returns the report without preparations and without data that only plots need: series, samples, individual
    /// stalls, distributions.
    pub fn brief(mut self) -> Report {
        self.runs.retain(|run| !run.preparation);
        for run in &mut self.runs {
            run.series.clear();
            run.intervals.clear();
            run.samples.clear();
            run.stall_periods.clear();
            let latencies = run.latency.values_mut().chain(&mut run.lateness);
            latencies.for_each(|latency| latency.cdf.clear());
        }
        self
    }
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The file system of the database: type and mount options.
    pub file_system: String,
    /// The block device of the file system; `None`: none is visible.
    pub device: Option<String>,
    /// Its read-ahead in KiB.
    pub read_ahead_kb: Option<u64>,
}

/// One step of one round of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The engine's name.
    pub engine: String,
    /// The round, from 1.
    pub round: u32,
    /// The attempt, from 1; of the attempts at a round the quietest counts.
    pub attempt: u32,
    /// The workload's name.
    pub workload: String,
    /// Whether the step was run only to load data that another step needs.
    pub preparation: bool,
    /// Closed, or open at a rate.
    pub pace: Pace,
    /// When the step was to end.
    pub limit: Limit,
    /// Threads or workers.
    pub threads: u32,
    /// Records of the dataset.
    pub records: u64,
    /// Seconds from the first start to the last end.
    pub seconds: f64,
    /// Operations.
    pub operations: u64,
    /// Operations a second.
    pub operations_per_second: f64,
    /// Reads that found nothing.
    pub missing: u64,
    /// Operations of background clients (the writer of `readwhilewriting`).
    pub background_operations: u64,
    /// Bytes of keys and values given to the engine.
    pub user_written_bytes: u64,
    /// Bytes of keys and values that the engine returned.
    pub user_read_bytes: u64,
    /// Page faults of the clients' threads, minor and major: the clients' cost of fresh or protected memory.
    #[serde(default)]
    pub client_faults: u64,
    /// Latency by class of operation.
    pub latency: BTreeMap<Class, Latency>,
    /// Open loop: how late waiting workers began; the instrument itself adds this time to latencies.
    pub lateness: Option<Latency>,
    /// Open loop: how late the last operation started.
    pub behind_ns: u64,
    /// Open loop: arrivals that were never executed, because the engine fell so far behind that the workers gave up the
    /// run.
    #[serde(default)]
    pub abandoned: u64,
    /// Each second.
    pub series: Vec<Second>,
    /// Each 100 ms; empty for runs of more than 30 s.
    #[serde(default)]
    pub intervals: Vec<Second>,
    /// Periods in which nothing was completed.
    pub stalls: Stalls,
    /// When the stalls were, in order of time; of more than 200 the longest.
    #[serde(default)]
    pub stall_periods: Vec<StallPeriod>,
    /// Memory and I/O while it ran.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// The cost from the start to the end of the last operation.
    pub usage: Usage,
    /// The total cost, from the same start until everything written is synced and no flush or compaction is due. `None`
    /// for steps that write nothing.
    pub drained: Option<Usage>,
    /// Seconds that draining took; `None`: not drained, or the engine cannot wait for it.
    pub drain_seconds: Option<f64>,
    /// Bytes on disk of the database afterwards.
    pub space_bytes: u64,
    /// The same by kind of file: the names' endings, `table`, `log`.
    #[serde(default)]
    pub space_by_kind: BTreeMap<String, u64>,
    /// The bytes of replaced tables among them, which are about to be freed; `None`: the engine does not report them.
    #[serde(default)]
    pub replaced_bytes: Option<u64>,
    /// Whether other processes took more than 5 % of the processors' time; then the latencies do not count.
    pub noisy: bool,
}

/// Latencies of one class of operation, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th.
    pub p99_ns: u64,
    /// 99.9th.
    pub p999_ns: u64,
    /// 99.99th.
    pub p9999_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// The distribution: (nanoseconds, share of operations that took at most this long), rising; at most 200 points,
    /// denser towards the tail.
    pub cdf: Vec<(u64, f64)>,
}

/// One stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallPeriod {
    /// When it began, from the run's start.
    pub from_ms: u64,
    /// How long it took.
    pub ms: u64,
}

/// Memory and I/O at one moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The moment, from the run's start.
    pub ms: u64,
    /// Resident memory of the process.
    pub rss_bytes: u64,
    /// The part of the resident memory that is mapped files: page cache, which the kernel can reclaim.
    pub mapped_bytes: u64,
    /// Page cache of the process's memory control group, mapped files included; `None`: the process has no own group.
    pub page_cache_bytes: Option<u64>,
    /// Bytes read since the start: by the block device or, if none is visible, from storage for the process.
    pub read_bytes: u64,
    /// Bytes written since the start, counted by the same.
    pub written_bytes: u64,
}

/// One second of a run, or a tenth of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Operations completed in it.
    pub operations: u64,
    /// Their median, in nanoseconds.
    pub p50_ns: u64,
    /// Their 99th percentile.
    pub p99_ns: u64,
    /// Their longest.
    pub max_ns: u64,
}

/// Periods in which no operation was completed, seen through slots of 10 ms: a stall is 50 ms or longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// How long in all.
    pub total_ms: u64,
    /// The longest period without a completed operation, also one shorter than a stall.
    pub longest_ms: u64,
    /// Whole seconds of the series without an operation.
    pub zero_seconds: u64,
}

/// The cost of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds it covers.
    pub seconds: f64,
    /// Processors.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Input and output.
    pub io: Io,
    /// The engine's own counts.
    pub counters: Counters,
    /// The greatest observed values of the engine's gauges (`retained_bytes`), read each 100 ms.
    #[serde(default)]
    pub peaks: BTreeMap<String, u64>,
    /// The gauges at the end.
    #[serde(default)]
    pub gauges: BTreeMap<String, u64>,
}

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Of the engine's process, in user mode.
    pub user_seconds: f64,
    /// Of the engine's process, in the kernel.
    pub system_seconds: f64,
    /// Of kernel threads: writeback, journal, loop device. Not the run's alone.
    pub kernel_threads_seconds: f64,
    /// Of all other processes, and stolen by the host: percent of all processors' time.
    pub foreign_percent: f64,
    /// Stolen by the host: percent of all processors' time; part of `foreign_percent`.
    pub steal_percent: f64,
}

/// Memory of the engine's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident at the end.
    pub rss_bytes: u64,
    /// Resident at most during the run.
    pub peak_bytes: u64,
    /// The part of the memory resident at the end that is mapped files; 0 in files of older versions.
    #[serde(default)]
    pub mapped_bytes: u64,
}

/// Input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// The kernel's counters for the process (`/proc/self/io`).
    pub process: ProcessIo,
    /// The block device's counters; `None`: no device is visible. They include the I/O of other processes.
    pub device: Option<DeviceIo>,
}

/// `/proc/self/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessIo {
    /// Bytes fetched from storage for the process.
    pub read_bytes: u64,
    /// Bytes that the process caused to be written to storage, counted when pages become dirty.
    pub written_bytes: u64,
    /// Bytes that the process read through system calls.
    pub read_call_bytes: u64,
    /// Bytes that the process wrote through system calls.
    pub write_call_bytes: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Write calls.
    pub write_calls: u64,
}

/// `/sys/dev/block/…/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceIo {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes of its write cache.
    pub flushes: u64,
    /// Milliseconds in which the device had any operation in flight; 0 in files of older versions.
    #[serde(default)]
    pub busy_ms: u64,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// The engine.
    pub engine: String,
    /// The round.
    pub round: u32,
    /// The workload.
    pub workload: String,
    /// Operations a second that the engine kept up with.
    pub rate: f64,
    /// Each probe: the offered operations a second, and whether the engine kept up.
    pub probes: Vec<(f64, bool)>,
}

/// A paper's own figures; the report shows them beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paper {
    /// The number of the experiment on the checklist, and its figure or table: `NOB-E2, figure 4`.
    pub source: String,
    /// The title of the experiment.
    pub title: String,
    /// The differences to the paper's experiment.
    pub differs: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<PaperRow>,
}

/// One row of a paper's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperRow {
    /// The name of the figure.
    pub name: String,
    /// A figure for each column, as printed.
    pub cells: Vec<String>,
}
