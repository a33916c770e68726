//! Which f-hashes a flush, a merge or an open changes.
//!
//! Each item of a pack gets a descriptor. Of several items with one hash in one block only the first has one, and the
//! others follow it. For that a flush loads the f-hashes of all its directories, as in the paper. A merge replaces the
//! descriptors of its inputs by those of its outputs, one directory after the other, before its edit is in force. This
//! is sound because the outputs have everything of the inputs that a reader may read. If the edit fails, the f-hashes
//! of these directories are lost.

use super::descriptor::Descriptor;
use super::f_hashes::{FHashOptions, FHashes};
use super::page::Entry;
use super::statistics::FHashStatistics;
use crate::directory::index::DirectoryIndex;
use crate::format::{NameHash, TableId};
use crate::runtime::yield_now;
use crate::table::{PackItems, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A change yields to the other coroutines of its worker after this number of directories.
const SLICE: usize = 64;

/// The items that f-hashes get, and those that they lose.
struct Update<'a> {
    f_hashes: &'a FHashes,
    /// The slots of the packs that are removed.
    gone: Vec<u32>,
    /// The directories of these packs that were not changed yet.
    left: BTreeSet<u64>,
    /// The directory whose entries are collected.
    directory: Option<u64>,
    collected: Collected,
    /// The collected changes of directories whose f-hashes are not changed yet.
    cut: BTreeMap<u64, Collected>,
}

/// Entries of one directory.
#[derive(Default)]
struct Collected {
    entries: Vec<Entry>,
    /// Whether an item has no descriptor.
    has_gap: bool,
}

impl DirectoryIndex {
    /// Gives an empty keyspace f-hashes.
    pub(crate) fn use_f_hashes(&self, options: &FHashOptions) {
        let _ = self.f_hashes.set(FHashes::new(options));
    }

    /// The counters of the f-hashes, and their size; `None` if there are no f-hashes.
    pub(crate) fn f_hash_statistics(&self) -> Option<FHashStatistics> {
        self.f_hashes.get().map(FHashes::statistics)
    }

    /// Puts the items of packs that were just added into f-hashes, in the place of those of packs that will be removed.
    pub(crate) async fn change_f_hashes(&self, added: &[Arc<Table>], replaced: &[TableId]) {
        let Some(mut update) = self.update_of(replaced) else { return };
        let mut added = added.to_vec();
        added.sort_by(|a, b| a.meta().key_min.cmp(&b.meta().key_min));
        for pack in &added {
            let Some((slot, items)) = self.items_of(pack) else { continue };
            for some in items.blocks.chunks(SLICE) {
                some.iter().for_each(|block| update.take(slot, block, &items));
                yield_now().await;
            }
        }
        update.end_directory();
        while !update.left.is_empty() {
            (0..SLICE).for_each(|_| update.take_left());
            yield_now().await;
        }
    }

    /// Puts the items of all packs of an open into f-hashes.
    ///
    /// The first and the last directory of a pack may continue in another pack. Then the pack has only a range of their
    /// hashes, which belong into few of the pages that the directory needs. So the items of such directories are put in
    /// at the end, those of all packs together.
    pub(crate) fn fill_f_hashes(&self, packs: &[Arc<Table>]) {
        let Some(f_hashes) = self.f_hashes.get() else { return };
        let mut cut: BTreeMap<u64, Collected> = BTreeMap::new();
        for pack in packs {
            let (Some(mut update), Some((slot, items))) = (self.update_of(&[]), self.items_of(pack)) else { continue };
            for end in [items.blocks.first(), items.blocks.last()].into_iter().flatten() {
                let before = cut.remove(&end.directory);
                update.cut.entry(end.directory).or_default().add(before.unwrap_or_default());
            }
            items.blocks.iter().for_each(|block| update.take(slot, block, &items));
            update.end_directory();
            cut.append(&mut update.cut);
        }
        cut.iter().for_each(|(directory, collected)| collected.put(f_hashes, *directory, &[]));
    }

    /// Gives up the f-hashes of all directories that these packs have.
    pub(crate) fn lose_f_hashes(&self, packs: &[TableId]) {
        if let Some(f_hashes) = self.f_hashes.get() {
            self.directories_in(packs).into_iter().for_each(|directory| f_hashes.lose(directory));
        }
    }

    /// Removes all f-hashes.
    pub(crate) fn clear_f_hashes(&self) {
        self.f_hashes.get().into_iter().for_each(FHashes::clear);
    }

    fn update_of(&self, replaced: &[TableId]) -> Option<Update<'_>> {
        let f_hashes = self.f_hashes.get()?;
        let gone = replaced.iter().filter_map(|id| self.slot_of(*id)).collect();
        let left = if replaced.is_empty() { BTreeSet::new() } else { self.directories_in(replaced) };
        let (collected, cut) = (Collected::default(), BTreeMap::new());
        Some(Update { f_hashes, gone, left, directory: None, collected, cut })
    }

    /// The slot of a pack and its items. `None`: they cannot be read; then its directories lose their f-hashes.
    fn items_of(&self, pack: &Arc<Table>) -> Option<(u32, PackItems)> {
        let id = pack.meta().id;
        let found = self.slot_of(id).zip(pack.items().ok());
        if found.is_none() {
            self.lose_f_hashes(&[id]);
        }
        found
    }
}

impl Update<'_> {
    /// Takes the items of a block.
    fn take(&mut self, slot: u32, block: &crate::table::PackBlock, items: &PackItems) {
        if self.directory != Some(block.directory) {
            self.end_directory();
            self.directory = Some(block.directory);
        }
        let mut before: Option<NameHash> = None;
        for (number, hash) in items.hashes_of(block).iter().copied().enumerate() {
            if before.replace(hash) == Some(hash) {
                continue;
            }
            match Descriptor::new(slot, block.place, number) {
                Some(descriptor) => self.collected.entries.push(Entry { hash, descriptor }),
                None => self.collected.has_gap = true,
            }
        }
    }

    fn end_directory(&mut self) {
        let Some(directory) = self.directory.take() else { return };
        let collected = std::mem::take(&mut self.collected);
        if let Some(cut) = self.cut.get_mut(&directory) {
            return cut.add(collected);
        }
        let gone = if self.left.remove(&directory) { self.gone.as_slice() } else { &[] };
        collected.put(self.f_hashes, directory, gone);
    }

    /// Changes a directory of which the outputs have nothing.
    fn take_left(&mut self) {
        if let Some(directory) = self.left.pop_first() {
            self.f_hashes.change(directory, &self.gone, &[]);
        }
    }
}

impl Collected {
    fn add(&mut self, more: Collected) {
        self.entries.extend(more.entries);
        self.has_gap |= more.has_gap;
    }

    /// Puts the entries into the f-hash of a directory, in the place of those of the packs `gone`.
    fn put(&self, f_hashes: &FHashes, directory: u64, gone: &[u32]) {
        if self.has_gap {
            f_hashes.lose(directory);
        } else {
            f_hashes.change(directory, gone, &self.entries);
        }
    }
}
