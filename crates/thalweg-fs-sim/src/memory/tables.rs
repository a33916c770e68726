//! [`Tables`]: rows in ordered maps.

use std::collections::BTreeMap;
use std::ops::Bound;
use thalweg::Slice;
use thalweg_fs::{Ino, Listed, Result, Space};

/// A change of one row.
#[derive(Clone)]
pub(super) enum Change {
    Entry(Ino, Box<[u8]>, Option<Slice>),
    Row(Space, Vec<u8>, Option<Slice>),
}

/// All rows.
#[derive(Clone)]
pub(super) struct Tables {
    names: BTreeMap<(Ino, u64, Box<[u8]>), Slice>,
    pub spaces: [BTreeMap<Vec<u8>, Slice>; Space::ALL.len()],
    has_twins: bool,
}

impl Tables {
    pub(super) fn new(has_twins: bool) -> Self {
        Tables { names: BTreeMap::new(), spaces: Default::default(), has_twins }
    }

    /// The cursor of a name in a listing, from 3 on. With twins there are only five cursors.
    fn cursor(&self, name: &[u8]) -> u64 {
        let hash = name.iter().fold(17_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        3 + if self.has_twins { hash % 5 } else { hash >> 2 }
    }

    pub(super) fn apply(&mut self, batch: Vec<Change>) {
        for change in batch {
            match change {
                Change::Entry(directory, name, row) => {
                    let key = (directory, self.cursor(&name), name);
                    match row {
                        Some(row) => self.names.insert(key, row),
                        None => self.names.remove(&key),
                    };
                }
                Change::Row(space, key, Some(row)) => _ = self.spaces[space as usize].insert(key, row),
                Change::Row(space, key, None) => _ = self.spaces[space as usize].remove(&key),
            }
        }
    }

    pub(super) fn entry(&self, directory: Ino, name: &[u8]) -> Option<Slice> {
        self.names.get(&(directory, self.cursor(name), name.into())).cloned()
    }

    pub(super) fn list(&self, directory: Ino, cursor: u64) -> Vec<Result<Listed>> {
        let from = (directory, cursor.saturating_add(1), Box::from(&b""[..]));
        let rows = self.names.range(from..).take_while(|((of, ..), _)| *of == directory);
        rows.map(|((_, cursor, name), row)| Ok(Listed { name: name.clone(), row: row.clone(), cursor: *cursor }))
            .collect()
    }

    pub(super) fn directories(&self) -> Vec<Result<Ino>> {
        let mut all: Vec<Ino> = self.names.keys().map(|(directory, ..)| *directory).collect();
        all.dedup();
        all.into_iter().map(Ok).collect()
    }

    pub(super) fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Vec<Result<(Slice, Slice)>> {
        if from >= to {
            return Vec::new();
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let rows = self.spaces[space as usize].range::<[u8], _>(range);
        rows.map(|(key, row)| Ok((Slice::from(key.as_slice()), row.clone()))).collect()
    }
}
