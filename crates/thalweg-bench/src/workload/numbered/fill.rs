//! [`Fill`]: writes either every record once, or randomly drawn records.

use super::shared::{Drawn, Kind, Numbered};
use crate::distribution::Random;
use crate::engine::Session;
use crate::error::Result;
use crate::workload::values::Values;
use crate::workload::{Class, Client, Outcome};

/// A thread of `fillseq`, `fillrandom`, `fillsync` and `overwrite`, and the writer of `readwhilewriting`.
///
/// A load ends when its threads together have written as many entries as there are records; the others do not end. A
/// number may be drawn more than once (`fillrandom` writes about 63 % of the keys at least once), as in the originals.
pub(super) struct Fill<'a> {
    workload: &'a Numbered,
    kind: Kind,
    drawn: Drawn,
    values: Values,
    /// The entries of a batch; empty, and never filled, when entries are written one by one.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Fill<'a> {
    /// The writer of thread `thread`, of the given `kind`.
    pub fn new(workload: &'a Numbered, kind: Kind, thread: usize, random: Random) -> Fill<'a> {
        let values = workload.values.of_thread(thread);
        Fill { workload, kind, drawn: Drawn::new(workload, random), values, entries: Vec::new() }
    }

    /// Claims the next `batch` entries of a load. Returns the number of the first, and how many are left of them.
    fn claim(&self) -> Option<(u64, u64)> {
        let (records, batch) = (self.workload.records, self.workload.batch);
        let first = self.workload.dataset.claim(batch, records)?;
        Some((first, batch.min(records - first)))
    }

    /// Makes the key of entry `number`.
    fn draw(&mut self, number: u64) {
        if self.kind == Kind::FillSeq {
            self.drawn.keys.write(number, &mut self.drawn.key);
        } else {
            self.drawn.draw();
        }
    }
}

impl Client for Fill<'_> {
    fn prepare(&mut self) -> Option<Class> {
        let (first, count) = match self.kind {
            Kind::Overwrite => (0, self.workload.batch),
            _ => self.claim()?,
        };
        if self.workload.batch == 1 {
            self.draw(first);
            self.values.draw(self.workload.value_bytes);
            return Some(if self.kind == Kind::Overwrite { Class::Update } else { Class::Insert });
        }
        self.entries.resize_with(count as usize, Default::default);
        for i in 0..count {
            self.draw(first + i);
            let (key, value) = &mut self.entries[i as usize];
            key.clone_from(&self.drawn.key);
            value.clear();
            value.extend_from_slice(self.values.next(self.workload.value_bytes));
        }
        Some(Class::Transaction)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let sync = self.workload.sync;
        let operations = if self.workload.batch == 1 {
            session.put(&self.drawn.key, self.values.value(), sync)?;
            1
        } else {
            session.put_batch(&self.entries, sync)?;
            self.entries.len() as u64
        };
        let entry_bytes = self.drawn.key.len() + self.workload.value_bytes;
        Ok(Outcome { operations, written_bytes: operations * entry_bytes as u64, ..Outcome::default() })
    }
}
