//! [`Segment`]: a segment file that is open for writing.
//!
//! Invariant: a slot with a valid header has all its blocks, durably ([`super::preparation`]). Stores through a mapping
//! depend on that: a block that exists cannot be refused when a full disk and a power cut come together. Locks: none.

use super::header::{SegmentHeader, SegmentId};
use crate::error::{Error, Result};
use crate::runtime::{BackgroundFile, Environment};
use crate::storage::{File, Mapping, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many bytes one step makes ready for writes.
const READY_BYTES: u32 = 1 << 20;

/// The bytes of the header's page. The other pages begin after it.
const HEADER_PAGE_BYTES: u32 = 4096;

/// Zeros, in place of old bytes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A segment, with the handles that write and sync it.
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) bytes: u32,
    pub(super) path: PathBuf,
    /// Whether the segment was made while callers often waited for syncs ([`super::demand`]). If so, its records are
    /// written by position as long as callers often wait, and its pages are not populated.
    pub(super) is_for_callers: bool,
    /// Whether the file held another segment before.
    pub(super) is_recycled: bool,
    /// One handle for each sync that may be in flight. The kernel reports a failed write-back once per open file
    /// description, so two syncs must not share one. Writes go through the first handle. `None`: the segment is durable
    /// to its end, so it is not written or synced any more.
    handles: Option<[SegmentHandle; 2]>,
}

/// An open file description of a segment. It is mapped where stores cannot fail.
pub(super) struct SegmentHandle {
    file: Arc<dyn File>,
    mapping: Option<Arc<dyn Mapping>>,
}

impl SegmentHandle {
    fn open(environment: &Environment, path: &Path, mapped_bytes: Option<u32>) -> Result<SegmentHandle> {
        let file = open_file(environment, path)?;
        let mapping = mapped_bytes.map_or(Ok(None), |bytes| file.map(u64::from(bytes)))?;
        Ok(SegmentHandle { file, mapping })
    }

    /// Makes the bytes `[from, to)` durable. With a mapping, writes only the pages of these bytes. Pages populated
    /// ahead of the tail stay writable, so no sync causes page faults in the writers.
    pub(super) fn sync(&self, from: u32, to: u32) -> Result<()> {
        match &self.mapping {
            Some(mapping) => mapping.sync_range(u64::from(from), u64::from(to)),
            None => self.file.sync(),
        }
    }

    /// Does what [`SegmentHandle::sync`] does, for a coroutine. Where possible the kernel runs the sync while the
    /// worker does other work. Otherwise the worker reports the end before it does anything else, because later syncs
    /// wait for it.
    pub(super) async fn sync_in_background(&self, from: u32, to: u32) -> Result<()> {
        let file = BackgroundFile::new(Arc::clone(&self.file));
        match &self.mapping {
            Some(mapping) => file.sync_range_at_once(&**mapping, from, to).await,
            None => file.sync_at_once().await,
        }
    }
}

impl Segment {
    /// Opens the segment in the file at `path` without a mapping: it is written by position.
    pub(super) fn open(environment: &Environment, path: PathBuf, id: SegmentId, bytes: u32) -> Result<Segment> {
        let handle = || SegmentHandle::open(environment, &path, None);
        Ok(Segment { handles: Some([handle()?, handle()?]), ..Segment::closed(path, id, bytes) })
    }

    /// A segment that is durable to its end, without handles.
    pub(super) fn closed(path: PathBuf, id: SegmentId, bytes: u32) -> Segment {
        Segment { id, bytes, path, is_for_callers: false, is_recycled: false, handles: None }
    }

    /// Returns whether the segment has no handles any more.
    pub(super) fn is_closed(&self) -> bool {
        self.handles.is_none()
    }

    /// Returns the handle for one of the syncs that may be in flight.
    pub(super) fn handle(&self, number: usize) -> Result<&SegmentHandle> {
        self.handles.as_ref().and_then(|handles| handles.get(number)).ok_or_else(|| {
            Error::io("write to", &self.path, std::io::Error::other("the segment is durable and closed"))
        })
    }

    /// Opens the segment for the log to continue in, with a mapping where possible. It must have all its blocks.
    pub(super) fn open_mapped(environment: &Environment, path: PathBuf, id: SegmentId, bytes: u32) -> Result<Segment> {
        let handle = || SegmentHandle::open(environment, &path, Some(bytes));
        Ok(Segment { handles: Some([handle()?, handle()?]), ..Segment::closed(path, id, bytes) })
    }

    /// Returns the mapping, through which stores replace writes.
    pub(super) fn mapping(&self) -> Option<&dyn Mapping> {
        let [first, _] = self.handles.as_ref()?;
        first.mapping.as_deref()
    }

    /// Writes `bytes` at `offset` by a positional write.
    pub(super) fn write(&self, offset: u32, bytes: &[u8]) -> Result<()> {
        self.handle(0)?.file.write_all_at(u64::from(offset), bytes)
    }

    /// Writes the header, and with `clears_page` also zeros up to the end of its page. If the page cache has evicted
    /// the page of a recycled slot, a write of a part of the page must first read the rest, and this read waits behind
    /// all writes at the device. The header and the zeros replace records that are not needed. Returns the number of
    /// bytes written.
    pub(super) fn write_header(&self, header: &SegmentHeader, clears_page: bool) -> Result<u64> {
        let mut page = header.encode();
        if clears_page {
            page.resize(HEADER_PAGE_BYTES as usize, 0);
        }
        self.write(0, &page)?;
        Ok(page.len() as u64)
    }

    /// Notes that all stores to `[from, to)` are done, and that a sync of this range follows.
    pub(super) fn release(&self, from: u32, to: u32) {
        if let Some(mapping) = self.mapping() {
            mapping.release(u64::from(from), u64::from(to));
        }
    }

    /// Returns the mapping, unless the segment is for callers. Records are stored to the mapping of such a segment only
    /// while callers are few.
    pub(super) fn stored_to(&self) -> Option<&dyn Mapping> {
        self.mapping().filter(|_| !self.is_for_callers)
    }

    /// Makes one step of pages from `from` on ready for stores, before anything but the header is written to the
    /// segment. Returns where the next step begins.
    pub(super) fn make_ready(&self, from: u32) -> Result<Option<u32>> {
        let renewed = if self.is_recycled { self.renew(from)? } else { None };
        Ok(self.populate(from)?.or(renewed))
    }

    /// Populates one step of the mapping from `from` on: the pages become resident and writable. Their bytes stay.
    /// Returns where the next step begins.
    pub(super) fn populate(&self, from: u32) -> Result<Option<u32>> {
        let Some(mapping) = self.stored_to() else { return Ok(None) };
        let to = self.step_end(from);
        mapping.populate(u64::from(from), u64::from(to))?;
        Ok((to < self.bytes).then_some(to))
    }

    /// Brings one step of pages from `from` on into the page cache, in a file whose old records are not needed. If the
    /// page cache has evicted some of these pages, the first write to each would wait until its old bytes are read. So
    /// pages that will be stored to become zeros. The zeros need no read, and are not written to the device before the
    /// records are. Pages that will be written by position are read ahead instead, because their syncs may be of the
    /// whole file, and would also write the zeros. Returns where the next step begins.
    fn renew(&self, from: u32) -> Result<Option<u32>> {
        let (first, end) = (from.max(HEADER_PAGE_BYTES), self.step_end(from));
        let file = &self.handle(0)?.file;
        let count = u64::from(end.saturating_sub(first));
        let is_evicted = count > 0 && file.is_cached(u64::from(first), count) == Some(false);
        if is_evicted && self.stored_to().is_none() {
            file.will_need(u64::from(first), count);
        } else if is_evicted {
            let mut at = first;
            while at < end {
                // Each piece ends at a multiple of its size, so that the page cache has few folios for it.
                let most = ZEROS.len() - at as usize % ZEROS.len();
                let zeros = ZEROS.get(..most.min((end - at) as usize)).unwrap_or(&ZEROS);
                file.write_all_at(u64::from(at), zeros)?;
                at += zeros.len() as u32;
            }
        }
        Ok((end < self.bytes).then_some(end))
    }

    /// Returns where the step that begins at `from` ends.
    fn step_end(&self, from: u32) -> u32 {
        from.saturating_add(READY_BYTES).min(self.bytes)
    }
}

/// Opens an existing file for reading and writing.
pub(super) fn open_file(environment: &Environment, path: &Path) -> Result<Arc<dyn File>> {
    let file = environment.storage.open(path, OpenMode::ReadWrite)?;
    file.ok_or_else(|| Error::io("open", path, std::io::Error::other("reading and writing is refused")))
}

/// Returns the path of slot `number`.
pub(super) fn slot_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:08}.log"))
}

/// Returns the number of the slot with this file name.
pub(super) fn slot_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
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
