//! [`DirectoryClient`]: a thread that uses a directory keyspace of Thalweg. A key is the directory, 8 bytes, then the
//! name.

use super::overlapped::InFlight;
use super::translation::{durability, refused};
use super::{LookupsBy, Session};
use crate::error::{Error, Result};
use thalweg::{Database, DirectoryKeyspace};

/// A client of a directory keyspace.
pub(super) struct DirectoryClient {
    database: Database,
    keyspace: DirectoryKeyspace,
    /// The lookups in flight, of a workload that has several.
    in_flight: Option<InFlight>,
}

impl DirectoryClient {
    pub(super) fn new(database: Database, keyspace: DirectoryKeyspace) -> DirectoryClient {
        DirectoryClient { database, keyspace, in_flight: None }
    }
}

/// The directory and the name of a key.
fn entry(key: &[u8]) -> Result<(u64, &[u8])> {
    let split = key.split_first_chunk().filter(|(_, name)| !name.is_empty());
    let (directory, name) = split.ok_or_else(|| Error::Usage(ONLY_METADATA.into()))?;
    Ok((u64::from_be_bytes(*directory), name))
}

const ONLY_METADATA: &str = "a directory keyspace serves the metadata workloads only";

impl Session for DirectoryClient {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let (directory, name) = entry(key)?;
        let put = self.keyspace.insert_with(directory, name, value, durability(sync));
        put.map_err(|error| refused("put", error))
    }

    fn put_batch(&mut self, entries: &[(Vec<u8>, Vec<u8>)], sync: bool) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in entries {
            let (directory, name) = entry(key)?;
            let added = batch.insert_entry(&self.keyspace, directory, name, value);
            added.map_err(|error| refused("put", error))?;
        }
        batch.commit_with(durability(sync)).map_err(|error| refused("put", error))
    }

    fn remove(&mut self, key: &[u8], sync: bool) -> Result<()> {
        let (directory, name) = entry(key)?;
        let removed = self.keyspace.remove_with(directory, name, durability(sync));
        removed.map_err(|error| refused("remove", error))
    }

    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (directory, name) = entry(key)?;
        let found = self.keyspace.get(directory, name).map_err(|error| refused("get", error))?;
        found.iter().for_each(|found| value(found));
        Ok(found.is_some())
    }

    fn multi_get(&mut self, keys: &[Vec<u8>], value: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let entries = keys.iter().map(|key| entry(key)).collect::<Result<Vec<_>>>()?;
        let values = self.keyspace.multi_get(&entries).map_err(|error| refused("multi_get", error))?;
        values.iter().flatten().for_each(|found| value(found));
        Ok(values.iter().flatten().count() as u64)
    }

    fn get_overlapped(
        &mut self,
        key: &[u8],
        (by, depth): (LookupsBy, usize),
        value: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>> {
        let (directory, name) = entry(key)?;
        let in_flight = match &mut self.in_flight {
            Some(in_flight) => in_flight,
            None => self.in_flight.insert(InFlight::new(&self.keyspace, depth, by)?),
        };
        let Some(found) = in_flight.get(&self.keyspace, directory, name)? else { return Ok(None) };
        let found = found.map_err(|error| refused("get", error))?;
        found.iter().for_each(|found| value(found));
        Ok(Some(found.is_some()))
    }

    /// Lists the directory whose number is the whole key `from`.
    fn scan(&mut self, from: &[u8], entry: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let directory: [u8; 8] = from.try_into().map_err(|_| Error::Usage(ONLY_METADATA.into()))?;
        let mut key = directory.to_vec();
        for next in self.keyspace.list(u64::from_be_bytes(directory)) {
            let next = next.map_err(|error| refused("list", error))?;
            key.truncate(directory.len());
            key.extend_from_slice(next.name());
            if !entry(&key, &next.value().map_err(|error| refused("list", error))?) {
                break;
            }
        }
        Ok(())
    }
}
