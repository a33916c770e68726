//! [`Segment`]: one segment file open for writing, and [`Preparation`]: how a slot gets a new identity.
//!
//! Invariant: a slot with a valid header has all its blocks written and durable, because a new file is filled and
//! synced before its header is written; and a segment is given out only when its header is durable under a durable
//! name (DESIGN 5). The first half is what stores through a mapping stand on: a block that is there cannot be refused
//! when a power cut and a full disk come together, and no sync has to write more than the bytes.
//!
//! A recycled slot's pages may be dirty with what an older segment held, and nobody needs that on the medium: through
//! a mapping only the header is synced. The pages of a mapping are populated last: the syncs of the preparation would
//! only take them away again. A preparation is a row of steps, so that a coroutine can give way between them and an
//! open can run them at once; an open leaves the populating to the preparer, which is far ahead of any writer by the
//! time that one could notice. Locks: none.

use super::framing::{BLOCK_BYTES, HEADER_BYTES, Header, SegmentId};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::runtime::{BackgroundDirectory, BackgroundFile, Environment};
use crate::storage::{BufferPool, File, IoBuffer, Mapping, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Zeros written at once while a new file is filled.
const FILL_BYTES: u32 = 16 * BLOCK_BYTES;

/// Bytes of a mapping populated at once.
const POPULATE_BYTES: u32 = 1 << 20;

/// A segment with the handles to write and sync it.
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) bytes: u32,
    pub(super) path: PathBuf,
    /// One handle for each sync that may be in flight: the kernel tells a failed write-back once per open file
    /// description, so two syncs must not share one. Writes go through the first. None of a segment that is durable
    /// to its end: nobody writes or syncs it any more.
    handles: Option<[Handle; 2]>,
}

/// An open file description of a segment, mapped where stores cannot fail.
pub(super) struct Handle {
    file: Arc<dyn File>,
    mapping: Option<Arc<dyn Mapping>>,
}

impl Handle {
    fn open(environment: &Environment, path: &Path, mapped_bytes: Option<u32>) -> Result<Handle> {
        let file = open_file(environment, path)?;
        let mapping = mapped_bytes.map_or(Ok(None), |bytes| file.map(u64::from(bytes)))?;
        Ok(Handle { file, mapping })
    }

    /// Makes what was written to `[from, to)` durable. Of a mapping only these pages are written: what is populated
    /// ahead of the tail stays writable, so that no sync brings page faults to the writers.
    pub(super) fn sync(&self, from: u32, to: u32) -> Result<()> {
        match &self.mapping {
            Some(mapping) => mapping.sync_range(u64::from(from), u64::from(to)),
            None => self.file.sync(),
        }
    }

    /// The same for a coroutine: handed to the kernel where it can be, for the worker has segments to prepare. Else the
    /// worker goes on with nothing else before it has told of the end: syncs are waited for in the order of issue.
    pub(super) async fn sync_in_background(&self, from: u32, to: u32) -> Result<()> {
        let file = BackgroundFile::new(Arc::clone(&self.file));
        match &self.mapping {
            Some(mapping) => file.sync_range_at_once(&**mapping, from, to).await,
            None => file.sync_at_once().await,
        }
    }
}

impl Segment {
    /// Opens the segment that the file at `path` holds, for few writes: none goes through a mapping.
    pub(super) fn open(environment: &Environment, path: PathBuf, id: SegmentId, bytes: u32) -> Result<Segment> {
        let handle = || Handle::open(environment, &path, None);
        Ok(Segment { id, bytes, handles: Some([handle()?, handle()?]), path })
    }

    /// A segment that is durable to its end.
    pub(super) fn closed(path: PathBuf, id: SegmentId, bytes: u32) -> Segment {
        Segment { id, bytes, handles: None, path }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.handles.is_none()
    }

    /// The handle for one of the syncs that may be in flight.
    pub(super) fn handle(&self, number: usize) -> Result<&Handle> {
        self.handles.as_ref().and_then(|handles| handles.get(number)).ok_or_else(|| {
            Error::io("write to", &self.path, std::io::Error::other("the segment is durable and closed"))
        })
    }

    /// The same for the log to go on in: mapped where that is possible. All its blocks must be written.
    fn open_mapped(environment: &Environment, path: PathBuf, id: SegmentId, bytes: u32) -> Result<Segment> {
        let handle = || Handle::open(environment, &path, Some(bytes));
        Ok(Segment { id, bytes, handles: Some([handle()?, handle()?]), path })
    }

    /// Where stores take the place of writes.
    pub(super) fn mapping(&self) -> Option<&dyn Mapping> {
        let [first, _] = self.handles.as_ref()?;
        first.mapping.as_deref()
    }

    /// Writes by position at `offset`.
    pub(super) fn write(&self, offset: u32, bytes: &[u8]) -> Result<()> {
        self.handle(0)?.file.write_all_at(u64::from(offset), bytes)
    }

    /// All stores to `[from, to)` are done, and it is about to be synced through one of the handles.
    pub(super) fn release(&self, from: u32, to: u32) {
        if let Some(mapping) = self.mapping() {
            mapping.release(u64::from(from), u64::from(to));
        }
    }

    /// Makes the pages from `from` on ready for stores, a step of them; where the next step begins.
    pub(super) fn populate(&self, from: u32) -> Result<Option<u32>> {
        let Some(mapping) = self.mapping() else { return Ok(None) };
        let to = from.saturating_add(POPULATE_BYTES).min(self.bytes);
        mapping.populate(u64::from(from), u64::from(to))?;
        Ok((to < self.bytes).then_some(to))
    }
}

/// Opens an existing file for reading and writing.
pub(super) fn open_file(environment: &Environment, path: &Path) -> Result<Arc<dyn File>> {
    let file = environment.storage.open(path, OpenMode::ReadWrite)?;
    file.ok_or_else(|| Error::io("open", path, std::io::Error::other("reading and writing is refused")))
}

/// The path of slot `number`.
pub(super) fn slot_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:08}.log"))
}

/// The number of the slot with this file name.
pub(super) fn slot_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// What a preparation does next.
enum Step {
    Create,
    Fill(Arc<dyn File>, u32),
    SyncFill(Arc<dyn File>),
    Map,
    WriteHeader(Segment),
    SyncHeader(Segment),
    SyncDirectory(Segment),
    Populate(Segment, u32),
    Done,
}

/// A slot on its way to a new identity.
pub(super) struct Preparation {
    header: Header,
    path: PathBuf,
    is_new: bool,
    /// Of a new file that a coroutine prepares: where its name is.
    directory: Option<BackgroundDirectory>,
    /// What such a file is filled with.
    zeros: Option<IoBuffer>,
    step: Step,
}

impl Preparation {
    /// A new file.
    pub(super) fn create(path: PathBuf, header: Header) -> Self {
        Preparation { header, path, is_new: true, directory: None, zeros: None, step: Step::Create }
    }
    /// A file of the right size whose segment is not needed any more.
    pub(super) fn recycle(path: PathBuf, header: Header) -> Self {
        Preparation { header, path, is_new: false, directory: None, zeros: None, step: Step::Map }
    }

    /// Whether the next step only creates or opens a file: that this fails (no descriptor left, no permission)
    /// endangers nothing that was written.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(self.step, Step::Create | Step::Map)
    }

    /// Takes one step; the segment, mapped and populated, after the last. After an error the file holds nothing of use:
    /// see [`Preparation::discard`].
    pub(super) fn step(&mut self, environment: &Environment, metrics: &Metrics) -> Result<Option<Segment>> {
        self.step = match std::mem::replace(&mut self.step, Step::Done) {
            Step::Create => Step::Fill(environment.storage.create(&self.path)?, 0),
            Step::Fill(file, from) => {
                let count = (self.header.bytes - from).min(FILL_BYTES);
                file.write_all_at(u64::from(from), &vec![0; count as usize])?;
                metrics.log_prepared_bytes.add(u64::from(count));
                if from + count < self.header.bytes { Step::Fill(file, from + count) } else { Step::SyncFill(file) }
            }
            Step::SyncFill(file) => {
                file.sync()?;
                Step::Map
            }
            Step::Map => Step::WriteHeader(self.map(environment)?),
            Step::WriteHeader(segment) => {
                let header = self.header.encode();
                segment.write(0, &header)?;
                metrics.log_prepared_bytes.add(header.len() as u64);
                Step::SyncHeader(segment)
            }
            Step::SyncHeader(segment) => {
                segment.handle(0)?.sync(0, HEADER_BYTES)?;
                if self.is_new { Step::SyncDirectory(segment) } else { Step::Populate(segment, 0) }
            }
            Step::SyncDirectory(segment) => {
                if let Some(directory) = self.path.parent() {
                    environment.storage.sync_directory(directory)?;
                }
                Step::Populate(segment, 0)
            }
            Step::Populate(segment, from) => match segment.populate(from)? {
                Some(next) => Step::Populate(segment, next),
                None => return Ok(Some(segment)),
            },
            Step::Done => unreachable!("a preparation that gave its segment or failed takes no more steps"),
        };
        Ok(None)
    }

    /// The same for a coroutine: what takes long is handed to the kernel where it can be, for the worker has the
    /// interval's syncs to issue.
    pub(super) async fn step_in_background(
        &mut self,
        environment: &Environment,
        metrics: &Metrics,
    ) -> Result<Option<Segment>> {
        self.step = match std::mem::replace(&mut self.step, Step::Done) {
            Step::Create => {
                // Before there is a file: that no descriptor is left endangers nothing.
                if let Some(directory) = self.path.parent() {
                    self.directory = Some(BackgroundDirectory::open(&environment.storage, directory)?);
                }
                self.step = Step::Create;
                return self.step(environment, metrics);
            }
            Step::Fill(file, from) => {
                let count = (self.header.bytes - from).min(FILL_BYTES);
                let mut zeros = self.zeros.take().unwrap_or_else(|| BufferPool::new(FILL_BYTES as usize).take());
                zeros.set_len(count as usize);
                let background = BackgroundFile::new(Arc::clone(&file));
                self.zeros = Some(background.write_cached(u64::from(from), zeros).await?);
                metrics.log_prepared_bytes.add(u64::from(count));
                if from + count < self.header.bytes { Step::Fill(file, from + count) } else { Step::SyncFill(file) }
            }
            Step::SyncFill(file) => {
                self.zeros = None;
                BackgroundFile::new(file).sync().await?;
                Step::Map
            }
            Step::SyncHeader(segment) => {
                segment.handle(0)?.sync_in_background(0, HEADER_BYTES).await?;
                if self.is_new { Step::SyncDirectory(segment) } else { Step::Populate(segment, 0) }
            }
            Step::SyncDirectory(segment) => {
                if let Some(directory) = self.directory.take() {
                    directory.sync().await?;
                }
                Step::Populate(segment, 0)
            }
            step => {
                self.step = step;
                return self.step(environment, metrics);
            }
        };
        Ok(None)
    }

    fn map(&self, environment: &Environment) -> Result<Segment> {
        Segment::open_mapped(environment, self.path.clone(), self.header.id, self.header.bytes)
    }

    /// Takes all steps at once but the populating: for an open.
    pub(super) fn run(mut self, environment: &Environment, metrics: &Metrics) -> Result<Segment> {
        loop {
            if let Step::Populate(segment, _) = self.step {
                return Ok(segment);
            }
            if let Err(error) = self.step(environment, metrics) {
                self.discard(environment);
                return Err(error);
            }
        }
    }

    /// Gives back the room of a preparation that failed. A name that cannot be removed holds nothing that counts: no
    /// seal names it, and the next open removes it or uses it again.
    pub(super) fn discard(&self, environment: &Environment) {
        drop(environment.storage.remove(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slot_names_are_slots() {
        let number = |name: &str| slot_number(name);
        assert_eq!(number("00000012.log"), Some(12));
        assert_eq!(slot_path(Path::new("d"), 12), Path::new("d/00000012.log"));
        for name in ["12.log", "0000001x.log", "00000012.tmp", "99999999999.log", "+0000012.log"] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
