//! [`Told`]: gathers what a description tells, while the settings are taken.

use std::collections::BTreeMap;
use std::fmt::Display;
use thalweg_bench::engine::Description;

/// The settings taken so far, and those that were given and mean nothing to the engine.
#[derive(Default)]
pub struct Told {
    settings: BTreeMap<String, String>,
    ignored: Vec<String>,
}

impl Told {
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

    /// The whole description.
    pub fn description(self, name: &str, version: impl Display) -> Description {
        Description {
            name: name.to_owned(),
            version: version.to_string(),
            settings: self.settings,
            ignored: self.ignored,
        }
    }
}
