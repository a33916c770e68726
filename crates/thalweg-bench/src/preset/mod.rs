//! The papers' experiments, each with its parameters and its table.
//!
//! A preset is a file `presets/<name>.toml` of this crate, embedded in the program. It has `about`; `[parameters]` at
//! the paper's own size, with a `scale` that makes a round of one engine take minutes on a small machine; and
//! `[paper]`, the figures that the paper prints. Every preset parses and makes sense: this is an invariant of the
//! program, and tested.
//!
//! Rules for all presets:
//! - Clients, sizes and counts are the paper's. Background jobs are the tuning's two: the right number depends on the
//!   machine's processors, not on the experiment.
//! - `scale-settings` is on if the depth of the tree matters, and off if the experiment measures the size of a table.
//! - `memory-limit` is given if the paper's data exceeded its memory, or if direct I/O kept data out of the page cache.
//!   It does not scale.
//! - If a paper only has a plot, the table holds the figures that its text states.
//! - A sweep is one preset, at its most telling value; `about` and `differs` name the flags to vary.
//!
//! Left out, and why (`docs/presets.md` goes through the figures):
//!
//! | experiment | why |
//! |---|---|
//! | PMB-E1, PMB-E4 to PMB-E7 | inside the fast tier: the examples `table_layouts` and `internal_compaction` |
//! | PMB-E2 | needs persistent memory |
//! | PHAT-E1 | traces of file systems, no measurement of an engine |
//! | PHAT-E7 | a file system on the engine, which `thalweg-peers figure14` measures |
//! | PHAT-E8 | variants of a directory keyspace, which `docs/results/run --directories` measures |
//! | NOB-E4 | a crash test; the simulator does more than that |

use crate::parameters::Parameters;
use crate::report::Paper;
use serde::Deserialize;

/// One experiment of a paper.
pub struct Preset {
    /// The name on the command line: `nob-e2`.
    pub name: &'static str,
    /// One line for `bench list`.
    pub about: String,
    /// Its parameters at the paper's size, with a `scale` for a small machine.
    pub parameters: Parameters,
    /// The findings of the paper.
    pub paper: Paper,
}

/// A preset's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    parameters: Parameters,
    paper: Paper,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../presets/", $name, ".toml")))),*]
    };
}

/// Names and files, in the order of the papers' numbers.
const FILES: &[(&str, &str)] = &embedded![
    "nob-e1",
    "nob-e2",
    "nob-e3",
    "nob-e5",
    "vlsm-e1",
    "vlsm-e2",
    "vlsm-e3",
    "vlsm-e4",
    "vlsm-e4-table1",
    "vlsm-e4-pareto",
    "phat-e2",
    "phat-e3",
    "phat-e4",
    "phat-e5",
    "phat-e6",
    "pmb-e3",
    "pmb-e8",
    "pmb-e9",
    "pmb-e10",
    "pmb-e11",
    "pmb-e12",
];

/// Every preset, in the order of the papers' numbers.
pub fn all() -> Vec<Preset> {
    FILES.iter().map(|&(name, text)| parse(name, text)).collect()
}

/// The preset of that name.
pub fn find(name: &str) -> Option<Preset> {
    FILES.iter().find(|file| file.0 == name).map(|&(name, text)| parse(name, text))
}

fn parse(name: &'static str, text: &str) -> Preset {
    match toml::from_str::<File>(text) {
        Ok(File { about, parameters, paper }) => Preset { name, about, parameters, paper },
        Err(error) => panic!("the embedded preset {name} is wrong: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{self, DatasetKind};
    use std::collections::BTreeSet;

    /// Asserts that `wrong` finds no fault with any preset; a fault is a failure that names the preset.
    fn none(wrong: impl Fn(&Preset) -> Option<String>) {
        let found: Vec<String> =
            all().iter().filter_map(|p| wrong(p).map(|what| format!("{}: {what}", p.name))).collect();
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn every_file_is_embedded_once_and_parses() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/presets");
        let files: BTreeSet<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let embedded: BTreeSet<String> = all().iter().map(|preset| format!("{}.toml", preset.name)).collect();
        assert_eq!(embedded, files);
        assert_eq!(embedded.len(), FILES.len(), "a name twice");
    }

    #[test]
    fn a_preset_is_found_by_its_name_alone() {
        assert_eq!(find("vlsm-e3").unwrap().parameters.rates, [60_000.0, 100_000.0]);
        assert!(find("vlsm-e").is_none() && find("VLSM-E3").is_none());
    }

    #[test]
    fn every_table_is_as_wide_as_its_columns() {
        none(|p| {
            let wrong = p.paper.rows.iter().find(|row| row.cells.len() != p.paper.columns.len())?;
            Some(format!("row {:?}", wrong.name))
        });
        none(|p| (p.paper.rows.is_empty() || p.paper.columns.is_empty()).then(|| "no table".into()));
        none(|p| {
            let empty = |text: &String| text.trim().is_empty();
            p.paper.rows.iter().any(|row| empty(&row.name) || row.cells.iter().any(empty)).then(|| "empty".into())
        });
    }

    /// `NOB-E2, figure 4` names the preset `nob-e2`, or `nob-e2-more`.
    #[test]
    fn a_source_is_a_number_of_the_checklist_and_the_name_says_it() {
        none(|p| {
            let (number, place) = p.paper.source.split_once(", ")?;
            let (paper, experiment) = number.split_once("-E")?;
            let last = match paper {
                "PMB" => 12,
                "PHAT" => 8,
                "NOB" => 5,
                "VLSM" => 4,
                _ => 0,
            };
            let numbered = experiment.parse::<u32>().is_ok_and(|n| (1..=last).contains(&n));
            let placed = place.starts_with("figure") || place.starts_with("table");
            let named = p.name == number.to_lowercase() || p.name.starts_with(&format!("{}-", number.to_lowercase()));
            (!(numbered && placed && named)).then(|| p.paper.source.clone())
        });
        none(|p| (!p.paper.source.contains("-E") || !p.paper.source.contains(", ")).then(|| p.paper.source.clone()));
    }

    #[test]
    fn every_workload_exists() {
        none(|p| p.parameters.workloads.is_empty().then(|| "no workload".into()));
        none(|p| p.parameters.workloads.iter().find(|name| workload::find(name).is_none()).cloned());
    }

    #[test]
    fn engines_and_rounds_are_left_to_the_user() {
        let silent = Parameters::default();
        none(|p| (p.parameters.engines != silent.engines).then(|| "engines".into()));
        none(|p| (p.parameters.rounds != silent.rounds).then(|| "rounds".into()));
        none(|p| (p.parameters.settings.background_jobs.is_some()).then(|| "background jobs".into()));
    }

    /// Bytes that the loads among the workloads write, scaled.
    fn loaded_bytes(preset: &Preset) -> f64 {
        let parameters = &preset.parameters;
        let names = parameters.workloads.iter();
        let loads = names.filter_map(|name| workload::find(name)).filter(|load| load.load == load.name);
        let bytes = loads.map(|load| {
            let records = parameters.records.unwrap_or(load.defaults.records) as f64;
            let key = f64::from(parameters.key_bytes.unwrap_or(load.defaults.key_bytes));
            let value = f64::from(parameters.value_bytes.unwrap_or(load.defaults.value_bytes));
            let record = match load.dataset {
                // An order: 50 rows, each with a key of 12 bytes and three index entries.
                DatasetKind::Retail => 50.0 * (12.0 + value + 3.0 * key),
                _ => key + value,
            };
            records * record
        });
        bytes.sum::<f64>() * parameters.scale * parameters.rates.len().max(1) as f64
    }

    #[test]
    fn scaled_data_fits_a_small_machine() {
        none(|p| (!(p.parameters.scale > 0.0 && p.parameters.scale <= 1.0)).then(|| "scale".into()));
        none(|p| {
            let bytes = loaded_bytes(p);
            (!(1e8..8.6e9).contains(&bytes)).then(|| format!("loads {bytes} B"))
        });
    }

    #[test]
    fn a_memory_limit_is_below_the_data_and_above_what_an_engine_needs() {
        none(|p| {
            let limit = p.parameters.memory_limit? as f64;
            let settings = p.parameters.settings.resolved();
            let scale = if p.parameters.scale_settings { p.parameters.scale } else { 1.0 };
            let memtables = settings.memtable_bytes? as f64
                * f64::from(settings.memtables_max?)
                * f64::from(settings.partitions.unwrap_or(1));
            let needed = (memtables + settings.cache_bytes? as f64) * scale;
            (!(2.0 * needed..loaded_bytes(p)).contains(&limit)).then(|| format!("{limit} B; needs {needed} B"))
        });
    }
}
