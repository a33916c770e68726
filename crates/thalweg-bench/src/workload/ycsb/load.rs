//! [`Loader`]: inserts every record once.

use super::table::Table;
use crate::engine::Session;
use crate::error::Result;
use crate::workload::values::Values;
use crate::workload::{Class, Client, Outcome};

/// A thread of `ycsb-load`.
pub(super) struct Loader<'a> {
    table: &'a Table,
    values: Values,
    number: u64,
    key: Vec<u8>,
}

impl<'a> Loader<'a> {
    /// Thread `thread`.
    pub fn new(table: &'a Table, thread: usize) -> Loader<'a> {
        Loader { table, values: table.values.of_thread(thread), number: 0, key: Vec::new() }
    }
}

impl Client for Loader<'_> {
    fn prepare(&mut self) -> Option<Class> {
        self.number = self.table.dataset.claim(1, self.table.dataset.records)?;
        self.table.keys.write(self.number, &mut self.key);
        self.values.draw(self.table.value_bytes);
        Some(Class::Insert)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let value = self.values.value();
        session.put(&self.key, value, self.table.sync)?;
        self.table.acknowledgements.tell(&self.table.dataset, self.number);
        Ok(Outcome { operations: 1, written_bytes: (self.key.len() + value.len()) as u64, ..Outcome::default() })
    }
}
