//! The workload: the write of number n of a seed follows from these two numbers alone.
//!
//! Writes are numbered from 1 and made in this order by one thread, so the states that a crash may leave are exactly
//! those after a prefix of the writes. A value names its seed, its write and its place in it, so no two are equal: a
//! value found shows which write put it there, and whether each of its bytes is right.

use crate::random::Random;
use thalweg::Durability;

/// The keyspaces: one cut into partitions, one whole, one that is seldom written and so pins the log, and one of
/// directories.
pub const KEYSPACES: [&str; 4] = ["split", "whole", "cold", "files"];

/// The index of the directory keyspace. Its keys are the number of a directory (8 bytes, big-endian), then the name.
pub const FILES: usize = 3;

/// The first keys of all partitions of the first keyspace except the first.
pub const SPLITS: [&[u8]; 2] = [b"02000", b"04000"];

/// Keys of each keyspace but the cold one.
const KEYS: u64 = 6000;
/// The number of names in directory 0; each other directory has a few.
const LARGE_DIRECTORY: u64 = 1500;
const DIRECTORY_NAMES: u64 = 20;
const COLD_KEYS: u64 = 50;
/// Writes of a phase: they have the same durabilities and the same hot keys.
const PHASE_WRITES: u64 = 1024;
/// Writes of a cycle; a seed has one of these lengths. With odd seeds the second half of a cycle is a *shrink phase*,
/// which removes most keys, so that split partitions merge. An image covers a thousand writes on a slow file system,
/// and ten thousand on a fast one.
const CYCLE_WRITES: [u64; 4] = [1280, 2560, 5120, 10_240];
/// Bytes of seed, number, place and length at the head of a value.
const VALUE_HEAD: usize = 24;

/// One key that gets a value, or loses it.
#[derive(Debug)]
pub struct Change {
    /// Index in [`KEYSPACES`].
    pub keyspace: usize,
    /// The key.
    pub key: Vec<u8>,
    /// Length of the value; `None`: the key is removed.
    pub length: Option<usize>,
}

/// One write: visible and durable as a whole.
#[derive(Debug)]
pub struct Write {
    /// Its number, from 1.
    pub number: u64,
    /// In the order of the batch.
    pub changes: Vec<Change>,
    /// The durability with which the write returns.
    pub durability: Durability,
    /// Whether the writer calls `persist` after it.
    pub persist: bool,
}

/// The workload of a seed.
#[derive(Clone, Copy)]
pub struct Workload {
    /// The seed, which determines everything.
    pub seed: u64,
}

impl Workload {
    /// Write `number`.
    pub fn write(self, number: u64) -> Write {
        let mut random = Random::of(self.seed, number);
        let mut phase = Random::of(self.seed, u64::MAX - number / PHASE_WRITES);
        // Phases with few promises matter too: the background then has the disk for itself.
        let sync_one_in = phase.pick(&[8, 60, 600, 6000]);
        let persist_one_in = phase.pick(&[100, 400, 1000, 10_000]);
        let hot = phase.below(KEYS - 300);
        let changes = match random.below(100) {
            0..99 if self.in_shrink_phase(number) => (0..16).map(|_| shrinking_change(&mut random)).collect(),
            0..58 => vec![change(&mut random, hot, 0)],
            58..68 => vec![change(&mut random, hot, 100)],
            68..99 => (0..2 + random.below(8)).map(|_| change(&mut random, hot, 20)).collect(),
            _ => vec![cold_change(&mut random)],
        };
        let sync = random.below(sync_one_in) == 0;
        Write {
            number,
            changes,
            durability: if sync { Durability::Sync } else { Durability::Buffered },
            persist: random.below(persist_one_in) == 0,
        }
    }

    /// Whether write `number` is in a shrink phase.
    fn in_shrink_phase(self, number: u64) -> bool {
        let cycle_writes = Random::of(self.seed, u64::MAX / 2).pick(&CYCLE_WRITES);
        !self.seed.is_multiple_of(2) && number % cycle_writes >= cycle_writes / 2
    }

    /// The value that change `place` of write `number` puts, of `length` bytes.
    pub fn value(self, number: u64, place: usize, length: usize) -> Vec<u8> {
        let mut value = Vec::with_capacity(length);
        value.extend_from_slice(&self.seed.to_be_bytes());
        value.extend_from_slice(&number.to_be_bytes());
        value.extend_from_slice(&(place as u32).to_be_bytes());
        value.extend_from_slice(&(length as u32).to_be_bytes());
        let mut random = Random::of(self.seed ^ number, place as u64);
        let once = random.number();
        while value.len() < length {
            // Half of the values compress.
            let word = if number.is_multiple_of(2) { once } else { random.number() };
            let left = length - value.len();
            value.extend(word.to_be_bytes().into_iter().take(left));
        }
        value
    }

    /// Returns the write that put this value under this key, and the value's place in it; `None`: no write did.
    pub fn origin(self, keyspace: usize, key: &[u8], value: &[u8]) -> Option<(u64, usize)> {
        let seed = u64::from_be_bytes(value.get(..8)?.try_into().ok()?);
        let number = u64::from_be_bytes(value.get(8..16)?.try_into().ok()?);
        let place = u32::from_be_bytes(value.get(16..20)?.try_into().ok()?) as usize;
        if seed != self.seed || number == 0 {
            return None;
        }
        let write = self.write(number);
        let change = write.changes.get(place)?;
        let length = change.length?;
        let is_ours = change.keyspace == keyspace && change.key == key && self.value(number, place, length) == value;
        is_ours.then_some((number, place))
    }
}

/// The directories that may have entries.
pub fn directories() -> impl Iterator<Item = u64> {
    std::iter::once(0).chain(LARGE_DIRECTORY / DIRECTORY_NAMES..KEYS.div_ceil(DIRECTORY_NAMES))
}

/// The directory and the name of a key of [`FILES`].
pub fn entry_of(key: &[u8]) -> Option<(u64, &[u8])> {
    let (directory, name) = key.split_first_chunk()?;
    Some((u64::from_be_bytes(*directory), name))
}

/// The key of an entry.
pub fn key_of(directory: u64, name: &[u8]) -> Vec<u8> {
    [&directory.to_be_bytes(), name].concat()
}

/// The key with this number.
fn key(keyspace: usize, number: u64) -> Vec<u8> {
    let name = format!("{number:05}").into_bytes();
    let directory = if number < LARGE_DIRECTORY { 0 } else { number / DIRECTORY_NAMES };
    if keyspace == FILES { key_of(directory, &name) } else { name }
}

/// One of the keyspaces that are written often.
fn often_written(random: &mut Random) -> usize {
    random.pick(&[0, 0, 1, FILES])
}

fn change(random: &mut Random, hot: u64, removals_percent: u64) -> Change {
    let keyspace = often_written(random);
    let number = if random.percent(50) { hot + random.below(300) } else { random.below(KEYS) };
    let length = if random.percent(removals_percent) { None } else { Some(length(random)) };
    Change { keyspace, key: key(keyspace, number), length }
}

/// A change of a shrink phase: a removal of any key in 98 of 100 cases.
fn shrinking_change(random: &mut Random) -> Change {
    let (keyspace, number) = (often_written(random), random.below(KEYS));
    let length = if random.percent(2) { Some(length(random)) } else { None };
    Change { keyspace, key: key(keyspace, number), length }
}

fn cold_change(random: &mut Random) -> Change {
    let key = format!("{:02}", random.below(COLD_KEYS)).into_bytes();
    Change { keyspace: 2, key, length: Some(length(random)) }
}

/// Mostly small; some larger than a block of a table, a few larger than a block of the log.
fn length(random: &mut Random) -> usize {
    let more = match random.below(1000) {
        0..700 => random.below(200),
        700..992 => random.below(1500),
        992..998 => 4096 + random.below(12 << 10),
        _ => (30 << 10) + random.below(40 << 10),
    };
    VALUE_HEAD + more as usize
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_the_write_that_put_it_and_no_changed_byte_passes() {
        let workload = Workload { seed: 7 };
        let write = (1..).map(|number| workload.write(number)).find(|write| write.changes.len() > 2).unwrap();
        let (place, change) = write.changes.iter().enumerate().find(|(_, change)| change.length.is_some()).unwrap();
        let mut value = workload.value(write.number, place, change.length.unwrap());
        assert_eq!(workload.origin(change.keyspace, &change.key, &value), Some((write.number, place)));
        assert_eq!(workload.origin((change.keyspace + 1) % 4, &change.key, &value), None, "another keyspace");
        assert_eq!(workload.origin(change.keyspace, b"99999", &value), None, "another key");
        for at in 0..value.len() {
            value[at] ^= 1;
            assert_eq!(workload.origin(change.keyspace, &change.key, &value), None, "byte {at} is wrong");
            value[at] ^= 1;
        }
    }

    #[test]
    fn every_kind_of_write_comes_soon() {
        let writes: Vec<Write> = (1..20_000).map(|number| Workload { seed: 1 }.write(number)).collect();
        let any = |is: &dyn Fn(&Write) -> bool| writes.iter().any(is);
        assert!(any(&|write| write.durability == Durability::Sync && write.changes.len() == 1));
        assert!(any(&|write| write.durability == Durability::Buffered && write.changes.len() == 9));
        assert!(any(&|write| write.persist));
        assert!(any(&|write| write.changes.iter().all(|change| change.length.is_none())));
        assert!(any(&|write| write.changes.iter().any(|change| change.keyspace == 2)));
        assert!(any(&|write| write.changes.iter().any(|change| change.length > Some(32 << 10))));
        assert!(any(&|write| {
            let of = |keyspace| write.changes.iter().any(|change| change.keyspace == keyspace);
            of(0) && of(1) && of(FILES)
        }));
        let directories: Vec<u64> = directories().collect();
        for change in writes.iter().flat_map(|write| &write.changes).filter(|change| change.keyspace == FILES) {
            assert!(directories.contains(&entry_of(&change.key).unwrap().0), "{change:?}");
        }
    }
}
