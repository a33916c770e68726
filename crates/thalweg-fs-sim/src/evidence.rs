//! [`Evidence`]: the bytes that an object may have after a crash: only bytes written there, and no less than was
//! durable.

use crate::operation::{Operation, pattern_byte};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use thalweg_fs::{Allocation, Ino};

/// A change of a file's bytes.
#[derive(Clone, Debug)]
enum Change {
    Write { range: Range<u64>, version: u64 },
    Cut(u64),
    Zero(Range<u64>),
}

/// The bytes that a file had when they were durable.
#[derive(Clone, Debug)]
struct Floor {
    bytes: Rc<Vec<u8>>,
    /// The number of changes of all files before the bytes were durable.
    changes: u64,
}

/// The changes of files, over all lives.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    changes: BTreeMap<Ino, Vec<(u64, Change)>>,
    noted: u64,
    floors: BTreeMap<Ino, Floor>,
}

impl Evidence {
    /// Notes the next operation on a file of `size` bytes.
    pub fn note(&mut self, operation: &Operation, size: u64) {
        let (ino, change) = match operation {
            Operation::Write { ino, offset, length, version } => {
                let from = offset.unwrap_or(size);
                let Some(to) = from.checked_add(*length as u64) else { return };
                (*ino, Change::Write { range: from..to, version: *version })
            }
            Operation::Change(ino, change) => match change.size {
                Some(size) => (*ino, Change::Cut(size)),
                None => return,
            },
            Operation::Allocate { ino, what: Allocation::Punch | Allocation::Zero, offset, length, .. } => {
                (*ino, Change::Zero(*offset..offset.saturating_add(*length)))
            }
            _ => return,
        };
        self.noted += 1;
        self.changes.entry(ino).or_default().push((self.noted, change));
    }

    /// The number of changes recorded so far.
    pub fn noted(&self) -> u64 {
        self.noted
    }

    /// Records that a file is durable with its current bytes.
    pub fn is_durable(&mut self, ino: Ino, bytes: &Rc<Vec<u8>>) {
        self.was_durable(ino, bytes, self.noted);
    }

    /// Notes that a file was durable with these bytes, and how many changes of all files came before.
    pub fn was_durable(&mut self, ino: Ino, bytes: &Rc<Vec<u8>>, changes: u64) {
        self.floors.insert(ino, Floor { bytes: Rc::clone(bytes), changes });
    }

    /// Judges the bytes of an object after a power cut.
    ///
    /// # Errors
    /// Bytes that no operation wrote there, or less than was durable.
    pub fn judge(&self, ino: Ino, bytes: &[u8]) -> Result<(), String> {
        let changes = self.changes.get(&ino).map_or(&[][..], Vec::as_slice);
        let floor = self.floors.get(&ino);
        let since = floor.map_or(0, |floor| floor.changes);
        let later = || changes.iter().filter(move |(number, _)| *number > since).map(|(_, change)| change);
        let cut = later().filter_map(|change| if let Change::Cut(size) = change { Some(*size) } else { None }).min();
        let kept = floor.map_or(0, |floor| floor.bytes.len() as u64).min(cut.unwrap_or(u64::MAX));
        if (bytes.len() as u64) < kept {
            return Err(format!("object {ino} has {} bytes, and {kept} were durable", bytes.len()));
        }
        for (at, &byte) in (0_u64..).zip(bytes) {
            let old = floor.and_then(|floor| floor.bytes.get(at as usize).copied()).unwrap_or(0);
            let is_emptied = later().any(|change| match change {
                Change::Cut(size) => *size <= at,
                Change::Zero(range) => range.contains(&at),
                Change::Write { .. } => false,
            });
            let is_written = || {
                later().any(|change| match change {
                    Change::Write { range, version } => range.contains(&at) && pattern_byte(ino, at, *version) == byte,
                    _ => false,
                })
            };
            if byte != old && !(byte == 0 && is_emptied) && !is_written() {
                return Err(format!("object {ino} has {byte:#x} at {at}, where {old:#x} was durable"));
            }
        }
        Ok(())
    }
}
