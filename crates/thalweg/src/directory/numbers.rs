//! The numbers of the directories of a keyspace, ascending, in parts: so a listing of all of them takes little memory.
//!
//! A number is there if a memtable or a pack has a version of an entry of the directory, also a tombstone or a version
//! that is too new for the reader. The caller checks which directories have entries.

use super::index::DirectoryIndex;
use crate::error::Result;
use crate::format::{Cursor, EntryKey, NameHash, SeqNo, name_hash};
use crate::memtable::Memtable;
use std::sync::Arc;

/// The most numbers of a part. Each part goes over the whole index. A simulation has few directories.
const PART: usize = if cfg!(any(test, feature = "simulation")) { 64 } else { 1 << 18 };

impl DirectoryIndex {
    /// The least numbers of directories from `from` on, at most [`PART`]. The second value is the number from which the
    /// next part begins; `None`: there are no more. `memtables` were loaded before the call.
    pub(crate) fn numbers<'a>(
        &self,
        memtables: impl Iterator<Item = &'a Arc<Memtable>>,
        from: u64,
    ) -> Result<(Vec<u64>, Option<u64>)> {
        let mut least = Least::new(PART);
        for memtable in memtables {
            in_memtable(memtable, from, &mut least)?;
        }
        self.visit_directories(|directory| {
            if directory >= from {
                least.add(directory);
            }
        })?;
        let numbers = least.finish();
        let last = numbers.last().filter(|_| numbers.len() == PART);
        let next = last.and_then(|last| last.checked_add(1));
        Ok((numbers, next))
    }
}

/// Adds the directories of a memtable from `from` on, up to the first that is too great for the part.
fn in_memtable(memtable: &Arc<Memtable>, from: u64, least: &mut Least) -> Result<()> {
    let mut cursor = memtable.cursor();
    let mut next = Some(from);
    while let Some(from) = next {
        cursor.seek(&name_hash::prefix(from, NameHash(0)), SeqNo::MAX)?;
        if !cursor.valid() {
            break;
        }
        let Some(key) = EntryKey::decode(cursor.key()) else { unreachable!("a directory keyspace has entry keys") };
        if !least.add(key.directory) {
            break;
        }
        next = key.directory.checked_add(1);
    }
    Ok(())
}

/// The least of many numbers, each once.
struct Least {
    count: usize,
    numbers: Vec<u64>,
    /// This number and greater ones are not needed.
    end: Option<u64>,
}

impl Least {
    /// Keeps the `count` least numbers, `count` at least 1.
    fn new(count: usize) -> Self {
        Least { count, numbers: Vec::new(), end: None }
    }

    /// Adds a number, in any order and any number of times. Returns whether greater ones may be needed.
    fn add(&mut self, number: u64) -> bool {
        if self.end.is_some_and(|end| number >= end) {
            return false;
        }
        self.numbers.push(number);
        if self.numbers.len() >= 2 * self.count {
            self.cut();
        }
        true
    }

    fn cut(&mut self) {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.numbers.truncate(self.count);
        if self.numbers.len() == self.count {
            self.end = self.numbers.last().copied();
        }
    }

    /// The numbers, ascending.
    fn finish(mut self) -> Vec<u64> {
        self.cut();
        self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_least_numbers_are_kept_whatever_their_order() {
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..200 {
            let (count, range) = (random.usize(1..20), random.u64(1..100));
            let added: Vec<u64> = (0..random.usize(..300)).map(|_| random.u64(..range)).collect();
            let mut least = Least::new(count);
            for number in &added {
                least.add(*number);
            }
            let expected: Vec<u64> = added.into_iter().collect::<BTreeSet<_>>().into_iter().take(count).collect();
            assert_eq!(least.finish(), expected, "round {round}");
        }
    }
}
