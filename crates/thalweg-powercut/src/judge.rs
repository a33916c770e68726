//! The judge: finds the prefix of the writes after which a state is as found.
//!
//! Three things must hold after a power cut. Everything promised is there. Everything found was written, byte for byte.
//! The contents are the state after some prefix of the writes that is not shorter than the promise. So no batch is
//! torn, and no removed key and no old version has come back.

use crate::workload::{FILES, KEYSPACES, Workload, directories, key_of};
use std::collections::HashMap;
use thalweg::{Error, ReadOnlyDatabase, Readable};

/// How far beyond the newest value found a prefix may end: removals leave no value.
const BEYOND: u64 = 512;
/// The greatest number of differences in a message.
const LISTED: usize = 5;

/// The number of the write that wrote a value, and the value's place in it.
pub type Origin = (u64, usize);

/// The contents of a database: the origin of each value, by keyspace and key.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    entries: HashMap<(usize, Vec<u8>), Origin>,
}

impl Found {
    /// Reads everything in every way: forwards, backwards and key by key.
    ///
    /// # Errors
    /// The fault: a read that fails, a value that no write put there, two reads that differ.
    pub fn read(database: &ReadOnlyDatabase, workload: Workload) -> Result<Self, String> {
        let mut found = Found::default();
        found.read_files(database, workload)?;
        for (index, name) in KEYSPACES.iter().take(FILES).enumerate() {
            let failed = |error: Error| format!("a read of {name} failed: {error}");
            let Some(keyspace) = database.existing_keyspace(name).map_err(failed)? else { continue };
            let mut forwards = Vec::new();
            for entry in keyspace.iter() {
                let (key, value) = entry.map_err(failed)?;
                let told = String::from_utf8_lossy(&key).into_owned();
                let origin = workload.origin(index, &key, &value);
                let origin = origin.ok_or_else(|| format!("{name}/{told} has a value that nobody wrote"))?;
                if keyspace.get(&key).map_err(failed)?.as_deref() != Some(&*value) {
                    return Err(format!("a get of {name}/{told} differs from the scan"));
                }
                forwards.push((key.to_vec(), value.to_vec()));
                found.entries.insert((index, key.to_vec()), origin);
            }
            let mut backwards = Vec::new();
            for entry in keyspace.iter().rev() {
                let (key, value) = entry.map_err(failed)?;
                backwards.push((key.to_vec(), value.to_vec()));
            }
            backwards.reverse();
            if forwards != backwards {
                return Err(format!("a scan of {name} backwards differs from one forwards"));
            }
        }
        Ok(found)
    }

    /// Reads every directory: as a listing, entry by entry, and all entries at once.
    fn read_files(&mut self, database: &ReadOnlyDatabase, workload: Workload) -> Result<(), String> {
        let name = KEYSPACES[FILES];
        let failed = |error: Error| format!("a read of {name} failed: {error}");
        let Some(files) = database.existing_directory_keyspace(name).map_err(failed)? else { return Ok(()) };
        let (mut listed, mut values) = (Vec::new(), Vec::new());
        for directory in directories() {
            for entry in files.list(directory) {
                let entry = entry.map_err(failed)?;
                let value = entry.value().map_err(failed)?;
                let (key, told) = (key_of(directory, entry.name()), String::from_utf8_lossy(entry.name()).into_owned());
                let origin = workload.origin(FILES, &key, &value);
                let origin =
                    origin.ok_or_else(|| format!("{name}/{directory}/{told} has a value that nobody wrote"))?;
                if files.get(directory, entry.name()).map_err(failed)?.as_deref() != Some(&*value) {
                    return Err(format!("a get of {name}/{directory}/{told} differs from the listing"));
                }
                if self.entries.insert((FILES, key), origin).is_some() {
                    return Err(format!("{name}/{directory}/{told} is listed twice"));
                }
                listed.push((directory, entry.name().to_vec()));
                values.push(Some(value));
            }
        }
        if files.multi_get(&listed).map_err(failed)? != values {
            return Err(format!("a multi_get of {name} differs from the listing"));
        }
        Ok(())
    }

    /// The number of keys with a value.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the longest prefix of the writes after which the database has this state.
    ///
    /// # Errors
    /// The fault: there is no such prefix, or it is shorter than `promised`.
    pub fn prefix(&self, workload: Workload, promised: u64) -> Result<u64, String> {
        let newest = self.entries.values().map(|(number, _)| *number).max().unwrap_or(0);
        let mut state = State::default();
        // The number of keys that differ between the state after this write and the state found.
        let mut differing = self.entries.len();
        let mut equal = (differing == 0).then_some(0);
        let mut nearest = (differing, 0);
        for number in 1..=newest.max(promised).saturating_add(BEYOND) {
            for (key, origin) in changes_of(workload, number) {
                let wanted = self.entries.get(&key);
                let was_equal = state.entries.get(&key) == wanted;
                match origin {
                    Some(origin) => state.entries.insert(key, origin),
                    None => state.entries.remove(&key),
                };
                let is_equal = origin.as_ref() == wanted;
                differing = differing + usize::from(was_equal) - usize::from(is_equal);
            }
            if differing == 0 {
                equal = Some(number);
            }
            // A nearest state far from the promise would explain nothing.
            if number >= promised && (differing < nearest.0 || nearest.1 < promised) {
                nearest = (differing, number);
            }
        }
        match equal {
            Some(prefix) if prefix >= promised => Ok(prefix),
            Some(prefix) => {
                Err(format!("a promise is lost: write {promised} was durable, found only those up to {prefix}"))
            }
            None => Err(self.no_prefix(workload, nearest)),
        }
    }

    fn no_prefix(&self, workload: Workload, (differing, nearest): (usize, u64)) -> String {
        let mut state = State::default();
        for number in 1..=nearest {
            for (key, origin) in changes_of(workload, number) {
                match origin {
                    Some(origin) => state.entries.insert(key, origin),
                    None => state.entries.remove(&key),
                };
            }
        }
        let mut keys: Vec<_> = self.entries.keys().chain(state.entries.keys()).collect();
        keys.sort();
        keys.dedup();
        let say = |origin: Option<&Origin>| match origin {
            Some((number, place)) => format!("value {place} of write {number}"),
            None => "nothing".to_owned(),
        };
        let mut told = Vec::new();
        for key in keys {
            let (found, expected) = (self.entries.get(key), state.entries.get(key));
            if found != expected && told.len() < LISTED {
                let name = KEYSPACES.get(key.0).copied().unwrap_or_default();
                let key = String::from_utf8_lossy(&key.1);
                told.push(format!("{name}/{key} has {}, not {}", say(found), say(expected)));
            }
        }
        let told = told.join("; ");
        format!("no prefix of the writes: nearest is that up to {nearest}, from which {differing} keys differ: {told}")
    }
}

#[derive(Default)]
struct State {
    entries: HashMap<(usize, Vec<u8>), Origin>,
}

/// The changes of a write to each key, in its order.
fn changes_of(workload: Workload, number: u64) -> impl Iterator<Item = ((usize, Vec<u8>), Option<Origin>)> {
    let changes = workload.write(number).changes.into_iter().enumerate();
    changes.map(move |(place, change)| ((change.keyspace, change.key), change.length.map(|_| (number, place))))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload { seed: 3 };

    fn after(prefix: u64) -> Found {
        let mut found = Found::default();
        for number in 1..=prefix {
            for (key, origin) in changes_of(WORKLOAD, number) {
                match origin {
                    Some(origin) => found.entries.insert(key, origin),
                    None => found.entries.remove(&key),
                };
            }
        }
        found
    }

    #[test]
    fn a_state_is_known_by_its_prefix() {
        for prefix in [0, 1, 2, 40, 999, 3000] {
            let known = after(prefix).prefix(WORKLOAD, prefix).unwrap();
            // A removal of a missing key leaves the same state.
            assert!(known == prefix || after(known) == after(prefix), "{prefix}: {known}");
        }
    }

    #[test]
    fn a_promise_beyond_the_state_is_lost() {
        let fault = after(1000).prefix(WORKLOAD, 1010).unwrap_err();
        assert!(fault.starts_with("a promise is lost: write 1010 was durable, found only those up to 100"), "{fault}");
        assert!(after(0).prefix(WORKLOAD, 30).unwrap_err().starts_with("a promise is lost"));
    }

    #[test]
    fn a_removed_key_that_comes_back_is_found() {
        let mut found = after(2000);
        let older = after(300);
        let key = older.entries.keys().find(|key| !found.entries.contains_key(*key)).unwrap().clone();
        let origin = older.entries[&key];
        found.entries.insert(key, origin);
        let fault = found.prefix(WORKLOAD, 2000).unwrap_err();
        assert!(fault.contains("from which 1 keys differ") && fault.contains("not nothing"), "{fault}");
    }

    #[test]
    fn an_old_version_that_comes_back_is_found() {
        let mut found = after(2000);
        let older = after(300);
        let (key, origin) = older
            .entries
            .iter()
            .find(|(key, origin)| found.entries.get(*key).is_some_and(|now| now != *origin))
            .unwrap();
        found.entries.insert(key.clone(), *origin);
        assert!(found.prefix(WORKLOAD, 0).unwrap_err().starts_with("no prefix of the writes"));
    }

    #[test]
    fn a_torn_batch_is_found() {
        let batch = (500..).find(|number| changes_of(WORKLOAD, *number).count() > 5).unwrap();
        let mut found = after(batch - 1);
        let (key, origin) = changes_of(WORKLOAD, batch).find(|(_, origin)| origin.is_some()).unwrap();
        found.entries.insert(key, origin.unwrap());
        assert!(found.prefix(WORKLOAD, batch - 1).unwrap_err().starts_with("no prefix of the writes"));
    }
}
