//! [`BackgroundFile`], [`BackgroundDirectory`]: files and directories for background coroutines.
//!
//! On a worker with a ring, reads, direct writes, syncs, reservations and new lengths are handed to the kernel, and the
//! coroutine waits for the completion. The write-back that follows a write into the page cache is handed over, too.
//! Elsewhere (in simulation, or on a kernel without io_uring) the worker makes the call itself, with a yield before and
//! after it.
//!
//! An operation owns its buffer, so dropping a coroutine frees no memory that the kernel still uses.

use super::gate::AdmittedRead;
use super::gate::Gate;
use super::ring::{self, Done, Operation, Request};
use super::scheduler::yield_now;
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use crate::storage::{ALIGNMENT, File, IoBuffer, Mapping, Storage};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the kernel's rings have refused [`Operation::SetBytes`]. Another try would delay what is submitted with it.
static SET_BYTES_IS_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// A sync or write-out gives the device at most this many bytes at once, because reads wait behind them.
const PIECE_BYTES: u32 = 1 << 20;

/// Cuts `[from, to)` where the offset is a multiple of [`PIECE_BYTES`], so that no page is in two pieces. Returns the
/// offset and the bytes of each piece but the last.
fn pieces(from: u64, to: u64) -> impl Iterator<Item = (u64, u32)> {
    let rest = move |at: u64| PIECE_BYTES - (at % u64::from(PIECE_BYTES)) as u32;
    let starts = std::iter::successors(Some(from), move |at| Some(at + u64::from(rest(*at))));
    starts.map(move |at| (at, rest(at))).take_while(move |(at, bytes)| at + u64::from(*bytes) < to)
}

/// A file with asynchronous reads, writes and syncs.
#[derive(Clone)]
pub(crate) struct BackgroundFile {
    file: Arc<dyn File>,
    /// Whether a write into the page cache leaves the write-back to the sync.
    is_late: bool,
}

impl BackgroundFile {
    pub(crate) fn new(file: Arc<dyn File>) -> Self {
        BackgroundFile { file, is_late: false }
    }

    /// The same file, whose writes into the page cache begin no write-back.
    pub(crate) fn written_late(self) -> Self {
        BackgroundFile { is_late: true, ..self }
    }

    /// The file itself, for foreground use.
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The path of the file, for errors.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads from `offset` on as many bytes as the buffer's length says, or up to the end of the file. The length of
    /// the returned buffer is the number of bytes read. `gate` counts the read while it is at the device.
    pub(crate) async fn read(&self, gate: &Arc<Gate>, offset: u64, mut buffer: IoBuffer) -> Result<IoBuffer> {
        let (mut done, wanted) = (0, buffer.len());
        while done < wanted {
            let admitted = Some(gate.background_read());
            match self.hand_over(Operation::Read, offset, Some(buffer), done, admitted).await {
                Ok(Done { request: Request { buffer: Some(filled), .. }, result, ns }) => {
                    let count = result.map_err(|error| Error::io("read", self.path(), error))?;
                    gate.count_read(ns);
                    done += count;
                    buffer = filled;
                    // A direct read that ends off the alignment has reached the end of the file.
                    if count == 0 || (self.file.is_direct() && !done.is_multiple_of(ALIGNMENT)) {
                        buffer.set_len(done);
                        return Ok(buffer);
                    }
                }
                Err(Some(back)) => {
                    buffer = back;
                    break;
                }
                Ok(_) | Err(None) => unreachable!("a read without its buffer"),
            }
        }
        if done == 0 {
            yield_now().await;
        }
        let _at_the_device = gate.background_read();
        while let Some(rest) = buffer.bytes_mut().get_mut(done..wanted).filter(|rest| !rest.is_empty()) {
            match gate.time(Gate::count_read, || self.file.read_at(offset + done as u64, rest))? {
                0 => break,
                count => done += count,
            }
        }
        buffer.set_len(done);
        Ok(buffer)
    }

    /// Writes the filled bytes of `buffer` at `offset`, and releases the buffer. `gate` counts the time. A caller whose
    /// writes the gate admits has asked it before.
    pub(crate) async fn write(&self, gate: &Gate, offset: u64, mut buffer: IoBuffer) -> Result<()> {
        let mut done = 0;
        while self.file.is_direct() {
            match self.hand_over(Operation::Write, offset, Some(buffer), done, None).await {
                Ok(Done { request: Request { buffer: Some(written), .. }, result, ns }) => {
                    let failed = |error| Error::io("write to", self.path(), error);
                    let count = result.map_err(failed)?;
                    gate.count_write(ns);
                    buffer = written;
                    if done + count >= buffer.len() {
                        return Ok(());
                    }
                    // A direct write must continue at a multiple of the alignment.
                    let aligned = (done + count) / ALIGNMENT * ALIGNMENT;
                    if aligned == done {
                        return Err(failed(io::Error::from(io::ErrorKind::WriteZero)));
                    }
                    done = aligned;
                }
                Err(Some(back)) => {
                    buffer = back;
                    break;
                }
                Ok(_) | Err(None) => unreachable!("a write without its buffer"),
            }
        }
        yield_now().await;
        gate.time(Gate::count_write, || self.file.write_all_at(offset, buffer.filled()))?;
        self.begin_write_back(offset, buffer.len()).await?;
        yield_now().await;
        Ok(())
    }

    /// Writes the filled bytes of `buffer` at `offset` into the page cache, and returns the buffer. The worker does not
    /// copy them itself, because the kernel throttles writers while many pages are dirty.
    pub(crate) async fn write_cached(&self, offset: u64, mut buffer: IoBuffer) -> Result<IoBuffer> {
        let mut done = 0;
        while done < buffer.len() {
            match self.hand_over(Operation::Write, offset, Some(buffer), done, None).await {
                Ok(Done { request: Request { buffer: Some(written), .. }, result, .. }) => {
                    let failed = |error| Error::io("write to", self.path(), error);
                    let count = result.map_err(failed)?;
                    if count == 0 {
                        return Err(failed(io::Error::from(io::ErrorKind::WriteZero)));
                    }
                    done += count;
                    buffer = written;
                }
                Err(Some(back)) => {
                    buffer = back;
                    yield_now().await;
                    let rest = buffer.filled().get(done..).unwrap_or_default();
                    self.file.write_all_at(offset + done as u64, rest)?;
                    yield_now().await;
                    return Ok(buffer);
                }
                Ok(_) | Err(None) => unreachable!("a write without its buffer"),
            }
        }
        Ok(buffer)
    }

    /// As [`File::begin_write_back`]. Its error is an error of the write, because the kernel may report it to no other
    /// call.
    async fn begin_write_back(&self, offset: u64, bytes: usize) -> Result<()> {
        let operation = Operation::WriteBack(u32::try_from(bytes).unwrap_or(0));
        if self.file.is_direct() || self.is_late || bytes == 0 {
            return Ok(());
        }
        let begun = match self.hand_over(operation, offset, None, 0, None).await {
            Ok(done) => done.result.map(drop).map_err(|error| Error::io("write back", self.path(), error)),
            Err(_) => self.file.begin_write_back(offset, bytes as u64),
        };
        if planted(Bug::WriteBackErrorDropped) { Ok(()) } else { begun }
    }

    /// Writes all of `bytes` at `offset` into the page cache, and begins to write them to the device, so that a later
    /// sync has little left to do.
    pub(crate) async fn write_through(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        yield_now().await;
        self.file.write_all_at(offset, bytes)?;
        self.begin_write_back(offset, bytes.len()).await?;
        yield_now().await;
        Ok(())
    }

    /// Writes all of `bytes` at `offset`, through the page cache.
    pub(crate) async fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        yield_now().await;
        self.file.write_all_at(offset, bytes)?;
        yield_now().await;
        Ok(())
    }

    /// As [`File::reserve`].
    pub(crate) async fn reserve(&self, bytes: u64) -> Result<()> {
        if self.file.is_direct()
            && let Ok(done) = self.hand_over(Operation::Reserve(bytes), 0, None, 0, None).await
        {
            return match done.result {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
                Err(error) => Err(Error::io("reserve space for", self.path(), error)),
                Ok(_) => Ok(()),
            };
        }
        self.file.reserve(bytes)
    }

    /// As [`File::set_bytes`]. If the file ends within a block that was written past the page cache, the kernel reads
    /// the block first. This read waits behind all writes at the device; the worker does other work meanwhile.
    pub(crate) async fn set_bytes(&self, bytes: u64) -> Result<()> {
        if self.file.is_direct()
            && !SET_BYTES_IS_UNKNOWN.load(Ordering::Relaxed)
            && let Ok(done) = self.hand_over(Operation::SetBytes(bytes), 0, None, 0, None).await
        {
            match done.result {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    SET_BYTES_IS_UNKNOWN.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(Error::io("set the length of", self.path(), error)),
                Ok(_) => return Ok(()),
            }
        }
        self.file.set_bytes(bytes)
    }

    /// As [`File::write_out`].
    pub(crate) async fn write_out(&self) -> Result<()> {
        self.write_out_pieces(0, None).await?;
        if let Ok(done) = self.hand_over(Operation::WriteOut(0), 0, None, 0, None).await {
            done.result.map_err(|error| Error::io("write out", self.path(), error))?;
            return Ok(());
        }
        yield_now().await;
        self.file.write_out()?;
        yield_now().await;
        Ok(())
    }

    /// Writes out all [`pieces`] of `[from, to)`, one after the other. `to` is `None` for the end of the file. The sync
    /// or write-out that follows covers the pieces again, so without a ring this does nothing. Returns how long it
    /// took, in nanoseconds.
    ///
    /// An error is an error of the sync: the kernel reports a failed write-back of this open file here, and not again.
    async fn write_out_pieces(&self, from: u64, to: Option<u64>) -> Result<u64> {
        // What was written past the page cache is at the device already.
        if self.file.is_direct() || self.file.descriptor().is_none() {
            return Ok(0);
        }
        let (to, mut ns) = (to.map_or_else(|| self.file.bytes(), Ok)?, 0);
        for (offset, bytes) in pieces(from, to) {
            let Ok(done) = self.hand_over(Operation::WriteOut(bytes), offset, None, 0, None).await else { break };
            done.result.map_err(|error| Error::io("write out", self.path(), error))?;
            ns += done.ns;
        }
        Ok(ns)
    }

    /// Makes the bytes and the length durable.
    pub(crate) async fn sync(&self) -> Result<()> {
        yield_now().await;
        let ns = self.write_out_pieces(0, None).await?;
        let done = self.sync_rest(ns).await;
        yield_now().await;
        done
    }

    /// As [`BackgroundFile::sync`], but without yields, because others wait until the sync is done and reported.
    pub(crate) async fn sync_at_once(&self) -> Result<()> {
        self.sync_rest(0).await
    }

    /// Makes the bytes and the length durable, after a part of the bytes was written out in `ns` nanoseconds.
    async fn sync_rest(&self, ns: u64) -> Result<()> {
        if let Ok(done) = self.hand_over(Operation::Sync, 0, None, 0, None).await {
            self.count_sync(ns + done.ns).await;
            done.result.map_err(|error| Error::io("sync", self.path(), error))?;
            return Ok(());
        }
        match self.file.begin_sync() {
            Some(in_flight) => in_flight.await,
            None => self.file.sync(),
        }
    }

    /// Makes the bytes of `[from, to)` durable, as [`Mapping::sync_range`] of `mapping` does, without yields. `mapping`
    /// must have this file's open file description, so that a failed write-back is reported here as it would be there.
    pub(crate) async fn sync_range_at_once(&self, mapping: &dyn Mapping, from: u32, to: u32) -> Result<()> {
        let ns = self.write_out_pieces(u64::from(from), Some(u64::from(to))).await?;
        // For the ring, an empty range means the whole file.
        if from < to
            && let Ok(done) = self.hand_over(Operation::SyncRange(to - from), u64::from(from), None, 0, None).await
        {
            self.count_sync(ns + done.ns).await;
            done.result.map_err(|error| Error::io("sync", self.path(), error))?;
            return Ok(());
        }
        match mapping.begin_sync_range(u64::from(from), u64::from(to)) {
            Some(in_flight) => in_flight.await,
            None => mapping.sync_range(u64::from(from), u64::from(to)),
        }
    }

    /// Counts a sync that the kernel carried out, after waiting for the file's sync delay. The worker runs other
    /// coroutines meanwhile.
    async fn count_sync(&self, ns: u64) {
        let (mut ns, delay) = (ns, self.file.sync_delay());
        if !delay.is_zero()
            && let Ok(done) = self.hand_over(Operation::Delay(delay), 0, None, 0, None).await
        {
            ns += done.ns;
        }
        self.file.count_sync(ns);
    }

    /// Hands an operation to the kernel, and repeats it after interruptions. `Err` returns the buffer: this thread has
    /// no ring.
    async fn hand_over(
        &self,
        operation: Operation,
        offset: u64,
        buffer: Option<IoBuffer>,
        from: usize,
        admitted: Option<AdmittedRead>,
    ) -> std::result::Result<Done, Option<IoBuffer>> {
        let file = self.file.held().unwrap_or_else(|| Arc::clone(&self.file));
        let mut request = Request { file, operation, offset, buffer, from, admitted };
        loop {
            let done = match ring::submit(request) {
                Ok(in_flight) => in_flight.await,
                Err(request) => return Err(request.buffer),
            };
            match &done.result {
                // An interrupted sync may have dropped the data that it covered, so it is never retried.
                Err(error) if !operation.is_sync() && is_passing(error) => request = done.request,
                _ => return Ok(done),
            }
        }
    }
}

/// A directory, for coroutines that make its names durable.
pub(crate) struct BackgroundDirectory {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// The open directory, where directories can be opened.
    file: Option<BackgroundFile>,
}

impl BackgroundDirectory {
    /// Opens an existing directory.
    pub(crate) fn open(storage: &Arc<dyn Storage>, path: &Path) -> Result<Self> {
        let file = storage.open_directory(path)?.map(BackgroundFile::new);
        Ok(BackgroundDirectory { storage: Arc::clone(storage), path: path.into(), file })
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the names in the directory durable. Needs no new descriptor where the directory is open.
    pub(crate) async fn sync(&self) -> Result<()> {
        if let Some(directory) = &self.file
            && let Ok(done) = directory.hand_over(Operation::SyncAll, 0, None, 0, None).await
        {
            directory.count_sync(done.ns).await;
            done.result.map_err(|error| Error::io("sync", &self.path, error))?;
            return Ok(());
        }
        if let Some(in_flight) = self.file.as_ref().and_then(|directory| directory.file.begin_sync()) {
            return in_flight.await;
        }
        yield_now().await;
        match &self.file {
            Some(directory) => directory.file().sync()?,
            None => self.storage.sync_directory(&self.path)?,
        }
        yield_now().await;
        Ok(())
    }
}

/// Whether the error is temporary, and says nothing about the bytes.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
#[path = "tests/file.rs"]
mod tests;
