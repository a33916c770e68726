//! [`Segment`]: one segment file open for writing, and [`Preparation`]: how a slot gets a new identity.
//!
//! Invariant: a slot with a valid header has all its blocks written and durable, because a new file is filled and
//! synced before its header is written; and a segment is given out only when its header is durable under a durable
//! name (DESIGN 5). A preparation is a row of steps, so that a coroutine can give way between them and an open can
//! run them at once. Locks: none.

use super::framing::{BLOCK_BYTES, Header, SegmentId};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::runtime::Environment;
use crate::storage::{File, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Zeros written at once while a new file is filled.
const FILL_BYTES: u32 = 16 * BLOCK_BYTES;

/// A segment with the handles to write and sync it.
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) bytes: u32,
    pub(super) path: PathBuf,
    /// One handle for each sync that may be in flight: the kernel tells a failed write-back once per open file
    /// description, so two syncs must not share one.
    pub(super) handles: [Arc<dyn File>; 2],
}

impl Segment {
    /// Opens the segment that the file at `path` holds.
    pub(super) fn open(environment: &Environment, path: PathBuf, id: SegmentId, bytes: u32) -> Result<Segment> {
        let handles = [open_file(environment, &path)?, open_file(environment, &path)?];
        Ok(Segment { id, bytes, path, handles })
    }
    /// The handle that writes go through.
    pub(super) fn file(&self) -> &Arc<dyn File> {
        let [first, _] = &self.handles;
        first
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
    Open,
    Fill(Arc<dyn File>, u32),
    SyncFill(Arc<dyn File>),
    WriteHeader(Arc<dyn File>),
    SyncHeader(Arc<dyn File>),
    SyncDirectory,
    Done,
}

/// A slot on its way to a new identity.
pub(super) struct Preparation {
    header: Header,
    path: PathBuf,
    is_new: bool,
    step: Step,
}

impl Preparation {
    /// A new file.
    pub(super) fn create(path: PathBuf, header: Header) -> Self {
        Preparation { header, path, is_new: true, step: Step::Create }
    }
    /// A file of the right size whose segment is not needed any more.
    pub(super) fn recycle(path: PathBuf, header: Header) -> Self {
        Preparation { header, path, is_new: false, step: Step::Open }
    }

    /// Whether the next step only creates or opens a file: that this fails (no descriptor left, no permission)
    /// endangers nothing that was written.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(self.step, Step::Create | Step::Open | Step::Done)
    }

    /// Takes one step; the segment after the last. After an error the file holds nothing of use: see
    /// [`Preparation::discard`].
    pub(super) fn step(&mut self, environment: &Environment, metrics: &Metrics) -> Result<Option<Segment>> {
        self.step = match std::mem::replace(&mut self.step, Step::Done) {
            Step::Create => Step::Fill(environment.storage.create(&self.path)?, 0),
            Step::Open => Step::WriteHeader(open_file(environment, &self.path)?),
            Step::Fill(file, from) => {
                let count = (self.header.bytes - from).min(FILL_BYTES);
                file.write_all_at(u64::from(from), &vec![0; count as usize])?;
                metrics.log_prepared_bytes.add(u64::from(count));
                if from + count < self.header.bytes { Step::Fill(file, from + count) } else { Step::SyncFill(file) }
            }
            Step::SyncFill(file) => {
                file.sync()?;
                Step::WriteHeader(file)
            }
            Step::WriteHeader(file) => {
                let header = self.header.encode();
                file.write_all_at(0, &header)?;
                metrics.log_prepared_bytes.add(header.len() as u64);
                Step::SyncHeader(file)
            }
            Step::SyncHeader(file) => {
                file.sync()?;
                if self.is_new { Step::SyncDirectory } else { Step::Done }
            }
            Step::SyncDirectory => {
                if let Some(directory) = self.path.parent() {
                    environment.storage.sync_directory(directory)?;
                }
                Step::Done
            }
            Step::Done => {
                let segment = Segment::open(environment, self.path.clone(), self.header.id, self.header.bytes)?;
                return Ok(Some(segment));
            }
        };
        Ok(None)
    }

    /// Takes all steps at once: for an open.
    pub(super) fn run(mut self, environment: &Environment, metrics: &Metrics) -> Result<Segment> {
        loop {
            match self.step(environment, metrics) {
                Ok(Some(segment)) => return Ok(segment),
                Ok(None) => {}
                Err(error) => {
                    self.discard(environment);
                    return Err(error);
                }
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
