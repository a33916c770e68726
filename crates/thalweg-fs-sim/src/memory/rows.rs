//! [`MemoryRows`]: rows in ordered maps.

use super::disk::{Disk, MemoryDisk, failed};
use super::tables::{Change, Tables};
use std::sync::MutexGuard;
use thalweg::Slice;
use thalweg_fs::{
    Batch, Directories, Error, Ino, Listing, MetaStore, Operation, Promise, Result, RowReader, Rows, Space, WhenDurable,
};

/// One in this many commits makes some batches durable.
const DURABLE_ONE_IN: u64 = 8;

/// Rows of a [`MemoryDisk`].
pub struct MemoryRows {
    disk: MemoryDisk,
}

impl MemoryRows {
    pub(super) fn new(disk: MemoryDisk) -> Self {
        MemoryRows { disk }
    }

    fn live(&self) -> Result<MutexGuard<'_, Disk>> {
        let disk = self.disk.disk();
        disk.read()?;
        Ok(disk)
    }
}

impl RowReader for MemoryRows {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        let row = self.live()?.tables.entry(directory, name);
        self.disk.read_ended();
        Ok(row)
    }

    fn list(&self, directory: Ino, cursor: u64, _wanted: usize) -> Listing<'_> {
        match self.live() {
            Ok(disk) => Box::new(disk.tables.list(directory, cursor).into_iter()),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn directories(&self) -> Directories<'_> {
        match self.live() {
            Ok(disk) => Box::new(disk.tables.directories().into_iter()),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        let row = self.live()?.tables.spaces[space as usize].get(key).cloned();
        self.disk.read_ended();
        Ok(row)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        match self.live() {
            Ok(disk) => Box::new(disk.tables.rows(space, from, to).into_iter()),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }
}

/// A snapshot of the rows.
struct MemorySnapshot(Tables);

impl RowReader for MemorySnapshot {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        Ok(self.0.entry(directory, name))
    }

    fn list(&self, directory: Ino, cursor: u64, _wanted: usize) -> Listing<'_> {
        Box::new(self.0.list(directory, cursor).into_iter())
    }

    fn directories(&self) -> Directories<'_> {
        Box::new(self.0.directories().into_iter())
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        Ok(self.0.spaces[space as usize].get(key).cloned())
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        Box::new(self.0.rows(space, from, to).into_iter())
    }
}

impl MetaStore for MemoryRows {
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>> {
        Ok(Box::new(MemorySnapshot(self.live()?.tables.clone())))
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        let changes: Vec<Change> = batch
            .operations()
            .iter()
            .map(|operation| match operation {
                Operation::Entry { directory, name, row } => {
                    Change::Entry(*directory, (*name).into(), row.as_deref().map(Slice::from))
                }
                Operation::Row { space, key, row } => {
                    Change::Row(*space, key.clone(), row.as_ref().map(|row| Slice::from(&row[..])))
                }
            })
            .collect();
        let has_removal =
            changes.iter().any(|change| matches!(change, Change::Entry(.., None) | Change::Row(.., None)));
        let mut disk = self.disk.disk();
        disk.read()?;
        if disk.is_poisoned {
            return Err(Error::posix(libc::EROFS));
        }
        if disk.is_full && !(batch.frees_space() && has_removal) {
            return Err(Error::posix(libc::ENOSPC));
        }
        if disk.strikes() {
            disk.begin()?;
            disk.is_poisoned = true;
            disk.torn = disk.rng.one_in(2).then_some(changes);
            return Err(failed());
        }
        disk.change_surely(|disk| {
            disk.tables.apply(changes.clone());
            disk.pending.push_back(changes);
            disk.committed += 1;
            if disk.rng.one_in(DURABLE_ONE_IN) {
                let number = disk.durable_batches() + disk.rng.below(disk.pending.len() as u64 + 1);
                disk.make_durable(number);
            }
            Ok(())
        })
    }

    fn promise(&self) -> Result<Box<dyn Promise>> {
        let disk = self.live()?;
        if disk.is_poisoned {
            return Err(Error::posix(libc::EROFS));
        }
        let number = disk.committed;
        Ok(Box::new(MemoryPromise { disk: self.disk.clone(), number }))
    }

    fn close(&self) -> Result<()> {
        self.promise()?.wait()
    }
}

struct MemoryPromise {
    disk: MemoryDisk,
    number: u64,
}

impl Promise for MemoryPromise {
    fn is_durable(&self) -> bool {
        self.disk.disk().durable_batches() >= self.number
    }

    fn wait(&self) -> Result<()> {
        let mut disk = self.disk.disk();
        disk.read()?;
        if disk.is_poisoned {
            return Err(Error::posix(libc::EROFS));
        }
        if disk.strikes() {
            disk.begin()?;
            disk.is_poisoned = true;
            return Err(failed());
        }
        disk.change_surely(|disk| {
            disk.make_durable(self.number);
            Ok(())
        })
    }

    fn when_durable(&self, done: WhenDurable) {
        done(self.wait());
    }
}
