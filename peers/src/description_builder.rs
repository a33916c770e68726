//! [`DescriptionBuilder`]: gathers what a report says of an engine, while its settings are applied.

use std::collections::BTreeMap;
use std::fmt::Display;
use thalweg_bench::Settings;
use thalweg_bench::engine::Description;

/// The settings taken so far, and those that were given and mean nothing to the engine.
#[derive(Default)]
pub struct DescriptionBuilder {
    settings: BTreeMap<String, String>,
    ignored: Vec<String>,
    terms: BTreeMap<String, String>,
}

/// The durability of a log that is never synced by the clock.
pub const UNSYNCED: &str =
    "the log is not synced by the clock: a power cut may take what the kernel has not written yet, about 30 s";

impl DescriptionBuilder {
    /// A setting as the engine took it, under the engine's own name for it.
    pub fn taken(&mut self, name: &str, value: impl Display) {
        self.settings.insert(name.to_owned(), value.to_string());
    }

    /// A setting that the engine has no counterpart for, if it was given.
    pub fn ignored<T>(&mut self, name: &str, given: Option<T>) {
        if given.is_some() {
            self.ignored.push(name.to_owned());
        }
    }

    /// What a reader must know before any figure: `unsynced` says what a power cut takes without `--sync`.
    pub fn terms(&mut self, settings: &Settings, unsynced: &str) {
        let size = |bytes: Option<u64>| match bytes {
            Some(bytes) => format!("{} MiB", bytes as f64 / f64::from(1 << 20)),
            None => "its own default".to_owned(),
        };
        let durability = if settings.sync { "each write is durable before it returns" } else { unsynced };
        self.term("durability", durability);
        let (cache, memtable) = (size(settings.cache_bytes), size(settings.memtable_bytes));
        self.term("memory", format!("block cache {cache}, memtables of {memtable}"));
        let codec =
            settings.compression.map_or("its own default".to_owned(), |codec| format!("{codec:?}").to_lowercase());
        self.term("tables", format!("of {}, compression {codec}", size(settings.table_bytes)));
    }

    /// One of them.
    pub fn term(&mut self, name: &str, is: impl Display) {
        self.terms.insert(name.to_owned(), is.to_string());
    }

    /// The whole description.
    pub fn build(self, name: &str, version: impl Display) -> Description {
        Description {
            name: name.to_owned(),
            version: version.to_string(),
            settings: self.settings,
            ignored: self.ignored,
            terms: self.terms,
        }
    }
}
