//! [`Shard`]: a part of the directories, their f-hashes, and the part of the f-cache that has their pages.
//!
//! A page of an f-hash is in the f-cache, or in the scratch file, or both: then its bytes are the same. A page that is
//! in the f-cache alone is *dirty*. A scratch page has one page of 4 KiB, or several f-hashes that are smaller
//! (PHAT-5).
//!
//! Nothing here does I/O. The owner holds the lock of the shard for each call, and reads and writes between two calls.
//! Each change of a page, or of its place, gets a number, which tells whether the page has changed meanwhile.

use super::image::Shape;
use super::page::{Entry, LINE_BYTES, LINES_MAX, Page};
use super::recency::{NONE, Recency};
use super::scratch::Scratch;
use crate::format::NameHash;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

/// An eviction looks at this number of the least recently used pages. It takes those of the nearest directories
/// together.
const CANDIDATES: usize = 64;

/// A hash map whose order is the same in each run.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// The f-hash of a directory.
pub(super) struct FHash {
    /// Whether the f-hash is being changed: then none of its pages is evicted.
    is_pinned: bool,
    state: State,
}

enum State {
    /// The f-hash had too many equal hashes, or an error lost one of its pages. Lookups do without it.
    Lost,
    /// Below 4 KiB: the base-2 logarithm of its lines.
    Small(u8, Slot),
    /// Pages of 4 KiB.
    Pages(Box<[Slot]>),
}

/// The places of one page; [`NONE`]: not there.
#[derive(Clone, Copy)]
struct Slot {
    cached: u32,
    scratch: u32,
    /// The number of its last change.
    change: u32,
    /// The line of the scratch page at which the page begins.
    line: u8,
}

/// A page in the f-cache.
struct Cached {
    directory: u64,
    number: u32,
    page: Page,
}

/// The f-hashes of a part of the directories; see the module.
#[derive(Default)]
pub(super) struct Shard {
    known: Map<u64, FHash>,
    cached: Vec<Option<Cached>>,
    free: Vec<u32>,
    recency: Recency,
    /// The directories whose f-hashes share a scratch page.
    mates: Map<u32, Vec<u64>>,
    /// The bytes of the pages in the f-cache.
    cached_bytes: usize,
    /// The number of the last change of any page.
    changes: u32,
    /// The f-hashes that are lost, the pages of those of several pages, and the f-hashes that share scratch pages.
    lost: usize,
    pages: usize,
    sharing: usize,
}

/// A page that has to be read before a call can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) directory: u64,
    number: usize,
    pub(super) scratch: u32,
    change: u32,
}

/// The result of a lookup.
pub(super) enum Looked {
    /// The descriptors of the hash.
    Found(Vec<super::descriptor::Descriptor>),
    Missing(Missing),
    /// The directory has no f-hash that can be used.
    Lost,
}

/// The result of a change.
pub(super) enum Changed {
    Done,
    Missing(Missing),
}

/// Pages that are being written to a scratch page.
pub(super) struct Eviction {
    pub(super) scratch: u32,
    /// For each: its directory, its place in the f-cache, the number of its last change, and the line.
    parts: Vec<(u64, u32, u32, u8)>,
}

impl FHash {
    fn shape(&self) -> Shape {
        match &self.state {
            State::Lost => Shape::SMALLEST,
            State::Small(lines, _) => Shape { lines: 1 << lines, pages: 1 },
            State::Pages(slots) => Shape { lines: LINES_MAX, pages: slots.len() },
        }
    }

    fn slots(&self) -> &[Slot] {
        match &self.state {
            State::Lost => &[],
            State::Small(_, slot) => std::slice::from_ref(slot),
            State::Pages(slots) => slots,
        }
    }

    fn slot_mut(&mut self, number: usize) -> Option<&mut Slot> {
        match &mut self.state {
            State::Lost => None,
            State::Small(_, slot) => Some(slot),
            State::Pages(slots) => slots.get_mut(number),
        }
    }
}

impl Shard {
    /// The descriptors of a hash. Its page becomes the most recently used one.
    pub(super) fn look(&mut self, directory: u64, hash: NameHash) -> Looked {
        let Some(f_hash) = self.known.get(&directory) else { return Looked::Found(Vec::new()) };
        let number = f_hash.shape().page_of(hash);
        let Some(slot) = f_hash.slots().get(number) else { return Looked::Lost };
        let Some(cached) = self.cached.get(slot.cached as usize).and_then(Option::as_ref) else {
            return Looked::Missing(missing(directory, number, *slot));
        };
        self.recency.touch(slot.cached);
        Looked::Found(cached.page.find(hash).collect())
    }

    /// Takes a scratch page that was read because of `missing` into the f-cache, with all f-hashes that it has. Does
    /// nothing if the f-hash has changed meanwhile. Returns how many pages were taken.
    pub(super) fn take_in(&mut self, missing: Missing, bytes: &[u8]) -> usize {
        let is_current = |f_hash: &FHash| {
            let slot = f_hash.slots().get(missing.number);
            slot.is_some_and(|slot| slot.change == missing.change && slot.scratch == missing.scratch)
        };
        if !self.known.get(&missing.directory).is_some_and(is_current) {
            return 0;
        }
        // The page that was asked for comes last, as the most recently used one.
        let mut taken = 0;
        for mate in self.mates.get(&missing.scratch).cloned().unwrap_or_default() {
            if mate != missing.directory {
                taken += usize::from(self.take_in_one(mate, 0, missing.scratch, bytes));
            }
        }
        taken + usize::from(self.take_in_one(missing.directory, missing.number, missing.scratch, bytes))
    }

    fn take_in_one(&mut self, directory: u64, number: usize, scratch: u32, bytes: &[u8]) -> bool {
        let Some(f_hash) = self.known.get_mut(&directory) else { return false };
        let page_bytes = f_hash.shape().page_bytes();
        let Some(slot) = f_hash.slot_mut(number) else { return false };
        let start = usize::from(slot.line) * LINE_BYTES;
        let Some(bytes) = bytes.get(start..start + page_bytes) else { return false };
        if slot.cached != NONE || slot.scratch != scratch {
            return false;
        }
        let cached = Cached { directory, number: number as u32, page: Page::from_bytes(bytes) };
        let at = free_place(&mut self.cached, &mut self.free);
        slot.cached = at;
        self.put_in(at, cached);
        true
    }

    fn put_in(&mut self, at: u32, cached: Cached) {
        self.cached_bytes += cached.page.bytes().len();
        self.cached[at as usize] = Some(cached);
        self.recency.add(at);
    }

    fn take_out(&mut self, at: u32) -> Option<Page> {
        let cached = self.cached.get_mut(at as usize)?.take()?;
        self.cached_bytes -= cached.page.bytes().len();
        self.recency.remove(at);
        self.free.push(at);
        Some(cached.page)
    }

    /// Sets whether the pages of a directory are kept in the f-cache.
    pub(super) fn pin(&mut self, directory: u64, is_pinned: bool) {
        if let Some(f_hash) = self.known.get_mut(&directory) {
            f_hash.is_pinned = is_pinned;
        }
    }

    /// Adds the entries from number `done` on to the f-hash of a directory. `done` counts the entries that were added.
    pub(super) fn add(&mut self, directory: u64, entries: &[Entry], done: &mut usize, scratch: &Scratch) -> Changed {
        while let Some(entry) = entries.get(*done) {
            let Some(f_hash) = self.known.get_mut(&directory) else {
                return self.replace(directory, &[], entries, scratch);
            };
            let number = f_hash.shape().page_of(entry.hash);
            let Some(slot) = f_hash.slot_mut(number) else { return Changed::Done };
            let Some(Some(cached)) = self.cached.get_mut(slot.cached as usize) else {
                return Changed::Missing(missing(directory, number, *slot));
            };
            if !cached.page.insert(*entry) {
                return self.replace(directory, &[], &entries[*done..], scratch);
            }
            self.changes = self.changes.wrapping_add(1);
            let dirty = Slot { cached: slot.cached, scratch: NONE, change: self.changes, line: 0 };
            let left = std::mem::replace(slot, dirty);
            self.recency.touch(left.cached);
            self.leave(directory, left.scratch, scratch);
            *done += 1;
        }
        Changed::Done
    }

    /// Removes the descriptors of some packs from the f-hash of a directory and adds entries, in one step. The f-hash
    /// gets the size that it needs.
    pub(super) fn replace(&mut self, directory: u64, gone: &[u32], added: &[Entry], scratch: &Scratch) -> Changed {
        let mut entries = Vec::new();
        let mut shape = Shape::SMALLEST;
        if let Some(f_hash) = self.known.get(&directory) {
            shape = f_hash.shape();
            if matches!(f_hash.state, State::Lost) {
                return Changed::Done;
            }
            for (number, slot) in f_hash.slots().iter().enumerate() {
                let Some(Some(cached)) = self.cached.get(slot.cached as usize) else {
                    return Changed::Missing(missing(directory, number, *slot));
                };
                entries.extend(cached.page.entries().filter(|entry| !gone.contains(&entry.descriptor.pack())));
            }
        }
        entries.extend_from_slice(added);
        match shape.filled(&entries) {
            _ if entries.is_empty() => drop(self.empty(directory, scratch)),
            Some((shape, pages)) => self.put(directory, shape, pages, scratch),
            None => self.lose(directory, scratch),
        }
        Changed::Done
    }

    fn put(&mut self, directory: u64, shape: Shape, pages: Vec<Page>, scratch: &Scratch) {
        let before = self.empty(directory, scratch);
        let mut slots = Vec::with_capacity(pages.len());
        for (number, page) in pages.into_iter().enumerate() {
            let at = free_place(&mut self.cached, &mut self.free);
            self.put_in(at, Cached { directory, number: number as u32, page });
            self.changes = self.changes.wrapping_add(1);
            slots.push(Slot { cached: at, scratch: NONE, change: self.changes, line: 0 });
        }
        let state = match slots[..] {
            [slot] if shape.lines < LINES_MAX => State::Small(shape.lines.trailing_zeros() as u8, slot),
            _ => State::Pages(slots.into_boxed_slice()),
        };
        let is_pinned = before.is_some_and(|before| before.is_pinned);
        if let State::Pages(slots) = &state {
            self.pages += slots.len();
        }
        self.known.insert(directory, FHash { is_pinned, state });
    }

    /// Gives up the f-hash of a directory: lookups do without it.
    pub(super) fn lose(&mut self, directory: u64, scratch: &Scratch) {
        self.empty(directory, scratch);
        self.lost += 1;
        self.known.insert(directory, FHash { is_pinned: false, state: State::Lost });
    }

    /// Removes the f-hash of a directory, with all its pages.
    fn empty(&mut self, directory: u64, scratch: &Scratch) -> Option<FHash> {
        let f_hash = self.known.remove(&directory)?;
        match &f_hash.state {
            State::Lost => self.lost -= 1,
            State::Small(..) => {}
            State::Pages(slots) => self.pages -= slots.len(),
        }
        for slot in f_hash.slots() {
            self.take_out(slot.cached);
            self.leave(directory, slot.scratch, scratch);
        }
        Some(f_hash)
    }

    /// Takes a page out of a scratch page, which becomes free once no other page has a place there.
    fn leave(&mut self, directory: u64, page: u32, scratch: &Scratch) {
        if page == NONE {
            return;
        }
        if let Some(mates) = self.mates.get_mut(&page) {
            let before = mates.len();
            mates.retain(|mate| *mate != directory);
            self.sharing -= before - mates.len();
            if !mates.is_empty() {
                return;
            }
            self.mates.remove(&page);
        }
        scratch.release(page);
    }

    /// Removes everything.
    pub(super) fn clear(&mut self, scratch: &Scratch) {
        for directory in self.known.keys().copied().collect::<Vec<_>>() {
            self.empty(directory, scratch);
        }
    }

    /// Evicts the least recently used page. If it is dirty, it goes with others to a page of the scratch file, which
    /// the caller writes: `out` gets their bytes. `None`: there is nothing to be written. The second value is whether a
    /// page was found.
    pub(super) fn evict(&mut self, scratch: &Scratch, out: &mut dyn FnMut(&[u8])) -> (Option<Eviction>, bool) {
        let first = self.recency.oldest(CANDIDATES).find(|at| !self.is_pinned(*at));
        let Some(first) = first else { return (None, false) };
        if self.is_clean(first) {
            self.drop_clean(first);
            return (None, true);
        }
        let mut eviction = Eviction { scratch: scratch.allocate(), parts: Vec::new() };
        let mut line = 0;
        for at in self.neighbours(first) {
            let Some(Some(cached)) = self.cached.get(at as usize) else { continue };
            let lines = cached.page.lines();
            let Some((_, slot)) = self.slot_of(at).filter(|_| line + lines <= LINES_MAX) else { continue };
            out(cached.page.bytes());
            eviction.parts.push((cached.directory, at, slot.change, line as u8));
            // So no other thread evicts it meanwhile.
            self.recency.remove(at);
            line += lines;
            if line == LINES_MAX {
                break;
            }
        }
        (Some(eviction), true)
    }

    /// The page that is evicted, and the dirty ones that may share its scratch page: those of the nearest directories
    /// first (PHAT-5).
    fn neighbours(&self, first: u32) -> Vec<u32> {
        let of = |at: u32| self.cached.get(at as usize).and_then(Option::as_ref);
        let Some(evicted) = of(first).filter(|evicted| evicted.page.lines() < LINES_MAX) else { return vec![first] };
        let is_small = |at: &u32| of(*at).is_some_and(|it| it.page.lines() < LINES_MAX);
        let is_mate = |at: &u32| is_small(at) && !self.is_pinned(*at) && !self.is_clean(*at);
        let mut mates: Vec<u32> = self.recency.oldest(CANDIDATES).filter(is_mate).collect();
        mates.sort_by_key(|at| of(*at).map(|it| it.directory.abs_diff(evicted.directory)));
        mates
    }

    fn slot_of(&self, at: u32) -> Option<(&FHash, Slot)> {
        let cached = self.cached.get(at as usize)?.as_ref()?;
        let f_hash = self.known.get(&cached.directory)?;
        Some((f_hash, *f_hash.slots().get(cached.number as usize)?))
    }

    fn is_pinned(&self, at: u32) -> bool {
        self.slot_of(at).is_none_or(|(f_hash, _)| f_hash.is_pinned)
    }

    fn is_clean(&self, at: u32) -> bool {
        self.slot_of(at).is_some_and(|(_, slot)| slot.scratch != NONE)
    }

    fn drop_clean(&mut self, at: u32) {
        let Some(Some(Cached { directory, number, .. })) = self.cached.get(at as usize) else { return };
        let (directory, number) = (*directory, *number as usize);
        if let Some(slot) = self.known.get_mut(&directory).and_then(|f_hash| f_hash.slot_mut(number)) {
            slot.cached = NONE;
        }
        self.take_out(at);
    }

    /// Ends an eviction, whose page was written if `is_written`. An f-hash that has changed meanwhile stays in the
    /// f-cache; one that could not be written is lost.
    pub(super) fn end(&mut self, eviction: Eviction, is_written: bool, scratch: &Scratch) {
        let mut evicted = Vec::new();
        for (directory, at, change, line) in eviction.parts {
            let is_there = |cached: &Option<Cached>| cached.as_ref().is_some_and(|it| it.directory == directory);
            if !self.cached.get(at as usize).is_some_and(is_there) {
                continue;
            }
            let Some((f_hash, slot)) = self.slot_of(at) else { continue };
            if slot.cached != at {
                continue;
            }
            if slot.change != change || f_hash.is_pinned || slot.scratch != NONE {
                self.recency.add(at);
            } else if is_written {
                self.settle(at, eviction.scratch, line);
                evicted.push((directory, at));
            } else {
                self.lose(directory, scratch);
            }
        }
        if evicted.is_empty() {
            return scratch.release(eviction.scratch);
        }
        let is_shared = self.cached.get(evicted[0].1 as usize).and_then(Option::as_ref);
        if is_shared.is_some_and(|cached| cached.page.lines() < LINES_MAX) {
            self.sharing += evicted.len();
            self.mates.insert(eviction.scratch, evicted.iter().map(|(directory, _)| *directory).collect());
        }
        evicted.iter().for_each(|(_, at)| self.drop_clean(*at));
    }

    /// Records the place of a page in the scratch file.
    fn settle(&mut self, at: u32, scratch: u32, line: u8) {
        let Some(Some(Cached { directory, number, .. })) = self.cached.get(at as usize) else { return };
        let (directory, number) = (*directory, *number as usize);
        if let Some(slot) = self.known.get_mut(&directory).and_then(|f_hash| f_hash.slot_mut(number)) {
            self.changes = self.changes.wrapping_add(1);
            (slot.scratch, slot.line, slot.change) = (scratch, line, self.changes);
        }
    }

    /// The bytes of the pages in the f-cache.
    pub(super) fn cached_bytes(&self) -> usize {
        self.cached_bytes
    }

    /// The number of f-hashes, of those that are lost, and the bytes of memory besides the pages.
    pub(super) fn size(&self) -> (usize, usize, usize) {
        let bytes = self.known.capacity() * (size_of::<(u64, FHash)>() + 1)
            + self.pages * size_of::<Slot>()
            + self.cached.capacity() * size_of::<Option<Cached>>()
            + self.recency.bytes()
            + self.mates.capacity() * (size_of::<(u32, Vec<u64>)>() + 1)
            + self.sharing * size_of::<u64>();
        (self.known.len(), self.lost, bytes)
    }
}

fn missing(directory: u64, number: usize, slot: Slot) -> Missing {
    Missing { directory, number, scratch: slot.scratch, change: slot.change }
}

fn free_place(cached: &mut Vec<Option<Cached>>, free: &mut Vec<u32>) -> u32 {
    free.pop().unwrap_or_else(|| {
        cached.push(None);
        cached.len() as u32 - 1
    })
}
