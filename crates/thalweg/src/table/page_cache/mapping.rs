//! [`TableMapping`]: a table's file mapped for reads, within the [`MappingBudget`] of the process.
//!
//! A block in the page cache is copied out of the mapping into reused memory, a [`BlockBuffer`], and verified there.
//! That takes no system call and no new memory, and the block cache need not keep the block. The block is verified at
//! each read, because the kernel may have read its page again from the device. Callers never get a part of the mapping
//! itself: if a page cannot be read or the file is changed, only a copy fails its checksum or is discarded.
//!
//! Only tables that were brought into the page cache, and are all on the device ([`super::write_back`]), are mapped.
//! While memory is short, the mapping is not read ([`super::probe`]): a page fault reads from the device, one page at a
//! time, with the overhead of a fault.
//!
//! Invariant: [`MappingBudget::left`] is the mappings allowed less the [`TableMapping`]s that exist. No locks.

use super::block_buffer::BlockBuffer;
use super::warming::Warming;
use crate::format::Slice;
use crate::storage::{File, ReadMapping};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One in this many of the process's mappings may be of a table.
const PART: u64 = 4;

/// How many tables may be mapped.
pub(in crate::table) struct MappingBudget {
    left: AtomicU64,
}

/// A table's mapping. Dropping it leaves the unmapping to [`Warming`]: for 64 MiB that takes a third of a millisecond.
pub(in crate::table) struct TableMapping {
    mapping: Option<Arc<dyn ReadMapping>>,
    has_failed: AtomicBool,
    budget: Arc<MappingBudget>,
    warming: Arc<Warming>,
}

impl MappingBudget {
    /// `mappings_max`: the mappings that the process may have; `None` if they are not limited.
    pub(in crate::table) fn new(mappings_max: Option<u64>) -> Arc<Self> {
        Arc::new(MappingBudget { left: AtomicU64::new(mappings_max.unwrap_or(u64::MAX) / PART) })
    }

    /// A budget of no mappings.
    pub(in crate::table) fn none() -> Arc<Self> {
        Self::new(Some(0))
    }

    /// Maps the first `bytes` of `file`. Returns `None` if that is impossible or no mapping is left.
    pub(in crate::table) fn map(
        self: &Arc<Self>,
        file: &dyn File,
        bytes: u64,
        warming: &Arc<Warming>,
    ) -> Option<TableMapping> {
        // Without a way to ask what the page cache has, nothing would notice that it no longer has the table.
        file.is_cached(0, 1)?;
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        let (has_failed, budget) = (AtomicBool::new(false), Arc::clone(self));
        let mut mapped = TableMapping { mapping: None, has_failed, budget, warming: Arc::clone(warming) };
        mapped.mapping = Some(file.map_for_reads(bytes)?);
        Some(mapped)
    }
}

impl TableMapping {
    /// Copies the bytes at `offset` to `buffer`. Returns `None` if they cannot be read.
    #[inline]
    pub(in crate::table) fn read(&self, offset: u64, bytes: usize, buffer: &mut BlockBuffer) -> Option<Slice> {
        let mapping = self.mapping.as_ref()?;
        let filled = buffer.fill(bytes, |bytes| mapping.read(offset, bytes));
        if filled.is_none() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        filled
    }

    /// Whether a read has failed. Then all other reads go to the file, too.
    #[inline]
    pub(in crate::table) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Prefetches the beginning of these bytes.
    #[inline]
    pub(in crate::table) fn prefetch(&self, offset: u64, bytes: usize) {
        if let Some(mapping) = &self.mapping {
            mapping.approach(offset, bytes);
        }
    }
}

impl Drop for TableMapping {
    fn drop(&mut self) {
        self.budget.left.fetch_add(1, Ordering::Relaxed);
        if let Some(mapping) = self.mapping.take() {
            self.warming.unmap(mapping);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;
    use crate::table::tests::disk::{Disk, Memory};
    use std::path::Path;

    #[test]
    fn the_budget_limits_mappings_and_gets_back_those_dropped_or_failed() {
        let (budget, warming) = (MappingBudget::new(Some(2 * PART)), Arc::<Warming>::default());
        let disk = Disk::new(true);
        let file = Memory(Arc::clone(&disk)).create(Path::new("a")).unwrap();
        let map = || budget.map(&*file, 10, &warming);
        assert!(map().is_none(), "it cannot be mapped");
        disk.is_mapped.store(true, Ordering::Relaxed);
        let (first, second) = (map(), map());
        assert!(first.is_some() && second.is_some() && map().is_none());
        drop(first);
        assert!(map().is_some());
    }
}
