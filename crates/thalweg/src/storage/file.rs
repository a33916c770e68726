//! [`File`]: an open file.

use super::mapping::{Mapping, ReadMapping};
use super::sync_in_flight::SyncInFlight;
use crate::error::{Error, Result};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An open file. Reads and writes carry their position, so threads may share a handle.
///
/// Each handle from an `open` call reports a failed write-back once; clones of one `Arc` share one report.
///
/// A *hint* promises nothing: the storage may do nothing about it, and it never fails.
pub trait File: Send + Sync + 'static {
    /// The file that this one decorates, if it is a decorator. Every method with a default passes its call on to it.
    fn inner(&self) -> Option<&dyn File> {
        None
    }
    /// The path that the file was opened with, for errors.
    fn path(&self) -> &Path;
    /// Reads up to `buffer.len()` bytes at `offset`. Any read may be shorter; it gives 0 bytes only at the end of the
    /// file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// A hint that these bytes will be read soon: the device may begin to read them. Does not wait.
    fn will_need(&self, offset: u64, bytes: u64) {
        if let Some(inner) = self.inner() {
            inner.will_need(offset, bytes);
        }
    }
    /// A hint that reads come in random order: the kernel should not read ahead.
    fn expect_random_reads(&self) {
        if let Some(inner) = self.inner() {
            inner.expect_random_reads();
        }
    }
    /// Whether all of these bytes are in the page cache. Reads nothing. `None` where that is not known.
    fn is_cached(&self, offset: u64, bytes: u64) -> Option<bool> {
        self.inner()?.is_cached(offset, bytes)
    }
    /// A hint that these bytes are not read again: the page cache may drop them. Changes no byte.
    fn forget_cached(&self, offset: u64, bytes: u64) {
        if let Some(inner) = self.inner() {
            inner.forget_cached(offset, bytes);
        }
    }
    /// The number of names that the file has; `None` where that is not known. A file without a name never gets one
    /// again.
    fn links(&self) -> Result<Option<u64>> {
        self.inner().map_or(Ok(None), File::links)
    }
    /// Writes all of `bytes` at `offset`, and extends the file where needed. After an error any part may be written.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Begins to write these bytes to the device, so that a later sync has little left to do. Does not wait.
    ///
    /// After an error any of these bytes may be lost for good, and no later sync need report it: the kernel reports the
    /// failure only to the caller that began the write-back.
    fn begin_write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.begin_write_back(offset, bytes))
    }
    /// Whether every byte of a file that was written out or synced lies in a written block. `false` when the kernel
    /// lost some of the file and reported it to nobody. `None` where that is not known.
    fn is_written_whole(&self) -> Option<bool> {
        self.inner()?.is_written_whole()
    }
    /// Writes every byte of the file to the device, and waits. Reports failed write-backs as a sync does. This alone
    /// does not make the bytes durable: the device may keep them in a volatile cache, and the length may not be
    /// committed.
    fn write_out(&self) -> Result<()> {
        self.inner().map_or_else(|| self.sync(), File::write_out)
    }
    /// Makes the file's bytes and length durable, not its name.
    fn sync(&self) -> Result<()>;
    /// Begins a [`File::sync`] that takes time and for which no thread waits, as an io_uring does. Simulations that
    /// have rings support it. `None` elsewhere: the caller hands the descriptor to a ring or calls [`File::sync`].
    fn begin_sync(&self) -> Option<SyncInFlight> {
        self.inner()?.begin_sync()
    }
    /// The length in bytes.
    fn bytes(&self) -> Result<u64>;
    /// Cuts the file, or extends it with zeros.
    fn set_bytes(&self, bytes: u64) -> Result<()>;
    /// Maps the first `bytes` of the file for stores. `Ok(None)` where a store could fail: where blocks are missing,
    /// or the file system does not overwrite in place. The caller then writes by position. The mapping and this
    /// handle share the report of a failed write-back.
    fn map(&self, bytes: u64) -> Result<Option<Arc<dyn Mapping>>> {
        self.inner().map_or(Ok(None), |inner| inner.map(bytes))
    }
    /// Maps the first `bytes` of the file for reads; the file must not change. `None` where that is impossible or
    /// fails: the caller then reads by position.
    fn map_for_reads(&self, bytes: u64) -> Option<Arc<dyn ReadMapping>> {
        self.inner()?.map_for_reads(bytes)
    }
    /// Allocates space for the first `bytes` bytes, so that writes there allocate nothing and, if this grew the length,
    /// extend nothing. May do nothing. Reports a full disk.
    fn reserve(&self, bytes: u64) -> Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.reserve(bytes))
    }
    /// Allocates blocks for the first `bytes` bytes of a new file, and extends its length. They read as zeros, and the
    /// file may be mapped ([`File::map`]) although nothing was written. `false` where that is impossible: the caller
    /// then writes zeros. Reports a full disk.
    fn allocate(&self, bytes: u64) -> Result<bool> {
        self.inner().map_or(Ok(false), |inner| inner.allocate(bytes))
    }
    /// Whether reads and writes bypass the page cache, and writes must be aligned.
    fn is_direct(&self) -> bool {
        self.inner().is_some_and(File::is_direct)
    }
    /// The descriptor, for operations that are handed to the kernel and awaited; `None` in a simulation.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner()?.descriptor()
    }
    /// The same file with a descriptor that stays open while the value lives. `None` where this file's own descriptor
    /// stays open, or where the file cannot be opened.
    fn held(&self) -> Option<Arc<dyn File>> {
        self.inner()?.held()
    }
    /// Counts a sync of `ns` nanoseconds that the caller made on the descriptor instead of by [`File::sync`].
    fn count_sync(&self, ns: u64) {
        if let Some(inner) = self.inner() {
            inner.count_sync(ns);
        }
    }
    /// The time that is added to each sync, for measurements. A caller that syncs the descriptor itself waits for this
    /// time too.
    fn sync_delay(&self) -> Duration {
        self.inner().map_or(Duration::ZERO, File::sync_delay)
    }
}

impl dyn File {
    /// Reads exactly `buffer.len()` bytes; [`Error::Corruption`] when the file ends before.
    pub(crate) fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(offset + done as u64, rest)? {
                0 => {
                    return Err(Error::corruption(
                        self.path(),
                        offset + done as u64,
                        format!("{} more bytes", rest.len()),
                        "the end of the file",
                    ));
                }
                n => done += n,
            }
        }
        Ok(())
    }
}
