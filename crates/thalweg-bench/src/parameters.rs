//! [`Parameters`]: all parameters of a run, from a preset, a TOML file and the command line.
//!
//! `scale` multiplies the numbers of records and operations, and, with `scale_settings`, the sizes of the engines'
//! parts. Lower bounds keep enough of each to measure.

use crate::settings::Settings;
use serde::{Deserialize, Serialize};

/// How operations arrive in an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// At equal distances.
    #[default]
    Uniform,
    /// At random, the distances exponentially distributed.
    Poisson,
}

/// Which of the existing keys an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Each as likely as any other.
    Uniform,
    /// YCSB's scrambled zipfian, constant 0.99.
    Zipfian,
    /// The newer, the likelier: zipfian over the distance from the last inserted.
    Latest,
}

/// The parameters of a run. `None`: the workload's own default, see `bench list` and `docs/bench.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Parameters {
    /// The workloads, one after the other on one database.
    pub workloads: Vec<String>,
    /// The engines, interleaved; a variant with other settings as `--engines` names it: `thalweg:backend=none`.
    pub engines: Vec<String>,
    /// How often all workloads are run.
    pub rounds: u32,
    /// Records that a load writes.
    pub records: Option<u64>,
    /// Operations of a step, all threads together.
    pub operations: Option<u64>,
    /// Seconds after which a step that is no load ends, whatever it has done; 0: no limit.
    pub seconds: Option<f64>,
    /// Threads of a closed loop, or workers of an open one.
    pub threads: u32,
    /// Bytes of a key.
    pub key_bytes: Option<u32>,
    /// Bytes of a value.
    pub value_bytes: Option<u32>,
    /// Entries of a directory (`metadata`).
    pub directory_entries: Option<u64>,
    /// Entries written at once by fills.
    pub batch: u32,
    /// Which keys are taken, if the workload leaves this open.
    pub distribution: Option<Distribution>,
    /// Entries of the longest scan, if the workload leaves this open.
    pub scan_entries_max: Option<u32>,
    /// Shares of operations that replace the workload's own, in percent or any unit: `get = 50`, `put = 50`.
    pub mix: std::collections::BTreeMap<String, f64>,
    /// How much of a value compression can take away: 0 nothing, 0.5 half.
    pub compressible: f64,
    /// Multiplies records and operations.
    pub scale: f64,
    /// `scale` also multiplies the engines' sizes (memtable, table, level 1, cache), so that a small database is as
    /// deep as the large one was.
    pub scale_settings: bool,
    /// Open loop: operations a second, one step for each rate. Empty: closed loop.
    pub rates: Vec<f64>,
    /// Open loop: how operations arrive.
    pub arrival: Arrival,
    /// Search for the highest rate that the engine sustains before the runs at percentages of it.
    pub find_max: bool,
    /// Open loop: percentages of the sustained rate to run at, after the search.
    pub percentages: Vec<f64>,
    /// Seconds of one probe of the search.
    pub probe_seconds: f64,
    /// Attempts in all at an open-loop step while other processes disturb it.
    pub attempts: u32,
    /// Bytes of memory, page cache included, that the engine's process may have (a memory control group).
    pub memory_limit: Option<u64>,
    /// Touch memory, and fill the control group's page cache, before the clock starts.
    pub warm: bool,
    /// Seconds that a step which is no load runs before it is measured, if `warm`. Caches fill, and the kernel provides
    /// memory that the engine has not touched yet.
    pub ramp_seconds: f64,
    /// Seconds that an engine is left alone after it was drained, before its bytes and space are measured: its own work
    /// while it is idle counts, too.
    pub rest_seconds: f64,
    /// Seed of all that is random; round r uses seed + r.
    pub seed: u64,
    /// How the engines are tuned.
    pub settings: Settings,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            workloads: Vec::new(),
            engines: vec!["thalweg".into()],
            rounds: 1,
            records: None,
            operations: None,
            seconds: None,
            threads: 1,
            key_bytes: None,
            value_bytes: None,
            directory_entries: None,
            batch: 1,
            distribution: None,
            scan_entries_max: None,
            mix: std::collections::BTreeMap::new(),
            compressible: 0.0,
            scale: 1.0,
            scale_settings: false,
            rates: Vec::new(),
            arrival: Arrival::Uniform,
            find_max: false,
            percentages: Vec::new(),
            probe_seconds: 10.0,
            attempts: 3,
            memory_limit: None,
            warm: true,
            ramp_seconds: 1.0,
            rest_seconds: 0.0,
            seed: 1,
            settings: Settings::default(),
        }
    }
}

/// Scaling makes no fewer records or operations than this, unless fewer were requested.
const SCALED_COUNT_MIN: u64 = 1000;
/// Scaling reduces memtables, tables and caches to no less than this, unless they were smaller before.
const SCALED_SIZE_MIN: u64 = 1 << 20;
/// Scaling reduces level 1 to no less than this, a few of the smallest tables, unless it was smaller before.
const SCALED_LEVEL_MIN: u64 = 4 << 20;

impl Parameters {
    /// A number of records or operations at this scale: at least 1000, unless fewer were requested.
    pub fn scaled(&self, count: u64) -> u64 {
        scaled(count, self.scale, SCALED_COUNT_MIN)
    }

    /// The settings that engines are opened with, including those of the tuning. With `scale_settings`, the sizes of
    /// memtable, table and cache (at least 1 MiB), and of level 1, fast tier and its log (at least 4 MiB), are
    /// multiplied by the scale. Without `scale_settings`, settings left to the engine's own default stay open.
    pub fn engine_settings(&self) -> Settings {
        let mut settings = self.settings.resolved();
        if self.scale_settings {
            // Thalweg's defaults are filled in too: only numbers can be scaled.
            settings = settings.alike(None);
            let scale = |size: &mut Option<u64>, least: u64| *size = size.map(|size| scaled(size, self.scale, least));
            scale(&mut settings.memtable_bytes, SCALED_SIZE_MIN);
            scale(&mut settings.table_bytes, SCALED_SIZE_MIN);
            scale(&mut settings.cache_bytes, SCALED_SIZE_MIN);
            scale(&mut settings.level1_bytes, SCALED_LEVEL_MIN);
            scale(&mut settings.fast_tier_bytes, SCALED_LEVEL_MIN);
            scale(&mut settings.fast_tier_log_bytes, SCALED_LEVEL_MIN);
        }
        settings
    }
}

/// `n` times `scale`, not less than the smaller of `n` and `least`.
fn scaled(n: u64, scale: f64, least: u64) -> u64 {
    // A float represents every realistic count exactly, and the cast saturates.
    ((n as f64 * scale).round() as u64).max(n.min(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Tuning;

    #[test]
    fn counts_scale_down_to_a_thousand_and_no_further() {
        let parameters = Parameters { scale: 0.01, ..Parameters::default() };
        assert_eq!(parameters.scaled(1_000_000), 10_000);
        assert_eq!(parameters.scaled(50_000), 1000);
        assert_eq!(parameters.scaled(300), 300);
        assert_eq!(Parameters { scale: 3.0, ..Parameters::default() }.scaled(300), 900);
    }

    fn tuned(tuning: Tuning) -> Settings {
        Settings { tuning, ..Settings::default() }
    }

    #[test]
    fn sizes_scale_only_when_asked_to() {
        let paper = tuned(Tuning::Paper);
        let plain = Parameters { scale: 1.0 / 16.0, settings: paper.clone(), ..Parameters::default() };
        assert_eq!(plain.engine_settings(), paper.resolved());
        let settings = Parameters { scale_settings: true, ..plain.clone() }.engine_settings();
        assert_eq!(settings.memtable_bytes, Some(4 << 20));
        assert_eq!(settings.table_bytes, Some(4 << 20));
        assert_eq!(settings.level1_bytes, Some(16 << 20));
        assert_eq!(settings.cache_bytes, Some(64 << 20));
        assert_eq!(settings.growth_factor, Some(8));
        let defaults = Parameters { scale: 0.5, scale_settings: true, ..Parameters::default() }.engine_settings();
        assert_eq!((defaults.memtable_bytes, defaults.cache_bytes), (Some(16 << 20), Some(64 << 20)));
    }

    #[test]
    fn sizes_have_floors_and_engines_keep_their_defaults() {
        let mut parameters =
            Parameters { scale: 1e-6, scale_settings: true, settings: tuned(Tuning::Paper), ..Parameters::default() };
        let settings = parameters.engine_settings();
        assert_eq!((settings.memtable_bytes, settings.level1_bytes), (Some(1 << 20), Some(4 << 20)));
        parameters.settings.memtable_bytes = Some(1 << 16);
        assert_eq!(parameters.engine_settings().memtable_bytes, Some(1 << 16));
        parameters.settings = tuned(Tuning::Own);
        assert_eq!(parameters.engine_settings(), parameters.settings);
        let default = Parameters::default();
        assert_eq!(default.engine_settings(), default.settings, "the engine's own, and nothing said twice");
    }
}
