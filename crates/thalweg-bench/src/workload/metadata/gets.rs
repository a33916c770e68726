//! `metadata-get` and the workloads that have several gets in flight.

use super::entry::{KEY_BYTES, entries_of, key};
use super::order::random_order;
use crate::distribution::{Chooser, Permutation, Random, random};
use crate::engine::{LookupsBy, Session};
use crate::error::Result;
use crate::parameters::{Distribution, Parameters};
use crate::workload::touch::touch;
use crate::workload::{Class, Client, Dataset, Outcome, Workload};

/// Entries that `metadata-multiget` gets at once by default.
const KEYS_AT_ONCE: usize = 32;
/// Lookups that a thread of `metadata-get-reader` and of `metadata-get-async` has in flight by default.
const LOOKUPS_IN_FLIGHT: usize = 16;

/// How a thread gets several entries.
#[derive(Clone, Copy)]
pub(super) enum How {
    OneByOne,
    /// With one call: as many entries as a batch has, or [`KEYS_AT_ONCE`] for a batch of one.
    AtOnce,
    /// With lookups in flight: as many as a batch has, or [`LOOKUPS_IN_FLIGHT`] for a batch of one.
    Overlapped(LookupsBy),
}

pub(super) fn make_gets(
    parameters: &Parameters,
    dataset: &Dataset,
    name: &'static str,
    how: How,
) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Gets::new(parameters, dataset, name, how)?))
}

pub(super) struct Gets {
    name: &'static str,
    how: How,
    batch: u32,
    records: u64,
    entries: u64,
    order: Permutation,
    chooser: Chooser,
}

impl Gets {
    pub(super) fn new(parameters: &Parameters, dataset: &Dataset, name: &'static str, how: How) -> Result<Gets> {
        let order = random_order(parameters, dataset)?;
        let (records, batch) = (dataset.records, parameters.batch);
        let distribution = parameters.distribution.unwrap_or(Distribution::Uniform);
        let chooser = Chooser::new(distribution, records, records);
        Ok(Gets { name, how, batch, records, entries: entries_of(parameters), order, chooser })
    }

    /// Replaces the distribution of the parameters.
    pub(super) fn with(self, distribution: Distribution) -> Gets {
        Gets { chooser: Chooser::new(distribution, self.records, self.records), ..self }
    }

    /// The batch size, or `otherwise` if none is given.
    fn batch_or(&self, otherwise: usize) -> usize {
        if self.batch > 1 { self.batch as usize } else { otherwise }
    }
}

impl Workload for Gets {
    fn operations_each(&self) -> u64 {
        if matches!(self.how, How::AtOnce) { self.batch_or(KEYS_AT_ONCE) as u64 } else { 1 }
    }

    fn overlaps(&self) -> bool {
        matches!(self.how, How::Overlapped(_))
    }

    fn client(&self, thread: usize, _threads: usize, seed: u64) -> Box<dyn Client + '_> {
        let random = random(seed, self.name, thread);
        let drawn = Drawn { workload: self, chooser: self.chooser.clone(), random };
        match self.how {
            How::OneByOne => Box::new(Get { drawn, key: key(0, 1) }),
            How::AtOnce => {
                let keys = vec![Vec::new(); self.batch_or(KEYS_AT_ONCE)];
                Box::new(GetSeveral { drawn, keys })
            }
            How::Overlapped(by) => {
                let in_flight = (by, self.batch_or(LOOKUPS_IN_FLIGHT));
                Box::new(GetOverlapped { drawn, key: key(0, 1), in_flight })
            }
        }
    }
}

/// The keys that a thread draws.
struct Drawn<'a> {
    workload: &'a Gets,
    chooser: Chooser,
    random: Random,
}

impl Drawn<'_> {
    fn key(&mut self) -> [u8; KEY_BYTES as usize] {
        // The chooser draws a place in the order of puts, so that the latest entries are those that were put last.
        let place = self.chooser.next(self.workload.records, &mut self.random);
        key(self.workload.order.number(place), self.workload.entries)
    }
}

struct Get<'a> {
    drawn: Drawn<'a>,
    key: [u8; KEY_BYTES as usize],
}

impl Client for Get<'_> {
    fn prepare(&mut self) -> Option<Class> {
        self.key = self.drawn.key();
        Some(Class::Get)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut read = 0;
        let found = session.get(&self.key, &mut |value| {
            touch(value);
            read = value.len();
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(!found), read_bytes: read as u64, ..Outcome::default() })
    }
}

/// A client that gets several keys at once; each key counts as an operation.
struct GetSeveral<'a> {
    drawn: Drawn<'a>,
    keys: Vec<Vec<u8>>,
}

impl Client for GetSeveral<'_> {
    fn prepare(&mut self) -> Option<Class> {
        for key in &mut self.keys {
            key.clear();
            key.extend_from_slice(&self.drawn.key());
        }
        Some(Class::Get)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let (operations, mut read_bytes) = (self.keys.len() as u64, 0);
        let found = session.multi_get(&self.keys, &mut |value| {
            touch(value);
            read_bytes += value.len() as u64;
        })?;
        Ok(Outcome { operations, missing: operations.saturating_sub(found), read_bytes, ..Outcome::default() })
    }
}

/// A client that begins one lookup and ends one at each call. An operation is a lookup that has ended; its time is that
/// of the call that ended it.
struct GetOverlapped<'a> {
    drawn: Drawn<'a>,
    key: [u8; KEY_BYTES as usize],
    in_flight: (LookupsBy, usize),
}

impl Client for GetOverlapped<'_> {
    fn prepare(&mut self) -> Option<Class> {
        self.key = self.drawn.key();
        Some(Class::Get)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut read = 0;
        let ended = session.get_overlapped(&self.key, self.in_flight, &mut |value| {
            touch(value);
            read = value.len();
        })?;
        let (operations, missing) = (u64::from(ended.is_some()), u64::from(ended == Some(false)));
        Ok(Outcome { operations, missing, read_bytes: read as u64, ..Outcome::default() })
    }
}
