//! [`Operator`]: the operations of a run, drawn from its mix.

use super::mixed::Mixed;
use crate::distribution::{Chooser, Random, Uniform};
use crate::engine::Session;
use crate::error::Result;
use crate::workload::touch::touch;
use crate::workload::values::Values;
use crate::workload::{Class, Client, Outcome};
use std::sync::atomic::Ordering;

/// A thread of `ycsb-a` to `ycsb-f`.
pub(super) struct Operator<'a> {
    run: &'a Mixed,
    chooser: Chooser,
    random: Random,
    values: Values,
    class: Class,
    /// The record of an insert.
    number: u64,
    key: Vec<u8>,
    /// Entries of a scan.
    entries: u64,
}

impl<'a> Operator<'a> {
    /// Thread `thread`.
    pub fn new(run: &'a Mixed, thread: usize, random: Random) -> Operator<'a> {
        Operator {
            run,
            chooser: run.chooser(),
            random,
            values: run.table.values.of_thread(thread),
            class: Class::Get,
            number: 0,
            key: Vec::new(),
            entries: 0,
        }
    }

    fn get(&self, session: &mut dyn Session, outcome: &mut Outcome) -> Result<()> {
        let found = session.get(&self.key, &mut |value| {
            touch(value);
            outcome.read_bytes += value.len() as u64;
        })?;
        outcome.missing += u64::from(!found);
        Ok(())
    }

    fn put(&self, session: &mut dyn Session, outcome: &mut Outcome) -> Result<()> {
        let value = self.values.value();
        session.put(&self.key, value, self.run.table.sync)?;
        outcome.written_bytes += (self.key.len() + value.len()) as u64;
        Ok(())
    }

    fn scan(&self, session: &mut dyn Session, outcome: &mut Outcome) -> Result<()> {
        let mut left = self.entries;
        session.scan(&self.key, &mut |key, value| {
            touch(value);
            outcome.read_bytes += (key.len() + value.len()) as u64;
            left -= 1;
            left > 0
        })?;
        outcome.missing += u64::from(left == self.entries);
        Ok(())
    }
}

impl Client for Operator<'_> {
    fn prepare(&mut self) -> Option<Class> {
        let table = &self.run.table;
        self.class = self.run.mix.next(&mut self.random);
        self.number = if self.class == Class::Insert {
            table.dataset.next.fetch_add(1, Ordering::SeqCst)
        } else {
            let existing = table.dataset.acknowledged.load(Ordering::Acquire);
            self.chooser.next(existing, &mut self.random)
        };
        table.keys.write(self.number, &mut self.key);
        match self.class {
            Class::Scan => self.entries = 1 + Uniform::below(self.run.scan_entries_max, &mut self.random),
            class if class.writes() => self.values.draw(table.value_bytes),
            _ => {}
        }
        Some(self.class)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let table = &self.run.table;
        let mut outcome = Outcome { operations: 1, ..Outcome::default() };
        match self.class {
            Class::Scan => self.scan(session, &mut outcome)?,
            Class::Insert => {
                self.put(session, &mut outcome)?;
                table.acknowledgements.tell(&table.dataset, self.number);
            }
            Class::Update => self.put(session, &mut outcome)?,
            Class::Remove => {
                session.remove(&self.key, table.sync)?;
                outcome.written_bytes += self.key.len() as u64;
            }
            Class::ReadModifyWrite => {
                self.get(session, &mut outcome)?;
                self.put(session, &mut outcome)?;
            }
            // A mix of this workload has no other class.
            Class::Get | Class::Query | Class::Transaction | Class::Compact => self.get(session, &mut outcome)?,
        }
        Ok(outcome)
    }
}
