//! Reads: [`Point`], [`Several`], [`Seek`] and [`Stretch`].

use super::shared::{Drawn, Numbered};
use crate::distribution::Random;
use crate::engine::Session;
use crate::error::Result;
use crate::workload::touch::touch;
use crate::workload::{Class, Client, Outcome};

/// A thread of `readrandom`, `readmissing` and `readwhilewriting`.
pub(super) struct Point {
    drawn: Drawn,
    missing: bool,
}

impl Point {
    /// Draws keys of records. `missing`: each key has one more byte, as in RocksDB, so that no key exists but each
    /// sorts right after the key of a record.
    pub fn new(workload: &Numbered, missing: bool, random: Random) -> Point {
        Point { drawn: Drawn::new(workload, random), missing }
    }
}

impl Client for Point {
    fn prepare(&mut self) -> Option<Class> {
        self.drawn.draw();
        if self.missing {
            self.drawn.key.push(b'0');
        }
        Some(Class::Get)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut read_bytes = 0;
        let found = session.get(&self.drawn.key, &mut |value| {
            touch(value);
            read_bytes = value.len() as u64;
        })?;
        Ok(Outcome { operations: 1, missing: u64::from(!found), read_bytes, ..Outcome::default() })
    }
}

/// A thread of `multireadrandom`. Each key counts as an operation.
pub(super) struct Several {
    drawn: Drawn,
    keys: Vec<Vec<u8>>,
}

impl Several {
    /// Draws keys of records, [`Numbered::keys_at_once`] at a time.
    pub fn new(workload: &Numbered, random: Random) -> Several {
        Several { drawn: Drawn::new(workload, random), keys: vec![Vec::new(); workload.keys_at_once() as usize] }
    }
}

impl Client for Several {
    fn prepare(&mut self) -> Option<Class> {
        for key in &mut self.keys {
            self.drawn.draw();
            key.clone_from(&self.drawn.key);
        }
        Some(Class::Get)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut read_bytes = 0;
        let found = session.multi_get(&self.keys, &mut |value| {
            touch(value);
            read_bytes += value.len() as u64;
        })?;
        let operations = self.keys.len() as u64;
        Ok(Outcome { operations, missing: operations.saturating_sub(found), read_bytes, ..Outcome::default() })
    }
}

/// A thread of `seekrandom`. Reads the entry that the seek finds and, with `scan_entries_max` above 1, the following
/// entries (RocksDB's `seek_nexts` is one less). A seek that does not find its key itself counts as missing, as in the
/// originals.
pub(super) struct Seek {
    drawn: Drawn,
    entries: u64,
}

impl Seek {
    /// Seeks keys of records.
    pub fn new(workload: &Numbered, random: Random) -> Seek {
        Seek { drawn: Drawn::new(workload, random), entries: workload.scan_entries }
    }
}

impl Client for Seek {
    fn prepare(&mut self) -> Option<Class> {
        self.drawn.draw();
        Some(Class::Scan)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut outcome = Outcome { operations: 1, missing: 1, ..Outcome::default() };
        let mut left = self.entries;
        session.scan(&self.drawn.key, &mut |key, value| {
            touch(value);
            if left == self.entries && key == self.drawn.key {
                outcome.missing = 0;
            }
            outcome.read_bytes += (key.len() + value.len()) as u64;
            left -= 1;
            left > 0
        })?;
        Ok(outcome)
    }
}

/// A thread of `readseq`: reads all entries in order, in stretches (10 000 entries, or `scan_entries_max`). Each
/// stretch is a scan of its own that begins after the last key of the previous one. After the last entry the thread
/// begins with the first again.
///
/// The originals keep one iterator open. Here each stretch begins a new scan, because a session returns no iterator,
/// and so that a client can stop in time. Each entry counts as an operation. The threads begin at equal distances, so
/// that together they read all entries, and no thread finds in a cache the entries that another has just read.
pub(super) struct Stretch {
    from: Vec<u8>,
    entries: u64,
}

impl Stretch {
    /// Begins with the first of the thread's share of the keys.
    pub fn new(workload: &Numbered, thread: usize, threads: usize) -> Stretch {
        let first = workload.records / threads.max(1) as u64 * thread as u64;
        let from = if first == 0 { Vec::new() } else { workload.keys.of(first) };
        Stretch { from, entries: workload.scan_entries }
    }

    fn read(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut last = Vec::with_capacity(64);
        session.scan(&self.from, &mut |key, value| {
            touch(value);
            outcome.operations += 1;
            outcome.read_bytes += (key.len() + value.len()) as u64;
            let more = outcome.operations < self.entries;
            if !more {
                last.extend_from_slice(key);
                last.push(0); // The least key above it.
            }
            more
        })?;
        // A stretch that was not full ended with the last entry.
        self.from = last;
        Ok(outcome)
    }
}

impl Client for Stretch {
    fn prepare(&mut self) -> Option<Class> {
        Some(Class::Scan)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        let continued = !self.from.is_empty();
        let mut outcome = self.read(session)?;
        if outcome.operations == 0 && continued {
            outcome = self.read(session)?;
        }
        if outcome.operations == 0 {
            // The database is empty: one read that found nothing.
            (outcome.operations, outcome.missing) = (1, 1);
        }
        Ok(outcome)
    }
}
