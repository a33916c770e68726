//! [`Output`]: gathers the bytes of a table in aligned buffers, and hands full buffers to the worker's [`WriteQueue`].
//!
//! If space is *reserved* ([`WriteThroughPolicy::is_reserved`]), the output reserves it ahead in growing steps. The
//! file is then longer than its table until [`Output::finish`], and its last buffer is padded to the alignment. The
//! true length is set once all is written. A crash before that leaves a file that no edit names: an orphan.
//!
//! [`WriteThroughPolicy::is_reserved`]: crate::table::page_cache::write_through::WriteThroughPolicy::is_reserved

use crate::error::{Error, Result};
use crate::runtime::{BackgroundFile, WriteQueue, WrittenFile};
use crate::storage::{BufferPool, File, IoBuffer};
use crate::table::io::CHUNK_BYTES;
use crate::table::page_cache::write_back::WriteBack;
use crate::table::page_cache::write_through::WriteWay;
use crate::table::write::unsynced_files::UnsyncedFile;
use std::path::Path;
use std::sync::Arc;

/// The first reservation. Each further one doubles what is reserved, by [`RESERVE_STEP_MAX`] at most.
const RESERVE_STEP_MIN: u64 = 4 * CHUNK_BYTES as u64;
const RESERVE_STEP_MAX: u64 = 16 << 20;

/// See the module.
pub(in crate::table) struct Output {
    file: WrittenFile,
    buffers: Arc<BufferPool>,
    buffer: IoBuffer,
    /// The offset of the buffer in the file.
    start: u64,
    /// The bytes of the file that are reserved. `None`: no space is reserved.
    reserved: Option<u64>,
    way: WriteWay,
}

impl Output {
    /// Returns the output to `file`, which is written in pieces of the size of the `buffers`.
    pub(in crate::table) fn new(
        queue: &WriteQueue,
        buffers: &Arc<BufferPool>,
        file: Arc<dyn File>,
        way: WriteWay,
        is_reserved: bool,
    ) -> Self {
        Output {
            file: queue.file(BackgroundFile::new(file)),
            buffers: Arc::clone(buffers),
            buffer: buffers.take(),
            start: 0,
            reserved: is_reserved.then_some(0),
            way,
        }
    }

    pub(in crate::table) fn file(&self) -> &Arc<dyn File> {
        self.file.file().file()
    }

    pub(in crate::table) fn is_late(&self) -> bool {
        matches!(self.way, WriteWay::Late(_))
    }

    pub(in crate::table) fn is_through_cache(&self) -> bool {
        !matches!(self.way, WriteWay::Direct)
    }

    /// Returns the file, for its sync. The bytes of a late table count as late until then.
    pub(in crate::table) fn take_unsynced(&mut self) -> UnsyncedFile {
        let write_back = self.is_through_cache().then(WriteBack::default);
        let late = match std::mem::replace(&mut self.way, WriteWay::Cached) {
            WriteWay::Late(late) => Some(late),
            way => {
                self.way = way;
                None
            }
        };
        UnsyncedFile { file: Arc::clone(self.file()), write_back, late }
    }

    pub(in crate::table) fn path(&self) -> &Path {
        self.file.file().path()
    }

    /// Appends to the file. An error may be that of an earlier piece.
    pub(in crate::table) async fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            bytes = bytes.get(self.buffer.append(bytes)..).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            let next = self.buffers.take();
            self.hand_over(next).await?;
        }
    }

    /// Waits until all is written, and sets the length of the file.
    pub(in crate::table) async fn finish(&mut self) -> Result<()> {
        let bytes = self.start + self.buffer.len() as u64;
        if self.reserved.is_some() {
            self.buffer.pad();
        }
        let next = self.buffers.take();
        self.hand_over(next).await?;
        self.file.finish().await?;
        if self.reserved.is_some() { self.file.file().set_bytes(bytes).await } else { Ok(()) }
    }

    /// Makes the content durable, but not the name.
    pub(in crate::table) async fn sync(&self) -> Result<()> {
        self.file.file().sync().await
    }

    /// Abandons what is not written yet, and waits for the writes in progress.
    pub(in crate::table) async fn abandon(self) {
        self.file.abandon().await;
    }

    async fn hand_over(&mut self, next: IoBuffer) -> Result<()> {
        let end = self.start + self.buffer.len() as u64;
        let is_late = match &mut self.way {
            WriteWay::Late(late) => late.add_within(self.buffer.len() as u64),
            _ => false,
        };
        if let Some(reserved) = self.reserved.as_mut().filter(|reserved| **reserved < end) {
            let step = (*reserved).clamp(RESERVE_STEP_MIN, RESERVE_STEP_MAX);
            *reserved = (*reserved + step).max(end);
            let reserved = *reserved;
            match self.file.file().reserve(reserved).await {
                // The rest of the table may fit even if the whole step does not. If it does not fit, the write itself
                // reports that.
                Err(Error::NoSpace { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        let full = std::mem::replace(&mut self.buffer, next);
        let start = std::mem::replace(&mut self.start, end);
        if is_late { self.file.write_late(start, full).await } else { self.file.write(start, full).await }
    }
}
