//! [`Variant`]: an engine with settings of its own, as `--engines` names it: `thalweg:backend=none:table=2M`.
//!
//! The keys are the names of the settings' flags, and the flags' own parser reads the values. A variant's settings
//! override the flags, which apply to every engine of the run. The canonical name of a variant has its keys in the
//! order of the flags and its values as they were written; a variant is known by this name everywhere.

use super::overrides::apply_settings;
use super::settings_args::SettingsArgs;
use crate::error::{Error, Result};
use crate::settings::Settings;
use clap::{Args, Command, FromArgMatches};

/// An engine, and those of its settings that differ from the run's.
pub struct Variant {
    /// The engine's own name.
    pub engine: String,
    name: String,
    settings: SettingsArgs,
}

impl Variant {
    /// Parses `text`; does not check whether the engine exists.
    ///
    /// # Errors
    /// `Usage`: an unknown or repeated key, or a value that its flag does not accept.
    pub fn parse(text: &str) -> Result<Variant> {
        let refused = |why: String| Error::Usage(format!("engine {text}: {why}"));
        let command = flags();
        let keys: Vec<&str> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
        let mut parts = text.split(':');
        let engine = parts.next().unwrap_or_default().to_owned();
        let mut given: Vec<(usize, &str)> = Vec::new();
        for part in parts {
            let key = part.split('=').next().unwrap_or_default();
            let Some(place) = keys.iter().position(|known| *known == key) else {
                return Err(refused(format!("there is no setting `{key}`; there are {}", keys.join(", "))));
            };
            if given.iter().any(|(other, _)| *other == place) {
                return Err(refused(format!("the setting `{key}` is given twice")));
            }
            given.push((place, part));
        }
        given.sort_unstable();
        let words: Vec<String> = given.iter().map(|(_, part)| format!("--{part}")).collect();
        let settings =
            command.clone().try_get_matches_from(words).and_then(|found| SettingsArgs::from_arg_matches(&found));
        let settings = settings.map_err(|error| refused(in_one_line(&error)))?;
        let name = std::iter::once(engine.as_str()).chain(given.iter().map(|(_, part)| *part)).collect::<Vec<_>>();
        Ok(Variant { name: name.join(":"), engine, settings })
    }

    /// The canonical name of this variant.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the settings of this variant in a run with the settings `of_the_run`.
    pub fn settings(&self, of_the_run: &Settings) -> Settings {
        let mut settings = of_the_run.clone();
        apply_settings(&mut settings, &self.settings);
        settings
    }

    /// Whether both mean the same engine and settings, however they are written.
    pub fn is(&self, other: &Variant) -> bool {
        self.engine == other.engine && self.settings == other.settings
    }
}

/// Returns the canonical name of the variant `text`, or `text` itself if it is no valid variant.
pub fn canonical(text: &str) -> String {
    Variant::parse(text).map_or_else(|_| text.to_owned(), |variant| variant.name)
}

/// The flags of settings, as a command line of their own.
fn flags() -> Command {
    SettingsArgs::augment_args(Command::new("variant"))
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
}

/// The message of the parser, without its hints at a command line that nobody typed.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said =
        text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage") && !line.starts_with("For more"));
    let said: Vec<&str> = said.filter(|line| !line.is_empty() && !line.starts_with("tip:")).collect();
    said.join("; ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Backend;

    fn refusal(text: &str) -> String {
        match Variant::parse(text) {
            Err(Error::Usage(why)) => why,
            Err(other) => panic!("{text} is not called wrong usage, but {other}"),
            Ok(_) => panic!("{text} was taken"),
        }
    }

    #[test]
    fn a_variant_changes_what_it_names_and_nothing_else() {
        let run = Settings { table_bytes: Some(1), memtable_bytes: Some(3), ..Settings::default() };
        let variant = Variant::parse("thalweg:table=2M:backend=sync-each-file:sync").unwrap();
        assert_eq!(variant.engine, "thalweg");
        let expected =
            Settings { table_bytes: Some(2 << 20), backend: Some(Backend::SyncEachFile), sync: true, ..run.clone() };
        assert_eq!(variant.settings(&run), expected);
        assert_eq!(Variant::parse("leveldb").unwrap().settings(&run), run);
    }

    #[test]
    fn the_canonical_name_has_the_keys_in_the_order_of_the_flags() {
        let name = |text: &str| Variant::parse(text).unwrap().name().to_owned();
        assert_eq!(name("thalweg"), "thalweg");
        assert_eq!(name("thalweg:backend=none:table=2M"), "thalweg:table=2M:backend=none");
        assert_eq!(name(&name("a:sync:settle-interval=100ms:memtable=1M")), "a:memtable=1M:settle-interval=100ms:sync");
    }

    #[test]
    fn the_same_is_seen_however_it_is_written() {
        let is = |a: &str, b: &str| Variant::parse(a).unwrap().is(&Variant::parse(b).unwrap());
        assert!(is("thalweg:table=2M:cache=8M", "thalweg:cache=8192K:table=2MiB"));
        assert!(!is("thalweg:table=2M", "thalweg:table=3M") && !is("thalweg:table=2M", "leveldb:table=2M"));
        assert!(!is("thalweg", "thalweg:table=2M"));
    }

    #[test]
    fn what_is_wrong_names_itself_and_what_there_is() {
        let unknown = refusal("thalweg:backnd=none");
        assert!(unknown.starts_with("engine thalweg:backnd=none: there is no setting `backnd`; there are tuning, "));
        assert!(unknown.contains("backend") && unknown.contains("settle-interval"), "{unknown}");
        assert!(refusal("thalweg:").contains("no setting ``; there are "));
        assert!(refusal("thalweg:table=1M:cache=1M:table=2M").ends_with("the setting `table` is given twice"));
        let value = refusal("thalweg:backend=fast");
        assert!(value.contains("'fast'") && value.contains("sync-each-file") && !value.contains('\n'), "{value}");
        let size = refusal("thalweg:table=big");
        assert!(size.contains("'big'") && size.contains("is no number") && !size.contains("--help"), "{size}");
        assert!(refusal("thalweg:table").contains("a value is required"));
        assert!(refusal("thalweg:level0-trigger=0").contains("1..=1000"));
        assert!(refusal("thalweg:sync=yes").contains("'yes'"));
    }
}
