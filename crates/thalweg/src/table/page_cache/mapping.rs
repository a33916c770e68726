//! [`Mapped`]: a table's file mapped to be read, and who may have how many.
//!
//! A block that is in the page cache is copied out of the mapping, into memory that is used again and again, and
//! verified there: no call, no new memory, and nothing to keep in the block cache. Each time it is verified anew, since
//! its page may have been read anew. What is given to callers is never a part of a mapping, so a page that cannot be
//! read, or a file that somebody changes, concerns nothing but a copy that fails its checksum or is thrown away.
//!
//! Only tables that were brought into the page cache are mapped, and while memory is short ([`crate::table::read::open_table`]) nobody
//! reads mappings: a fault reads from the device, alone and with everything else of the kernel's about it.
//!
//! Invariant: [`Mappings::left`] is what may be mapped less the [`Mapped`]s that there are. No locks.

use super::warming::Warming;
use crate::format::{Slice, zeroed};
use crate::storage::{File, ReadMapping};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Of all mappings that a process may have, tables may have one in so many.
const PART: u64 = 4;

/// Room is made for so many bytes, and multiples of it: blocks differ by an entry.
const ROOM_BYTES: usize = 1 << 10;

/// No block is put into more than so many times what it needs.
const ROOM_PART: usize = 4;

/// Memory for longer blocks is not kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// See the module.
pub(in crate::table) struct Mappings {
    left: AtomicU64,
}

/// A table's mapping. Dropped, it goes to who unmaps it: that takes a third of a millisecond for 64 MiB.
pub(in crate::table) struct Mapped {
    mapping: Option<Arc<dyn ReadMapping>>,
    has_failed: AtomicBool,
    mappings: Arc<Mappings>,
    warming: Arc<Warming>,
}

impl Mappings {
    /// Of `mappings_max`, if that is bounded.
    pub(in crate::table) fn new(mappings_max: Option<u64>) -> Arc<Self> {
        Arc::new(Mappings { left: AtomicU64::new(mappings_max.unwrap_or(u64::MAX) / PART) })
    }

    /// Of none.
    pub(in crate::table) fn none() -> Arc<Self> {
        Self::new(Some(0))
    }

    /// Maps the first `bytes` of `file`; `None` where that is impossible, or none is left.
    pub(in crate::table) fn map(
        self: &Arc<Self>,
        file: &dyn File,
        bytes: u64,
        warming: &Arc<Warming>,
    ) -> Option<Mapped> {
        // Where nobody can tell what the page cache has, nobody would notice that it has it no more.
        file.is_cached(0, 1)?;
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        let (has_failed, mappings) = (AtomicBool::new(false), Arc::clone(self));
        let mut mapped = Mapped { mapping: None, has_failed, mappings, warming: Arc::clone(warming) };
        mapped.mapping = Some(file.map_for_reads(bytes)?);
        Some(mapped)
    }
}

impl Mapped {
    /// The bytes at `offset`, in memory of `room`; `None` when they cannot be read.
    #[inline]
    pub(in crate::table) fn read(&self, offset: u64, bytes: usize, room: &mut Room) -> Option<Slice> {
        let mapping = self.mapping.as_ref()?;
        let filled = room.fill(bytes, |buffer| mapping.read(offset, buffer));
        if filled.is_none() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        filled
    }

    /// Whether a read has failed: then every other one goes to the file, too.
    #[inline]
    pub(in crate::table) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Brings the beginning of these bytes near the processor.
    #[inline]
    pub(in crate::table) fn approach(&self, offset: u64, bytes: usize) {
        if let Some(mapping) = &self.mapping {
            mapping.approach(offset, bytes);
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.mappings.left.fetch_add(1, Ordering::Relaxed);
        if let Some(mapping) = self.mapping.take() {
            self.warming.unmap(mapping);
        }
    }
}

/// Memory for one block after the other: used again once nobody has anything of the block before.
#[derive(Default)]
pub(in crate::table) struct Room {
    buffer: Option<Arc<[u8]>>,
}

impl Room {
    pub(in crate::table) const fn new() -> Self {
        Room { buffer: None }
    }

    /// What `fill` puts into `bytes` bytes; `None` when it gives `false`.
    #[inline]
    fn fill(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> bool) -> Option<Slice> {
        let free = self.buffer.take().filter(|buffer| fits(buffer.len(), bytes));
        let free = free.and_then(|mut buffer| Arc::get_mut(&mut buffer).is_some().then_some(buffer));
        let mut buffer = free.unwrap_or_else(|| zeroed(bytes.next_multiple_of(ROOM_BYTES)));
        let is_filled = Arc::get_mut(&mut buffer).and_then(|buffer| buffer.get_mut(..bytes)).is_some_and(fill);
        let filled = is_filled.then(|| Slice::start_of(Arc::clone(&buffer), bytes));
        self.buffer = Some(buffer).filter(|buffer| buffer.len() <= KEPT_BYTES_MAX);
        filled
    }
}

/// Whether memory of `room` bytes may have `bytes`: a value that is kept should not keep much more.
fn fits(room: usize, bytes: usize) -> bool {
    bytes <= room && room <= ROOM_BYTES.max(bytes).saturating_mul(ROOM_PART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;

    #[test]
    fn only_so_many_are_mapped_at_a_time_and_what_is_unmapped_or_failed_counts_no_more() {
        let (mappings, warming) = (Mappings::new(Some(2 * PART)), Arc::<Warming>::default());
        let disk = Disk::new(true);
        let file = Memory(Arc::clone(&disk)).create(Path::new("a")).unwrap();
        let map = || mappings.map(&*file, 10, &warming);
        assert!(map().is_none(), "it cannot be mapped");
        disk.is_mapped.store(true, Ordering::Relaxed);
        let (first, second) = (map(), map());
        assert!(first.is_some() && second.is_some() && map().is_none());
        drop(first);
        assert!(map().is_some());
    }

    #[test]
    fn memory_is_used_again_once_nobody_has_anything_of_the_block() {
        let mut room = Room::default();
        let fill = |room: &mut Room, byte: u8, bytes| {
            room.fill(bytes, |buffer| {
                buffer.fill(byte);
                true
            })
            .unwrap()
        };
        let first = fill(&mut room, 1, 4000);
        let second = fill(&mut room, 2, 4090);
        assert_eq!((first, &second), (Slice::from(vec![1; 4000]), &Slice::from(vec![2; 4090])));
        let place = second.as_ptr();
        drop(second);
        let third = fill(&mut room, 3, 10);
        assert_eq!((third.as_ptr(), &third), (place, &Slice::from(vec![3; 10])));
        assert!(room.fill(10, |_| false).is_none());
        assert_eq!(third, [3; 10]);
        fill(&mut room, 4, KEPT_BYTES_MAX + 1);
        assert!(room.buffer.is_none(), "too long to be kept");
    }
}
