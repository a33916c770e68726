//! `metadata-list`.

use super::entry::entries_of;
use super::order::random_order;
use crate::distribution::{Chooser, Random, random};
use crate::engine::Session;
use crate::error::Result;
use crate::parameters::{Distribution, Parameters};
use crate::workload::touch::touch;
use crate::workload::{Class, Client, Dataset, Outcome, Workload};

pub(super) struct Lists {
    directories: u64,
    chooser: Chooser,
}

impl Lists {
    pub(super) fn new(parameters: &Parameters, dataset: &Dataset) -> Result<Lists> {
        random_order(parameters, dataset)?;
        let directories = dataset.records.div_ceil(entries_of(parameters));
        let distribution = parameters.distribution.unwrap_or(Distribution::Uniform);
        Ok(Lists { directories, chooser: Chooser::new(distribution, directories, directories) })
    }
}

impl Workload for Lists {
    fn client(&self, thread: usize, _threads: usize, seed: u64) -> Box<dyn Client + '_> {
        let random = random(seed, "metadata-list", thread);
        Box::new(List { workload: self, chooser: self.chooser.clone(), random, directory: [0; 8] })
    }
}

struct List<'a> {
    workload: &'a Lists,
    chooser: Chooser,
    random: Random,
    directory: [u8; 8],
}

impl Client for List<'_> {
    fn prepare(&mut self) -> Option<Class> {
        self.directory = self.chooser.next(self.workload.directories, &mut self.random).to_be_bytes();
        Some(Class::Scan)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let directory = self.directory;
        let mut read = 0;
        // Like a file system, it reads one entry beyond the last: only this shows the end of the directory.
        session.scan(&directory, &mut |key, value| {
            let inside = key.starts_with(&directory);
            if inside {
                touch(value);
                read += (key.len() + value.len()) as u64;
            }
            inside
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(read == 0), read_bytes: read, ..Outcome::default() })
    }
}
