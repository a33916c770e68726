//! [`Slots`]: the files of a log directory and their headers. [`SegmentReader`]: reads one of them.
//!
//! No name and no length is trusted: a header counts only if its checksum is right and the file has all bytes that the
//! header states. Locks: none.

use super::header::{BLOCK_BYTES, HEADER_BYTES, SegmentHeader, SegmentId, VERSION};
use super::segment::slot_number;
use crate::error::{Error, Result};
use crate::format::EditId;
use crate::runtime::Environment;
use crate::storage::{File, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of the log directory.
#[derive(Clone, Debug)]
pub(super) struct SlotFile {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// `None`: the header was never finished, or is damaged.
    pub(super) header: Option<SegmentHeader>,
    /// Whether the place of the header holds neither a header nor zeros, or the file is shorter than the header states.
    /// That is damage; a crash leaves zeros.
    pub(super) header_is_damaged: bool,
}

impl SlotFile {
    /// Returns the identity of the segment in it.
    pub(super) fn id(&self) -> Option<SegmentId> {
        self.header.map(|header| header.id)
    }
}

/// The slots of a directory, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    pub(super) slots: Vec<SlotFile>,
}

impl Slots {
    /// Lists the directory and reads every header in the given mode ([`OpenMode::ReadMedium`] only where possible). A
    /// header of a newer version is an error wherever it stands: no policy may take such a segment for damage.
    pub(super) fn load(environment: &Environment, directory: &Path, mode: OpenMode) -> Result<Slots> {
        let mut slots = Vec::new();
        for entry in environment.storage.list(directory)?.unwrap_or_default() {
            let Some(number) = slot_number(&entry.name).filter(|_| !entry.is_directory) else {
                continue;
            };
            let path = directory.join(&entry.name);
            let (file, _) = open_for_reading(environment, &path, mode)?;
            let start = read_start(&*file)?;
            let start = start.get(..HEADER_BYTES as usize).unwrap_or(&start);
            if let Some(found) = SegmentHeader::newer_version(start) {
                return Err(Error::newer_version(&path, found, VERSION));
            }
            let header = SegmentHeader::decode(start);
            let header_is_damaged = header.is_none() && start.iter().any(|byte| *byte != 0);
            let whole = header.filter(|header| entry.bytes >= u64::from(header.bytes));
            let header_is_damaged = header_is_damaged || (header.is_some() && whole.is_none());
            slots.push(SlotFile { number, path, bytes: entry.bytes, header: whole, header_is_damaged });
        }
        slots.sort_by_key(|slot| slot.number);
        Ok(Slots { slots })
    }

    /// Returns the slot that holds a segment.
    pub(super) fn find(&self, id: SegmentId) -> Option<(&SlotFile, SegmentHeader)> {
        self.slots.iter().find_map(|slot| Some((slot, slot.header.filter(|header| header.id == id)?)))
    }
    /// Returns the slot that most likely held a segment whose header is not found: one with a damaged header, or else
    /// one without a header.
    pub(super) fn suspect(&self) -> Option<&SlotFile> {
        let damaged = self.slots.iter().find(|slot| slot.header_is_damaged);
        damaged.or_else(|| self.slots.iter().find(|slot| slot.header.is_none()))
    }
    /// Returns the last settled edit in any header.
    pub(super) fn settled_max(&self) -> EditId {
        self.slots.iter().filter_map(|slot| slot.header).map(|header| header.settled).max().unwrap_or_default()
    }
    /// Returns the largest index in any header; 0 if there is none.
    pub(super) fn index_max(&self) -> u32 {
        self.slots.iter().filter_map(SlotFile::id).map(|id| id.index).max().unwrap_or(0)
    }
    /// Returns the first number that no slot has.
    pub(super) fn next_number(&self) -> u32 {
        self.slots.iter().map(|slot| slot.number).max().map_or(0, |number| number.saturating_add(1))
    }
}

/// Opens a file for reading. The flag is true if reads go past the page cache, as [`OpenMode::ReadMedium`] requests.
pub(super) fn open_for_reading(
    environment: &Environment,
    path: &Path,
    mode: OpenMode,
) -> Result<(Arc<dyn File>, bool)> {
    if let Some(file) = environment.storage.open(path, mode)? {
        return Ok((file, mode == OpenMode::ReadMedium));
    }
    let file = environment.storage.open(path, OpenMode::Read)?;
    let file = file.ok_or_else(|| Error::io("open", path, std::io::Error::other("reading is refused")))?;
    Ok((file, false))
}

/// Reads the first block, or as much of it as exists.
fn read_start(file: &dyn File) -> Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK_BYTES as usize];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(done as u64, rest)? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Where the bytes of a segment come from.
#[derive(Clone)]
pub(super) enum SegmentSource {
    File(Arc<dyn File>),
    /// Bytes in memory that claim to be a segment.
    #[cfg_attr(not(any(test, feature = "simulation")), expect(dead_code, reason = "only fuzzing makes one"))]
    Memory(Arc<[u8]>),
}

/// Reads a segment block by block, a few blocks ahead.
pub(super) struct SegmentReader {
    source: SegmentSource,
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    chunk: Vec<u8>,
    chunk_at: u32,
}

/// How many bytes one read takes.
const CHUNK_BYTES: u32 = 8 * BLOCK_BYTES;

impl SegmentReader {
    /// A reader of a segment in `source`.
    pub(super) fn new(source: SegmentSource, path: PathBuf, header: SegmentHeader) -> Self {
        SegmentReader { source, path, header, chunk: Vec::new(), chunk_at: 0 }
    }
    /// A reader of the segment in a slot.
    pub(super) fn open(
        environment: &Environment,
        slot: &SlotFile,
        header: SegmentHeader,
        mode: OpenMode,
    ) -> Result<Self> {
        let (file, _) = open_for_reading(environment, &slot.path, mode)?;
        Ok(SegmentReader::new(SegmentSource::File(file), slot.path.clone(), header))
    }

    /// Returns the bytes from `offset` to the end of its block; none past the end of the segment.
    pub(super) fn rest_of_block(&mut self, offset: u32) -> Result<&[u8]> {
        if offset >= self.header.bytes {
            return Ok(&[]);
        }
        let block = offset / BLOCK_BYTES * BLOCK_BYTES;
        let end = block + BLOCK_BYTES;
        if block < self.chunk_at || end as usize > self.chunk_at as usize + self.chunk.len() {
            self.load(block)?;
        }
        let at = |offset: u32| (offset - self.chunk_at) as usize;
        Ok(self.chunk.get(at(offset)..at(end)).unwrap_or_default())
    }

    /// Reads the blocks from `block` on.
    fn load(&mut self, block: u32) -> Result<()> {
        let count = CHUNK_BYTES.min(self.header.bytes - block) as usize;
        self.chunk.clear();
        self.chunk.resize(count, 0);
        self.chunk_at = block;
        let done = match &self.source {
            SegmentSource::File(file) => file.read_exact_at(u64::from(block), &mut self.chunk),
            SegmentSource::Memory(bytes) => {
                let from = bytes.get(block as usize..).unwrap_or_default();
                let count = count.min(from.len());
                if let (Some(to), Some(from)) = (self.chunk.get_mut(..count), from.get(..count)) {
                    to.copy_from_slice(from);
                }
                Ok(())
            }
        };
        if done.is_err() {
            self.chunk.clear();
        }
        done
    }
}
