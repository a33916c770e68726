//! [`Resolved`]: the parameters of a run, merged from defaults, preset, TOML file and flags; later sources override
//! earlier ones.

use super::args::RunArgs;
use super::overrides::apply;
use super::variant::Variant;
use crate::error::{Error, Result};
use crate::parameters::Parameters;
use crate::preset::{self, Preset};
use crate::process::Host;
use std::path::Path;
use toml::{Table, Value};

/// The parameters of a run, and the preset they came from.
pub struct Resolved {
    pub parameters: Parameters,
    pub preset: Option<Preset>,
}

impl Resolved {
    /// Merges the parameters of preset, file and flags. Each single value is within its bounds, and each name is known.
    pub fn new(host: &Host, args: &RunArgs) -> Result<Resolved> {
        let preset = args.source.preset.as_deref().map(find_preset(host)).transpose()?;
        let mut parameters = preset.as_ref().map_or_else(Parameters::default, |preset| preset.parameters.clone());
        // A preset fits any engine; the program decides which engines run.
        parameters.engines = host.engines.iter().map(|&name| name.to_owned()).collect();
        if let Some(path) = &args.source.config {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Error::of_path(format!("read {}", path.display()), error))?;
            parameters = overlaid(&parameters, &text, path)?;
        }
        apply(&mut parameters, args);
        parameters.engines = canonical(host, &parameters.engines)?;
        check_bounds(&parameters)?;
        Ok(Resolved { parameters, preset })
    }

    /// Renders the parameters as a TOML file that gives the same parameters.
    pub fn render(&self, host: &Host) -> Result<String> {
        let text = toml::to_string_pretty(&self.parameters)
            .map_err(|error| Error::Said(format!("the parameters cannot be written as TOML: {error}")))?;
        // An empty table would only be in the reader's way.
        let text = if self.parameters.mix.is_empty() { text.replace("\n[mix]\n", "\n") } else { text };
        // Without this line the limit of the preset would apply again.
        let limited = self.preset.as_ref().is_some_and(|preset| preset.parameters.memory_limit.is_some());
        let unlimited = if limited && self.parameters.memory_limit.is_none() { "memory-limit = 0\n" } else { "" };
        let from = match &self.preset {
            Some(preset) => format!("# From preset {}: give --preset {0} too for the paper's table.\n", preset.name),
            None => String::new(),
        };
        Ok(format!("# Run it with: {} --config FILE\n{from}{unlimited}{text}", host.command))
    }
}

fn find_preset(host: &Host) -> impl Fn(&str) -> Result<Preset> {
    let command = host.command;
    move |name| {
        preset::find(name)
            .ok_or_else(|| Error::Usage(format!("there is no preset {name}; `{command} list` shows those there are")))
    }
}

/// Overlays `base` with the values of the file. The file's settings replace single settings; its mix replaces the whole
/// mix.
fn overlaid(base: &Parameters, text: &str, path: &Path) -> Result<Parameters> {
    let refused = |error: &toml::de::Error| {
        let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
        let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
        Error::Usage(format!("{}{line}: {}", path.display(), error.message().trim().replace('\n', "; ")))
    };
    // The file is parsed alone first: its errors name lines, those of a merged table do not.
    toml::from_str::<Parameters>(text).map_err(|error| refused(&error))?;
    let given: Table = toml::from_str(text).map_err(|error| refused(&error))?;
    let mut table =
        Table::try_from(base).map_err(|error| Error::Said(format!("a default cannot be written as TOML: {error}")))?;
    for (name, value) in given {
        match (table.get_mut(&name), value) {
            (Some(Value::Table(settings)), Value::Table(given)) if name == "settings" => settings.extend(given),
            (_, value) => {
                table.insert(name, value);
            }
        }
    }
    table.try_into().map_err(|error| refused(&error))
}

/// Returns the canonical names of the engines and variants. Refuses unknown and repeated ones.
fn canonical(host: &Host, engines: &[String]) -> Result<Vec<String>> {
    let known: Vec<&str> = host.factories.iter().map(|factory| factory.name()).collect();
    if engines.is_empty() {
        return Err(Error::Usage(format!("no engine is named; there are: {}", known.join(", "))));
    }
    let mut variants: Vec<Variant> = Vec::new();
    for name in engines {
        let variant = Variant::parse(name)?;
        if !known.contains(&variant.engine.as_str()) {
            return Err(Error::Usage(format!(
                "`{}` has no engine {}; it has: {}{}",
                host.command,
                variant.engine,
                known.join(", "),
                if host.command == "thalweg bench" { " (peers/README.md has the command with the others)" } else { "" }
            )));
        }
        if let Some(earlier) = variants.iter().find(|earlier| earlier.is(&variant)) {
            let also = if earlier.name() == name { String::new() } else { format!(" (as {})", earlier.name()) };
            return Err(Error::Usage(format!(
                "engine {name} is named twice{also}; --rounds repeats a run, and a variant has settings of its own"
            )));
        }
        variants.push(variant);
    }
    Ok(variants.iter().map(|variant| variant.name().to_owned()).collect())
}

/// Checks the values of a file against the bounds that the flags check themselves. The plan refuses the rest.
fn check_bounds(parameters: &Parameters) -> Result<()> {
    let p = parameters;
    let s = &p.settings;
    let shares = p.mix.values().sum::<f64>();
    let within = |number: Option<u32>, least: u32, most: u32| number.is_none_or(|n| (least..=most).contains(&n));
    let rules = [
        ((1..=1000).contains(&p.rounds), "rounds must be from 1 to 1000"),
        ((1..=1024).contains(&p.threads), "threads must be from 1 to 1024"),
        ((1..=1_000_000).contains(&p.batch), "batch must be from 1 to 1000000"),
        ((1..=100).contains(&p.attempts), "attempts must be from 1 to 100"),
        (p.directory_entries != Some(0), "directory-entries must be at least 1"),
        (p.scan_entries_max != Some(0), "scan-entries-max must be at least 1"),
        (p.key_bytes.is_none_or(|bytes| bytes <= 64 << 10), "key-bytes must be at most 64 KiB"),
        (p.value_bytes.is_none_or(|bytes| bytes <= 64 << 20), "value-bytes must be at most 64 MiB"),
        (p.memory_limit.is_none_or(|bytes| bytes >= 16 << 20), "a memory limit below 16 MiB leaves no room to run"),
        ((0.0..=1.0).contains(&p.compressible), "compressible must be from 0 to 1"),
        (p.mix.values().all(|share| share.is_finite() && *share >= 0.0), "a share of the mix must be 0 or more"),
        (p.mix.is_empty() || shares > 0.0, "the shares of the mix must not all be 0"),
        (within(s.memtables_max, 2, 1000), "memtables-max must be from 2 to 1000"),
        (within(s.filter_bits_per_key, 0, 64), "filter-bits-per-key must be from 0 to 64"),
        (within(s.background_jobs, 1, 256), "background-jobs must be from 1 to 256"),
        (within(s.compactions_a_worker, 1, 64), "compactions-a-worker must be from 1 to 64"),
        (within(s.io_depth, 1, 1024), "io-depth must be from 1 to 1024"),
        (within(s.level0_trigger, 1, 1000), "level0-trigger must be from 1 to 1000"),
        (within(s.level0_patience, 1, 1000), "level0-patience must be from 1 to 1000"),
        (within(s.growth_factor, 2, 1000), "growth-factor must be from 2 to 1000"),
        (within(s.partitions_max, 1, 1024), "partitions-max must be from 1 to 1024"),
        (within(s.phi, 1, 1024), "phi must be from 1 to 1024"),
        (within(s.partitions, 1, 10_000), "partitions must be from 1 to 10000"),
        (s.flush_delay_us.is_none_or(|delay| delay <= 10_000_000), "flush-delay-us must be at most 10000000"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, why)) => Err(Error::Usage((*why).to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Null, Thalweg};
    use crate::settings::Compression;
    use crate::settings::Settings;
    use clap::Parser;

    const HOST: Host = Host {
        command: "thalweg bench",
        worker: &["bench", "worker"],
        factories: &[&Thalweg, &Null],
        engines: &["thalweg"],
    };

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn args(words: &[&str]) -> RunArgs {
        Line::try_parse_from([&["bench"], words].concat()).unwrap().run
    }

    fn refused(words: &[&str]) -> String {
        match Resolved::new(&HOST, &args(words)) {
            Err(Error::Usage(text)) => text,
            Err(other) => panic!("{words:?} is not called wrong usage, but {other}"),
            Ok(_) => panic!("{words:?} was taken"),
        }
    }

    fn file(text: &str) -> Result<Parameters> {
        let base = Parameters {
            threads: 8,
            mix: [("get".to_owned(), 100.0)].into(),
            settings: Settings { memtable_bytes: Some(1), sync: true, ..Settings::default() },
            ..Parameters::default()
        };
        overlaid(&base, text, Path::new("run.toml"))
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let parameters = file("rounds = 3\nseconds = 5\n[mix]\nput = 1\n[settings]\ntable-bytes = 2\n").unwrap();
        assert_eq!((parameters.threads, parameters.rounds, parameters.seconds), (8, 3, Some(5.0)));
        assert_eq!(parameters.mix, [("put".to_owned(), 1.0)].into(), "a mix is replaced as a whole");
        let settings = &parameters.settings;
        assert_eq!((settings.memtable_bytes, settings.table_bytes, settings.sync), (Some(1), Some(2), true));
    }

    #[test]
    fn a_wrong_file_is_named_with_line_and_field() {
        for (text, words) in [
            ("rounds = 3\nthread = 4\n", "run.toml, line 2: unknown field `thread`"),
            ("[settings]\nmemtable = 4\n", "unknown field `memtable`"),
            ("rounds = \"many\"\n", "run.toml, line 1: invalid type"),
            ("rounds = = 1\n", "run.toml, line 1"),
        ] {
            let error = file(text).unwrap_err();
            assert!(matches!(error, Error::Usage(_)));
            let said = error.to_string();
            assert!(said.contains(words) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn flags_change_what_they_name_and_nothing_else() {
        let mut parameters = Parameters::default();
        apply(&mut parameters, &args(&["ycsb-a"]));
        assert_eq!(parameters, Parameters { workloads: vec!["ycsb-a".into()], ..Parameters::default() });
        let words = ["--threads", "4", "--no-warm", "--compression", "lz4", "--log-sync-interval", "none", "--sync"];
        apply(&mut parameters, &args(&words));
        assert_eq!((parameters.threads, parameters.warm, parameters.workloads.len()), (4, false, 1));
        let settings = &parameters.settings;
        assert_eq!((settings.compression, settings.log_sync_interval_ms), (Some(Compression::Lz4), Some(0)));
        assert!(settings.sync);
    }

    #[test]
    fn parameters_survive_the_way_through_a_file() {
        let path = std::env::temp_dir().join(format!("thalweg-bench-resolved-{}.toml", std::process::id()));
        let words = ["ycsb-a", "--mix", "get=1,put=2.5", "--rate", "10k", "--memtable", "1M", "--seconds", "0.5"];
        let resolved = Resolved::new(&HOST, &args(&words)).unwrap();
        std::fs::write(&path, resolved.render(&HOST).unwrap()).unwrap();
        let path_text = path.to_str().unwrap();
        let again = Resolved::new(&HOST, &args(&["--config", path_text])).unwrap();
        assert_eq!(again.parameters, resolved.parameters);
        let other = Resolved::new(&HOST, &args(&["--config", path_text, "--memtable", "2M"])).unwrap();
        assert_eq!(other.parameters.settings.memtable_bytes, Some(2 << 20), "a flag is stronger than a file");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn variants_have_canonical_names_in_flags_and_files_alike() {
        let words = ["ycsb-a", "--engines", "thalweg,thalweg:backend=none:table=2M,null:cache=1M"];
        let resolved = Resolved::new(&HOST, &args(&words)).unwrap();
        assert_eq!(resolved.parameters.engines, ["thalweg", "thalweg:table=2M:backend=none", "null:cache=1M"]);
        assert!(resolved.render(&HOST).unwrap().contains("\"thalweg:table=2M:backend=none\""));
        assert_eq!(resolved.parameters.settings, Settings::default(), "a variant's settings are its own");
    }

    #[test]
    fn a_preset_is_weaker_than_a_file_and_flags() {
        let preset = preset::all().into_iter().next().unwrap();
        let resolved = Resolved::new(&HOST, &args(&["--preset", preset.name, "--threads", "7"])).unwrap();
        assert_eq!((resolved.parameters.threads, resolved.parameters.scale), (7, preset.parameters.scale));
        assert_eq!(resolved.preset.unwrap().name, preset.name);
    }

    #[test]
    fn what_there_is_not_is_named_with_what_there_is() {
        assert!(refused(&["--preset", "nob-e99"]).contains("`thalweg bench list`"));
        let text = refused(&["ycsb-a", "--engines", "thalweg,rocksdb"]);
        assert!(text.contains("no engine rocksdb") && text.contains("thalweg, null"), "{text}");
        assert!(refused(&["ycsb-a", "--engines", "null,null"]).contains("twice"));
        let text = refused(&["ycsb-a", "--engines", "thalweg,rocksdb:table=2M"]);
        assert!(text.contains("no engine rocksdb; it has: thalweg, null"), "{text}");
        let text = refused(&["ycsb-a", "--engines", "thalweg,thalweg:table=2M,thalweg:table=2048K"]);
        assert!(text.contains("thalweg:table=2048K is named twice (as thalweg:table=2M)"), "{text}");
    }

    #[test]
    fn what_makes_no_sense_together_is_refused() {
        assert!(refused(&["ycsb-a", "--mix", "get=0"]).contains("must not all be 0"));
    }

    #[test]
    fn a_file_has_the_bounds_of_the_flags() {
        let path = std::env::temp_dir().join(format!("thalweg-bench-bounds-{}.toml", std::process::id()));
        for (text, words) in [
            ("threads = 5000", "threads must be"),
            ("value-bytes = 100_000_000", "value-bytes must be"),
            ("[settings]\ngrowth-factor = 1", "growth-factor must be"),
            ("[settings]\nlevel0-trigger = 0", "level0-trigger must be"),
            ("[settings]\nfilter-bits-per-key = 65", "filter-bits-per-key must be"),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = refused(&["ycsb-a", "--config", path.to_str().unwrap()]);
            assert!(said.contains(words), "{said}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
