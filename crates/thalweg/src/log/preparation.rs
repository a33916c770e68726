//! [`Preparation`]: how a slot gets the identity of a new segment.
//!
//! A preparation is a sequence of steps. A coroutine can yield between steps. An open takes all steps at once. The
//! pages of the mapping are populated later ([`super::populater`]), because the syncs of the preparation would undo
//! that.
//!
//! Invariant: a slot with a valid header has all its blocks, durably, because a new file is allocated or filled, and
//! synced, before its header is written. A segment is given out only when its header is durable under a durable name.
//!
//! Blocks that are only allocated save the writing of zeros. The first sync of such a block commits the file system's
//! journal, which takes several times as long as a sync of a block that was written before. So a log whose callers wait
//! for syncs gets new files that are filled, and any other log gets new files that are allocated.
//!
//! The page cache may have dirty pages of the old segment of a recycled slot. They are not needed on the medium, so
//! through a mapping only the header is synced. Locks: none.

use super::header::{BLOCK_BYTES, HEADER_BYTES, SegmentHeader};
use super::segment::Segment;
use crate::error::Result;
use crate::metrics::Metrics;
use crate::runtime::{BackgroundDirectory, BackgroundFile, Environment, join_bounded};
use crate::storage::{BufferPool, File, IoBuffer};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// How many zeros one step writes while a new file is filled.
const FILL_BYTES: u32 = 16 * BLOCK_BYTES;

/// A sync that a coroutine waits for.
type Syncing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// The next step of a preparation, with what it needs.
enum Stage {
    Create,
    Allocate(Arc<dyn File>),
    Fill(Arc<dyn File>, u32),
    SyncFill(Arc<dyn File>),
    Map,
    WriteHeader(Segment),
    SyncHeader(Segment),
    SyncDirectory(Segment),
    Durable(Segment),
    Done,
}

/// How a new file gets its blocks, before its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewBlocks {
    /// Zeros are written.
    Filled,
    /// Blocks are allocated; where the file system cannot, zeros are written.
    Allocated,
}

/// Returns a buffer of zeros. A new buffer may hold any bytes.
fn zeros() -> IoBuffer {
    let mut zeros = BufferPool::new(FILL_BYTES as usize).take();
    zeros.bytes_mut().fill(0);
    zeros
}

/// A slot that is being prepared for a new segment.
pub(super) struct Preparation {
    header: SegmentHeader,
    path: PathBuf,
    /// `None`: the slot has its blocks.
    new_blocks: Option<NewBlocks>,
    /// Whether callers often wait for syncs ([`super::demand`]).
    is_for_callers: bool,
    /// Whether the header is written with zeros up to the end of its page.
    clears_page: bool,
    /// The directory of a new file that a coroutine prepares.
    directory: Option<BackgroundDirectory>,
    /// The zeros that fill the new file.
    zeros: Option<IoBuffer>,
    stage: Stage,
}

impl Preparation {
    /// A preparation that creates a new file.
    pub(super) fn create(path: PathBuf, header: SegmentHeader, blocks: NewBlocks) -> Self {
        Preparation { stage: Stage::Create, new_blocks: Some(blocks), ..Preparation::recycle(path, header) }
    }

    /// A preparation in a file of the right size whose segment is not needed any more.
    pub(super) fn recycle(path: PathBuf, header: SegmentHeader) -> Self {
        let (new_blocks, directory, zeros) = (None, None, None);
        let (is_for_callers, clears_page) = (false, true);
        Preparation { header, path, new_blocks, is_for_callers, clears_page, directory, zeros, stage: Stage::Map }
    }

    /// Returns this preparation, but of a segment that is written by position while callers often wait
    /// ([`super::demand`]).
    pub(super) fn for_callers(self) -> Self {
        Preparation { is_for_callers: true, ..self }
    }

    /// Returns whether the next step only creates or opens a file. Its failure (no descriptor left, no permission)
    /// endangers nothing that was written.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(self.stage, Stage::Create | Stage::Map)
    }

    /// Whether the next step gives the segment, without any work.
    pub(super) fn is_durable(&self) -> bool {
        matches!(self.stage, Stage::Durable(_))
    }

    /// Whether the next step waits for the device, and lets the worker do other work meanwhile.
    pub(super) fn waits_for_device(&self) -> bool {
        matches!(self.stage, Stage::Fill(..) | Stage::SyncFill(_) | Stage::SyncHeader(_))
    }

    /// Takes one step. The last one returns the segment. After an error the file holds nothing of use; see
    /// [`Preparation::discard`].
    pub(super) fn step(&mut self, environment: &Environment, metrics: &Metrics) -> Result<Option<Segment>> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Create => {
                let file = environment.storage.create(&self.path)?;
                if self.new_blocks == Some(NewBlocks::Allocated) { Stage::Allocate(file) } else { Stage::Fill(file, 0) }
            }
            Stage::Allocate(file) => match file.allocate(u64::from(self.header.bytes))? {
                true => Stage::SyncFill(file),
                false => Stage::Fill(file, 0),
            },
            Stage::Fill(file, from) => {
                let count = (self.header.bytes - from).min(FILL_BYTES);
                file.write_all_at(u64::from(from), &vec![0; count as usize])?;
                metrics.log_prepared_bytes.add(u64::from(count));
                if from + count < self.header.bytes { Stage::Fill(file, from + count) } else { Stage::SyncFill(file) }
            }
            Stage::SyncFill(file) => {
                file.sync()?;
                Stage::Map
            }
            Stage::Map => Stage::WriteHeader(self.map(environment)?),
            Stage::WriteHeader(segment) => {
                let written = segment.write_header(&self.header, self.clears_page)?;
                metrics.log_prepared_bytes.add(written);
                Stage::SyncHeader(segment)
            }
            Stage::SyncHeader(segment) => {
                segment.handle(0)?.sync(0, HEADER_BYTES)?;
                if self.new_blocks.is_some() { Stage::SyncDirectory(segment) } else { Stage::Durable(segment) }
            }
            Stage::SyncDirectory(segment) => {
                if let Some(directory) = self.path.parent() {
                    environment.storage.sync_directory(directory)?;
                }
                Stage::Durable(segment)
            }
            Stage::Durable(segment) => return Ok(Some(segment)),
            Stage::Done => unreachable!("a preparation that gave its segment or failed takes no more steps"),
        };
        Ok(None)
    }

    /// Does what [`Preparation::step`] does, for a coroutine. Where possible the kernel runs long steps, so that the
    /// worker can issue the interval's syncs.
    pub(super) async fn step_in_background(
        &mut self,
        environment: &Environment,
        metrics: &Metrics,
    ) -> Result<Option<Segment>> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Create => {
                // The directory is opened before the file exists, so a shortage of descriptors endangers nothing.
                if let Some(directory) = self.path.parent() {
                    self.directory = Some(BackgroundDirectory::open(&environment.storage, directory)?);
                }
                self.stage = Stage::Create;
                return self.step(environment, metrics);
            }
            Stage::Fill(file, from) => {
                let count = (self.header.bytes - from).min(FILL_BYTES);
                let mut zeros = self.zeros.take().unwrap_or_else(zeros);
                zeros.set_len(count as usize);
                let background = BackgroundFile::new(Arc::clone(&file));
                self.zeros = Some(background.write_cached(u64::from(from), zeros).await?);
                metrics.log_prepared_bytes.add(u64::from(count));
                if from + count < self.header.bytes { Stage::Fill(file, from + count) } else { Stage::SyncFill(file) }
            }
            Stage::SyncFill(file) => {
                self.zeros = None;
                // The name of the file exists already, so the syncs of the name and of the blocks may end in any order.
                let file: Syncing = Box::pin(async { BackgroundFile::new(file).sync().await });
                let directory = self.directory.take();
                let name = directory.map(|directory| -> Syncing { Box::pin(async move { directory.sync().await }) });
                join_bounded([Some(file), name].into_iter().flatten(), 2).await?;
                Stage::Map
            }
            Stage::SyncHeader(segment) => {
                segment.handle(0)?.sync_in_background(0, HEADER_BYTES).await?;
                // The directory of a new file was synced with its blocks.
                Stage::Durable(segment)
            }
            stage => {
                self.stage = stage;
                return self.step(environment, metrics);
            }
        };
        Ok(None)
    }

    /// Opens and maps the segment.
    fn map(&self, environment: &Environment) -> Result<Segment> {
        let SegmentHeader { id, bytes, .. } = self.header;
        let mut segment = Segment::open_mapped(environment, self.path.clone(), id, bytes)?;
        segment.is_for_callers = self.is_for_callers;
        segment.is_recycled = self.new_blocks.is_none();
        Ok(segment)
    }

    /// Takes all steps, for an open. Does not overwrite the bytes after the header of a recycled slot: after a power
    /// cut the next open may have to copy them ([`super::lost`]).
    pub(super) fn run(mut self, environment: &Environment, metrics: &Metrics) -> Result<Segment> {
        self.clears_page = false;
        loop {
            match self.step(environment, metrics) {
                Ok(None) => {}
                Ok(Some(segment)) => return Ok(segment),
                Err(error) => {
                    self.discard(environment);
                    return Err(error);
                }
            }
        }
    }

    /// Removes the file of a failed preparation. If that fails, the file does no harm: no seal names it, and the next
    /// open removes it or uses it again.
    pub(super) fn discard(&self, environment: &Environment) {
        drop(environment.storage.remove(&self.path));
    }
}
