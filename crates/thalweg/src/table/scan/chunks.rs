//! [`Chunks`]: the data of a table, read from front to back, one chunk ahead.
//!
//! Chunks lie at multiples of their size, in aligned buffers. While one chunk is merged, the next one is read. Bytes
//! within one chunk are shared with it. Only a block that straddles two chunks is copied.

use crate::error::{Error, Result};
use crate::format::Slice;
use crate::metrics::Metrics;
use crate::runtime::BackgroundFile;
use crate::storage::{ALIGNMENT, File, IoBuffer};
use crate::table::io::{CHUNK_BYTES, TableIo};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

type Reading = Pin<Box<dyn Future<Output = Result<IoBuffer>> + Send + Sync>>;

/// See the module.
pub(in crate::table) struct Chunks {
    file: BackgroundFile,
    io: TableIo,
    metrics: Arc<Metrics>,
    /// The offset at which the data ends.
    end: u64,
    chunk: Option<Chunk>,
    /// The chunk that is being read: its offset and its read.
    ahead: Option<(u64, Reading)>,
}

/// A chunk that was read.
struct Chunk {
    start: u64,
    buffer: IoBuffer,
}

impl Chunks {
    /// Reads the first `end` bytes of `file`.
    pub(in crate::table) fn new(file: Arc<dyn File>, end: u64, io: TableIo, metrics: Arc<Metrics>) -> Self {
        Chunks { file: BackgroundFile::new(file), io, metrics, end, chunk: None, ahead: None }
    }

    /// Returns `len` bytes from `offset` on, if the current chunk has them all.
    pub(in crate::table) fn at_hand(&self, offset: u64, len: usize) -> Option<Slice> {
        self.chunk.as_ref()?.share(offset, len)
    }

    /// Returns `len` bytes from `offset` on, or corruption if the file ends before. Offsets ascend from call to call.
    pub(in crate::table) async fn bytes(&mut self, offset: u64, len: usize) -> Result<Slice> {
        if let Some(shared) = self.at_hand(offset, len) {
            return Ok(shared);
        }
        let first = offset - offset % CHUNK_BYTES as u64;
        if self.chunk.as_ref().is_none_or(|chunk| chunk.start != first) {
            self.enter(first).await?;
            if let Some(shared) = self.at_hand(offset, len) {
                return Ok(shared);
            }
        }
        self.gather(offset, len).await
    }

    /// Copies bytes that lie in several chunks, from the current one on.
    async fn gather(&mut self, offset: u64, len: usize) -> Result<Slice> {
        // The buffer grows with the bytes that exist, because a damaged index may name any length.
        let mut gathered = Vec::with_capacity(len.min(2 * CHUNK_BYTES));
        loop {
            let at = offset + gathered.len() as u64;
            let part = self.chunk.as_ref().map_or(&[][..], |chunk| chunk.from(at));
            let wanted = part.get(..part.len().min(len - gathered.len())).unwrap_or_default();
            if wanted.is_empty() && len > gathered.len() {
                let (missing, path) = (len - gathered.len(), self.file.path());
                return Err(Error::corruption(path, at, format!("{missing} more bytes"), "the end of the file"));
            }
            gathered.extend_from_slice(wanted);
            if gathered.len() == len {
                return Ok(Slice::from(gathered));
            }
            let next = offset + gathered.len() as u64;
            if !next.is_multiple_of(CHUNK_BYTES as u64) {
                continue; // The chunk is short, so the file ends here. The next round reports it.
            }
            self.enter(next).await?;
        }
    }

    /// Makes the chunk at `start` the current one, and begins to read the next one.
    async fn enter(&mut self, start: u64) -> Result<()> {
        let reading = match self.ahead.take() {
            Some((ahead, reading)) if ahead == start => reading,
            _ => self.read(start),
        };
        // Frees the previous chunk before another buffer is taken, unless an entry of it is held.
        self.chunk = None;
        let buffer = reading.await?;
        self.metrics.compaction_read_bytes.add(buffer.len() as u64);
        self.chunk = Some(Chunk { start, buffer });
        let next = start + CHUNK_BYTES as u64;
        if next < self.end {
            let mut reading = self.read(next);
            let begun = std::future::poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
            let reading = match begun {
                Poll::Ready(read) => Box::pin(std::future::ready(read)),
                Poll::Pending => reading,
            };
            self.ahead = Some((next, reading));
        }
        Ok(())
    }

    /// Returns a read of the chunk at `start`, as far as the data reaches. The read begins when it is first polled.
    fn read(&self, start: u64) -> Reading {
        let (file, io) = (self.file.clone(), self.io.clone());
        let rest = usize::try_from(self.end.saturating_sub(start)).unwrap_or(usize::MAX);
        if !file.file().is_direct() {
            // If the page cache has dropped the chunk, the device reads it while the previous one is merged.
            file.file().will_need(start, rest.min(CHUNK_BYTES) as u64);
        }
        Box::pin(async move {
            let mut buffer = io.chunk_buffers.take();
            buffer.set_len(rest.min(CHUNK_BYTES).next_multiple_of(ALIGNMENT));
            file.read(&io.gate, start, buffer).await
        })
    }
}

impl Chunk {
    /// Returns `len` bytes from `offset` on, if the chunk has them all.
    fn share(&self, offset: u64, len: usize) -> Option<Slice> {
        self.buffer.share(usize::try_from(offset.checked_sub(self.start)?).ok()?, len)
    }

    fn from(&self, offset: u64) -> &[u8] {
        let skip = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.buffer.filled().get(skip..)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::storage::Storage;
    use crate::table::tests::bench::run;
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 249) as u8).collect()
    }

    /// A reader of `bytes` bytes of data, of which the file has the first `there`.
    fn reader(there: usize, bytes: usize) -> (Chunks, TableIo) {
        let disk = Disk::new(true);
        disk.put(Path::new("a"), &content(there));
        let file = Memory(disk).open(Path::new("a"), crate::storage::OpenMode::ReadMedium).unwrap().unwrap();
        let metrics = Arc::<Metrics>::default();
        let clock: Arc<dyn crate::clock::Clock> = Arc::new(crate::clock::SystemClock::default());
        let io = TableIo::new(8, &metrics, &clock);
        (Chunks::new(file, bytes as u64, io.clone(), metrics), io)
    }

    #[test]
    fn blocks_of_any_size_come_whole_wherever_chunks_end() {
        let expected = content(5 * CHUNK_BYTES + 777);
        for step in [1000, 4096, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, expected.len()] {
            let (mut reader, _) = reader(expected.len() + 50, expected.len());
            let mut at = 0;
            while at < expected.len() {
                let len = step.min(expected.len() - at);
                let found = run(reader.bytes(at as u64, len)).unwrap();
                assert!(found == expected[at..at + len], "{len} bytes at {at}");
                at += len;
            }
        }
    }

    #[test]
    fn a_gap_between_blocks_skips_chunks() {
        let (mut reader, _) = reader(6 * CHUNK_BYTES, 6 * CHUNK_BYTES);
        let expected = content(6 * CHUNK_BYTES);
        for at in [10, 3 * CHUNK_BYTES + 5, 3 * CHUNK_BYTES + 500, 5 * CHUNK_BYTES + 1] {
            assert_eq!(run(reader.bytes(at as u64, 100)).unwrap(), expected[at..at + 100]);
        }
    }

    #[test]
    fn a_file_that_ends_early_is_damaged_where_it_ends() {
        for there in [100, CHUNK_BYTES, CHUNK_BYTES + 5] {
            let (mut reader, _) = reader(there, 3 * CHUNK_BYTES);
            let error = run(reader.bytes(50, 2 * CHUNK_BYTES)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains(&format!("offset {there}")), "{error}");
        }
    }

    #[test]
    fn entries_outlive_their_chunk() {
        let (mut reader, io) = reader(4 * CHUNK_BYTES, 4 * CHUNK_BYTES);
        let first = run(reader.bytes(7, 100)).unwrap();
        for chunk in 1..4 {
            run(reader.bytes((chunk * CHUNK_BYTES) as u64, 10)).unwrap();
        }
        drop(reader);
        for mut buffer in (0..8).map(|_| io.chunk_buffers.take()).collect::<Vec<_>>() {
            buffer.bytes_mut().fill(0xee);
        }
        assert_eq!(first, content(200)[7..107]);
    }
}
