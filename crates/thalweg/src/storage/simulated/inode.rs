//! [`Inode`]: the bytes of one simulated file, twice: in the page cache (*live*) and on the medium.
//!
//! Invariants:
//! - a page differs between the two only if it is dirty, or a *phantom*: clean in the cache after a failed sync, though
//!   the medium lacks it;
//! - live bytes beyond the live length are zero; a page beyond it has no live bytes, and exists (dirty) only while the
//!   medium still has a page that the unsynced cut drops;
//! - `dirty` holds exactly the indices of the dirty pages; `submitted` is a subset.
//!
//! A page with no bytes is a hole and reads as zeros. Cloning shares the pages.

use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Bytes in a page of the cache.
pub(super) const PAGE_BYTES: usize = 4096;

/// Bytes that the medium writes atomically.
pub(super) const SECTOR_BYTES: usize = 512;

/// Sectors in a page.
pub(super) const SECTORS: usize = PAGE_BYTES / SECTOR_BYTES;

type PageBytes = Arc<[u8; PAGE_BYTES]>;

/// The content of all pages of zeros, so that preallocated files cost no memory.
static ZEROS: LazyLock<PageBytes> = LazyLock::new(|| Arc::new([0; PAGE_BYTES]));

/// One page in the cache and on the medium.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    live: Option<PageBytes>,
    medium: Option<PageBytes>,
    dirty: bool,
}

/// The part of a dirty page that survives a power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    /// The content of the medium.
    Old,
    /// The content of the cache.
    New,
    /// Sector by sector: bit `i` says that sector `i` is the cache's.
    Torn(u8),
    /// Persistent memory: each line of the processor's cache has by chance the cache's content, the medium's, or a mix
    /// of both by aligned words.
    Words(Random),
}

/// Bytes in a line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Bytes that persistent memory writes atomically, if they are aligned.
const WORD_BYTES: usize = 8;

/// The bytes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pages: BTreeMap<u64, Page>,
    dirty: BTreeSet<u64>,
    /// Dirty pages that were written to the device's volatile cache. A power cut loses them until a flush.
    submitted: BTreeSet<u64>,
    live_bytes: u64,
    durable_bytes: u64,
    /// The shortest live length since the length was last durable.
    lowest_bytes: u64,
    /// Pages with live bytes.
    allocated: u64,
    /// Whether there may be phantom pages.
    pub(super) phantoms: bool,
    /// A failed write-back that no handle has reported.
    pub(super) unseen_error: bool,
}

impl Inode {
    /// A file that is on the medium as it is in the cache.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        let mut inode = Inode::default();
        inode.write(0, bytes);
        inode.sync();
        inode
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(super) fn durable_bytes(&self) -> u64 {
        self.durable_bytes
    }

    pub(super) fn lowest_bytes(&self) -> u64 {
        self.lowest_bytes
    }

    pub(super) fn allocated(&self) -> u64 {
        self.allocated
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether a power cut leaves this value unchanged: the medium has all of the cache, and no error is unreported.
    pub(super) fn is_durable(&self) -> bool {
        let kept = self.allocated == self.pages.len() as u64;
        kept && !self.is_dirty() && !self.phantoms && self.live_bytes == self.durable_bytes && !self.unseen_error
    }

    /// Stops counting the pages of a file to which nothing live leads. Returns how many there were.
    pub(super) fn give_back(&mut self) -> u64 {
        std::mem::take(&mut self.allocated)
    }

    /// Reads from the cache or, with `from_medium`, clean pages from the medium.
    ///
    /// A direct read on Linux writes dirty pages back before it reads, so dirty pages always come from the cache.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8], from_medium: bool) -> usize {
        let rest = self.live_bytes.saturating_sub(offset);
        let count = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
        for (index, in_page, in_buffer) in spans(offset, count) {
            let page = self.pages.get(&index);
            let bytes = page.and_then(|p| if from_medium && !p.dirty { p.medium.as_ref() } else { p.live.as_ref() });
            match bytes {
                Some(bytes) => buffer[in_buffer].copy_from_slice(&bytes[in_page]),
                None => buffer[in_buffer].fill(0),
            }
        }
        count
    }

    /// The number of pages that a write of `length` bytes at `offset` would allocate.
    pub(super) fn pages_needed(&self, offset: u64, length: usize) -> u64 {
        if length == 0 {
            return 0;
        }
        let first = offset / PAGE_BYTES as u64;
        let last = (offset + length as u64 - 1) / PAGE_BYTES as u64;
        let present = self.pages.range(first..=last).filter(|(_, page)| page.live.is_some()).count();
        last - first + 1 - present as u64
    }

    /// Writes to the cache. The caller ensures that `offset + bytes.len()` does not overflow.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (index, in_page, in_bytes) in spans(offset, bytes.len()) {
            let page = self.pages.entry(index).or_default();
            if page.live.is_none() {
                self.allocated += 1;
            }
            let from = &bytes[in_bytes];
            if from.len() == PAGE_BYTES && from == ZEROS.as_slice() {
                page.live = Some(Arc::clone(&ZEROS));
            } else {
                let live = page.live.get_or_insert_with(|| Arc::clone(&ZEROS));
                Arc::make_mut(live)[in_page].copy_from_slice(from);
            }
            self.submitted.remove(&index);
            if !page.dirty {
                page.dirty = true;
                self.dirty.insert(index);
            }
        }
        if !bytes.is_empty() {
            self.live_bytes = self.live_bytes.max(offset + bytes.len() as u64);
        }
    }

    /// Writes every dirty page to the device's cache. A power cut may keep or lose them until [`Inode::flush`].
    pub(super) fn write_out(&mut self) {
        self.submitted = self.dirty.clone();
    }

    /// Whether every dirty page is in the device's cache.
    pub(super) fn is_written_out(&self) -> bool {
        self.submitted.len() == self.dirty.len()
    }

    /// Flushes the device's cache to the medium.
    pub(super) fn flush(&mut self) {
        for index in std::mem::take(&mut self.submitted) {
            self.write_back(index, Survival::New);
        }
    }

    /// Cuts the file in the cache, or extends it with a hole.
    pub(super) fn set_bytes(&mut self, bytes: u64) {
        let kept = page_count(bytes);
        if bytes < self.live_bytes {
            self.submitted.clear();
            let beyond: Vec<u64> = self.pages.range(kept..).map(|(index, _)| *index).collect();
            for index in beyond {
                self.drop_page(index);
            }
            let tail = (bytes % PAGE_BYTES as u64) as usize;
            if let Some(page) = self.pages.get_mut(&(bytes / PAGE_BYTES as u64)).filter(|_| tail != 0) {
                zero_from(&mut page.live, tail);
                page.dirty = true;
                self.dirty.insert(bytes / PAGE_BYTES as u64);
            }
        }
        self.live_bytes = bytes;
        self.lowest_bytes = self.lowest_bytes.min(bytes);
    }

    /// Drops a page beyond the end from the cache; the medium keeps it until the cut is durable.
    fn drop_page(&mut self, index: u64) {
        let Some(page) = self.pages.get_mut(&index) else { return };
        self.allocated -= u64::from(page.live.take().is_some());
        if page.medium.is_some() {
            page.dirty = true;
            self.dirty.insert(index);
        } else {
            self.pages.remove(&index);
            self.dirty.remove(&index);
        }
    }

    /// Whether the first `bytes` all have pages, so that a store there allocates nothing.
    pub(super) fn is_written(&self, bytes: u64) -> bool {
        bytes > 0 && bytes <= self.live_bytes && self.pages_needed(0, usize::try_from(bytes).unwrap_or(usize::MAX)) == 0
    }

    /// Makes these pages dirty without changing them.
    pub(super) fn touch(&mut self, pages: Range<u64>) {
        for (index, page) in self.pages.range_mut(pages).filter(|(_, page)| page.live.is_some()) {
            self.submitted.remove(index);
            page.dirty = true;
            self.dirty.insert(*index);
        }
    }

    /// Makes every dirty page and the length durable. Phantom pages are clean, so they stay missing on the medium.
    pub(super) fn sync(&mut self) {
        self.sync_pages(0..u64::MAX);
    }

    /// Makes the dirty pages in the range, and the length, durable.
    pub(super) fn sync_pages(&mut self, pages: Range<u64>) {
        let dirty: Vec<u64> = self.dirty.range(pages).copied().collect();
        for index in dirty {
            self.write_back(index, Survival::New);
        }
        self.sync_length();
    }

    /// Makes the length durable, whether or not the data has arrived.
    pub(super) fn sync_length(&mut self) {
        let end = page_count(self.live_bytes);
        while let Some(index) = self.dirty.last().copied().filter(|index| *index >= end) {
            self.dirty.remove(&index);
            self.submitted.remove(&index);
            self.pages.remove(&index);
        }
        self.durable_bytes = self.live_bytes;
        self.lowest_bytes = self.live_bytes;
    }

    /// Fails a write-back: each dirty page reaches the medium or not, and is clean in the cache in both cases.
    ///
    /// A page in the device's cache was written back already. Only a flush can still lose it, and the caller of the
    /// flush gets that error ([`Inode::fail_flush`]).
    pub(super) fn fail_write_back(&mut self, random: &mut Random, pages: Range<u64>) {
        let end = page_count(self.live_bytes).min(pages.end);
        for index in self.dirty.clone().difference(&self.submitted).filter(|i| (pages.start..end).contains(i)) {
            let Some(page) = self.pages.get_mut(index) else { continue };
            if random.coin() {
                page.medium = page.live.clone();
            } else {
                self.phantoms = true;
            }
            page.dirty = false;
            self.dirty.remove(index);
        }
        self.unseen_error = true;
    }

    /// Fails a write-back that no handle reports. With `are_dropped`, pages that have no block yet are dropped from the
    /// cache too.
    pub(super) fn lose_write_back(&mut self, random: &mut Random, pages: Range<u64>, are_dropped: bool) {
        let end = page_count(self.live_bytes).min(pages.end);
        let begun: Vec<u64> = self.dirty.difference(&self.submitted).copied().collect();
        for index in begun.into_iter().filter(|index| (pages.start..end).contains(index)) {
            let has_block = self.pages.get(&index).is_some_and(|page| page.medium.is_some());
            if random.coin() || (are_dropped && has_block) {
                self.write_back(index, Survival::New);
                continue;
            }
            let Some(page) = self.pages.get_mut(&index) else { continue };
            self.phantoms = true;
            page.dirty = false;
            self.dirty.remove(&index);
            if are_dropped {
                self.allocated -= u64::from(page.live.is_some());
                self.pages.remove(&index);
            }
        }
    }

    /// Whether the medium or the device's cache has every page up to the end.
    pub(super) fn is_written_whole(&self) -> bool {
        let has = |index: u64| self.pages.get(&index).is_some_and(|page| page.medium.is_some());
        (0..page_count(self.live_bytes)).all(|index| has(index) || self.submitted.contains(&index))
    }

    /// Fails a flush: pages in the device's cache are dirty again, as if they had not been written.
    pub(super) fn fail_flush(&mut self) {
        self.submitted.clear();
    }

    /// Writes one dirty page back, or some sectors of one, as the kernel does by itself. `false` when there is none.
    pub(super) fn write_back_some(&mut self, random: &mut Random) -> bool {
        let end = page_count(self.live_bytes);
        // The journal drops pages beyond the end; they are not written.
        let (Some(first), Some(last)) = (self.dirty.range(..end).next(), self.dirty.range(..end).next_back()) else {
            return false;
        };
        let from = first + random.below(last - first + 1);
        let Some(index) = self.dirty.range(from..end).next().copied() else { return false };
        let survival = if random.coin() {
            Survival::New
        } else {
            // The beginning or the end of the page: a request may be cut between any two sectors.
            let sectors = 1 + random.below(SECTORS as u64 - 1);
            let beginning = (1u8 << sectors).wrapping_sub(1);
            Survival::Torn(if random.coin() { beginning } else { !beginning })
        };
        self.write_back(index, survival);
        true
    }

    /// Writes back a random part of the dirty pages, as a sync that a power cut interrupts.
    pub(super) fn write_back_partly(&mut self, random: &mut Random) {
        let end = page_count(self.live_bytes);
        for index in self.dirty.clone().range(..end) {
            if random.coin() {
                self.write_back(*index, Survival::New);
            }
        }
    }

    fn write_back(&mut self, index: u64, survival: Survival) {
        let Some(page) = self.pages.get_mut(&index) else { return };
        page.medium = page.surviving(&survival);
        if survival == Survival::New {
            page.dirty = false;
            self.dirty.remove(&index);
            self.submitted.remove(&index);
            if page.live.is_none() {
                self.pages.remove(&index);
            }
        }
    }

    /// The file after a power cut that left it `bytes` long; `survival` decides about each dirty page.
    pub(super) fn after_power_cut(&self, bytes: u64, mut survival: impl FnMut() -> Survival) -> Inode {
        let end = page_count(bytes);
        let live_end = page_count(self.live_bytes);
        let mut pages = BTreeMap::new();
        for (index, page) in self.pages.range(..end) {
            // If an unsynced cut was lost, a page that it dropped has the medium's content.
            let decided = if page.dirty && *index < live_end { survival() } else { Survival::Old };
            let mut left = page.surviving(&decided);
            if *index == bytes / PAGE_BYTES as u64 {
                zero_from(&mut left, (bytes % PAGE_BYTES as u64) as usize);
            }
            if left.is_some() {
                pages.insert(*index, Page { live: left.clone(), medium: left, dirty: false });
            }
        }
        Inode {
            allocated: pages.len() as u64,
            pages,
            live_bytes: bytes,
            durable_bytes: bytes,
            lowest_bytes: bytes,
            ..Inode::default()
        }
    }

    /// Flips bits of one byte in the cache and on the medium. `false` when the file has no such byte.
    pub(super) fn flip(&mut self, offset: u64, mask: u8) -> bool {
        if offset >= self.live_bytes {
            return false;
        }
        let page = self.pages.entry(offset / PAGE_BYTES as u64).or_default();
        self.allocated += u64::from(page.live.is_none());
        let at = (offset % PAGE_BYTES as u64) as usize;
        for bytes in [&mut page.live, &mut page.medium] {
            Arc::make_mut(bytes.get_or_insert_with(|| Arc::clone(&ZEROS)))[at] ^= mask;
        }
        true
    }

    /// Sets the length in the cache and on the medium.
    pub(super) fn set_bytes_durably(&mut self, bytes: u64) {
        self.set_bytes(bytes);
        let end = page_count(bytes);
        self.pages.split_off(&end);
        self.dirty.split_off(&end);
        self.submitted.split_off(&end);
        let tail = (bytes % PAGE_BYTES as u64) as usize;
        if let Some(page) = self.pages.get_mut(&(bytes / PAGE_BYTES as u64)).filter(|_| tail != 0) {
            zero_from(&mut page.medium, tail);
        }
        self.sync_length();
    }
}

impl Page {
    fn surviving(&self, survival: &Survival) -> Option<PageBytes> {
        match survival {
            Survival::Old => self.medium.clone(),
            Survival::New => self.live.clone(),
            Survival::Torn(sectors) => Some(self.mixed(SECTOR_BYTES, |sector| sectors >> sector & 1 == 1)),
            Survival::Words(random) => {
                let mut random = random.clone();
                let words: Vec<bool> = (0..PAGE_BYTES / LINE_BYTES)
                    .flat_map(|_| {
                        let (fate, each) = (random.below(3), random.next_u64());
                        (0..LINE_BYTES / WORD_BYTES).map(move |word| fate == 0 || fate == 1 && each >> word & 1 == 1)
                    })
                    .collect();
                Some(self.mixed(WORD_BYTES, |word| words[word]))
            }
        }
    }

    /// The medium's content, with the parts of `part_bytes` that `is_new` picks from the cache.
    fn mixed(&self, part_bytes: usize, is_new: impl Fn(usize) -> bool) -> PageBytes {
        let mut mixed = self.medium.clone().unwrap_or_else(|| Arc::clone(&ZEROS));
        let live = self.live.as_ref().unwrap_or(&ZEROS);
        let bytes = Arc::make_mut(&mut mixed);
        for part in (0..PAGE_BYTES / part_bytes).filter(|part| is_new(*part)) {
            let range = part * part_bytes..(part + 1) * part_bytes;
            bytes[range.clone()].copy_from_slice(&live[range]);
        }
        mixed
    }
}

/// Zeros a page from `start` on.
fn zero_from(page: &mut Option<PageBytes>, start: usize) {
    if let Some(bytes) = page {
        Arc::make_mut(bytes)[start..].fill(0);
    }
}

/// The number of pages of a file of `bytes`.
fn page_count(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES as u64)
}

/// The pages that `length` bytes at `offset` touch: the page's index, the range in it, and the range in the bytes.
fn spans(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let count = (PAGE_BYTES - start).min(length - done);
        let in_bytes = done..done + count;
        done += count;
        Some((at / PAGE_BYTES as u64, start..start + count, in_bytes))
    })
}
