//! [`Mapping`], [`ReadMapping`]: a file mapped into memory, for stores and for reads.

use super::sync_in_flight::SyncInFlight;
use crate::error::Result;

/// The first bytes of a file, mapped for stores.
///
/// A store is in the page cache at once: reads of the file see it. It stays unsynced until a sync that begins later has
/// succeeded. The file must keep its length while it is mapped.
pub trait Mapping: Send + Sync + 'static {
    /// The mapping that this one decorates, if it is a decorator. Every method with a default passes its call on to it.
    fn inner(&self) -> Option<&dyn Mapping> {
        None
    }
    /// Stores `bytes` at `offset`. Threads may store at the same time, but not to the same bytes.
    ///
    /// # Panics
    /// When `offset + bytes.len()` is beyond the mapping.
    fn write(&self, offset: u64, bytes: &[u8]);
    /// Prefetches the bytes behind `end` into the processor's cache, as far as they are in memory: the next store, of
    /// about `bytes` bytes, is expected there. Changes nothing.
    fn approach(&self, end: u64, bytes: usize) {
        if let Some(inner) = self.inner() {
            inner.approach(end, bytes);
        }
    }
    /// Makes the pages of `[from, to)` resident, writable and dirty, so that stores to them do not fault until they are
    /// synced. Changes no byte.
    fn populate(&self, from: u64, to: u64) -> Result<()>;
    /// Takes the pages of `[from, to)` out of the mapping, before a sync of bytes that get no more stores. Taking them
    /// out in one call costs much less than a sync that write-protects each page. Changes no byte; a store there still
    /// works.
    fn release(&self, from: u64, to: u64);
    /// Makes the bytes `[from, to)` durable. Other bytes may become durable too: any page may, at any moment.
    fn sync_range(&self, from: u64, to: u64) -> Result<()>;
    /// Begins a [`Mapping::sync_range`] as [`super::File::begin_sync`] begins a sync.
    fn begin_sync_range(&self, from: u64, to: u64) -> Option<SyncInFlight> {
        self.inner()?.begin_sync_range(from, to)
    }
}

/// The first bytes of a file, mapped for reads: a read of bytes in memory makes no system call.
///
/// The mapping keeps the file's bytes, also after its handle is closed and its name removed.
pub trait ReadMapping: Send + Sync + 'static {
    /// Fills `buffer` with the bytes at `offset`. `false` when there are none, or when this read or an earlier one
    /// failed: the content of `buffer` is then undefined, and a read by position reports the error.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> bool;
    /// Prefetches the beginning of these bytes into the processor's cache, if they are in memory. Reads nothing.
    fn approach(&self, _offset: u64, _bytes: usize) {}
}
