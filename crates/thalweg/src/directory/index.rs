//! [`DirectoryIndex`]: the packs of a directory keyspace, and which of them have a directory.
//!
//! The index is in memory only: an open reads the contents of all packs. All that a pack has of a directory is a
//! *span*. Most directories have one span, which is in the p-hash itself ([`super::known`]). The spans of a directory
//! with several are in a list beside the p-hash.
//!
//! Invariants:
//! - An entry that left the memtables is in a pack of the index: a flush adds its pack before the memtable goes.
//! - A merge adds its outputs before it removes its inputs, and removes all spans of inputs of a directory at once. In
//!   between a version may be found twice; readers take the greatest sequence number, so that does no harm.
//! - A span names a pack that is in `packs`: a pack leaves only once no span names it.
//!
//! Locks: `packs`, then the lock of a stripe of the p-hash; both for lookups and changes, never over I/O. `last_look`
//! is held alone. `charge` is taken before the locks of the stripes and of the block cache.

use super::known::{Known, spans_in};
use super::p_hash::{PHash, STRIPES};
use super::span_lists::{Span, SpanLists};
use crate::cache::{BlockCache, Charge};
use crate::error::{Error, Result};
use crate::format::{HashKey, TableId};
use crate::runtime::yield_now;
use crate::sync::{Mutex, RwLock};
use crate::table::{PackSpan, Table};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A change yields to the other coroutines of its worker after this number of directories.
const SLICE: usize = 1024;

/// A quiet database merges packs when a quarter of their spans belong to directories that have several spans.
const SCATTERED_PART: u64 = 4;

/// The index of a directory keyspace; see the module.
pub(crate) struct DirectoryIndex {
    /// The key of the hashes of names.
    pub(crate) hash_key: HashKey,
    known: PHash<Known, SpanLists>,
    packs: RwLock<Packs>,
    spans: AtomicU64,
    /// How often packs were added or removed.
    changes: AtomicU64,
    last_look: Mutex<Option<Look>>,
    /// The damage that keeps a pack out of the index. With it every read of the keyspace fails.
    damage: OnceLock<Error>,
    /// The bytes of the index in the memory budget.
    charge: Mutex<Charge>,
    /// The paper's structures, if the keyspace has them.
    #[cfg(feature = "experiments")]
    pub(super) f_hashes: OnceLock<super::paper::FHashes>,
}

/// The result of a look for scattered directories.
#[derive(Clone, Copy)]
struct Look {
    /// What it saw: how often the index had changed, the number of packs, and the sum of their ids.
    at: (u64, usize, u64),
    is_scattered: bool,
}

/// The packs by slot.
#[derive(Default)]
struct Packs {
    slots: Vec<Option<Arc<Table>>>,
    free: Vec<usize>,
}

impl Packs {
    fn slot_of(&self, id: TableId) -> Option<NonZeroU32> {
        let is_it = |pack: &Option<Arc<Table>>| pack.as_ref().is_some_and(|pack| pack.meta().id == id);
        number(self.slots.iter().position(is_it)?)
    }

    fn add(&mut self, pack: &Arc<Table>) -> NonZeroU32 {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(Arc::clone(pack));
        number(slot).unwrap_or_else(|| unreachable!("there are fewer packs than numbers"))
    }

    fn get(&self, slot: NonZeroU32) -> Option<&Arc<Table>> {
        self.slots.get(slot.get() as usize - 1)?.as_ref()
    }

    fn remove(&mut self, slot: NonZeroU32) {
        let slot = slot.get() as usize - 1;
        self.slots[slot] = None;
        self.free.push(slot);
    }
}

fn number(slot: usize) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(slot + 1).ok()?)
}

impl DirectoryIndex {
    /// An empty index.
    pub(crate) fn new(hash_key: HashKey, cache: &Arc<BlockCache>) -> Arc<Self> {
        let [low, ..] = hash_key.0.as_chunks::<8>().0 else { unreachable!("a hash key has 16 bytes") };
        Arc::new(DirectoryIndex {
            hash_key,
            known: PHash::new(u64::from_le_bytes(*low)),
            packs: RwLock::default(),
            spans: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            last_look: Mutex::default(),
            damage: OnceLock::new(),
            charge: Mutex::new(Charge::new(cache, 0)),
            #[cfg(feature = "experiments")]
            f_hashes: OnceLock::new(),
        })
    }

    /// Adds a pack with all its directories, and yields now and then. After an error the index has nothing of the pack.
    pub(crate) async fn add(&self, pack: &Arc<Table>) -> Result<()> {
        let (slot, spans) = self.register(pack)?;
        for some in spans.chunks(SLICE) {
            self.insert(slot, some);
            yield_now().await;
        }
        self.changed();
        Ok(())
    }

    /// Adds a pack that an open finds, without yielding. If the pack is damaged, or the device cannot read it, this
    /// keyspace cannot be read, but the rest of the database can.
    ///
    /// # Errors
    /// All other errors.
    pub(crate) fn load(&self, pack: &Arc<Table>) -> Result<()> {
        let (slot, spans) =
            match self.register(pack).and_then(|found| pack.check_hash_key(&self.hash_key).map(|()| found)) {
                Ok(registered) => registered,
                Err(damage) if matches!(damage, Error::Corruption(_)) || damage.is_unreadable() => {
                    let _ = self.damage.set(damage);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
        self.insert(slot, &spans);
        self.changed();
        Ok(())
    }

    /// Whether all packs are in the index. If one is missing, the entries of a directory are not known.
    fn check(&self) -> Result<()> {
        self.damage.get().map_or(Ok(()), |damage| Err(damage.clone()))
    }

    /// The damage that keeps a pack out of the index, if there is any: then the keyspace cannot be read.
    pub(crate) fn damage(&self) -> Option<&Error> {
        self.damage.get()
    }

    /// Gives a pack a slot. Returns the slot and the spans of its directories, in the order of the stripes.
    fn register(&self, pack: &Arc<Table>) -> Result<(NonZeroU32, Vec<(u64, PackSpan)>)> {
        let mut spans = Vec::new();
        pack.visit_directories(&mut |directory, place| spans.push((directory, place)))?;
        self.changes.fetch_add(1, Ordering::Relaxed);
        Ok((self.packs.write().add(pack), self.known.by_stripe(&spans)))
    }

    fn insert(&self, pack: NonZeroU32, spans: &[(u64, PackSpan)]) {
        self.known.update_all(spans, |place, known, lists| {
            // Counted under the lock of the stripe: nobody takes out what was not counted.
            self.spans.fetch_add(1, Ordering::Relaxed);
            *known = Some(Known::with(known.take(), Span { pack, place: *place }, lists));
        });
    }

    /// Removes packs with all their directories, and yields now and then.
    pub(crate) async fn remove(&self, packs: &[TableId]) {
        let slots = self.slots_of(packs);
        let mut looked_at = 0;
        for stripe in 0..STRIPES {
            looked_at += self.remove_from(stripe, &slots);
            if looked_at >= SLICE {
                looked_at = 0;
                yield_now().await;
            }
        }
        yield_now().await;
        self.unregister(&slots);
    }

    /// As [`DirectoryIndex::remove`], without yielding.
    pub(crate) fn remove_now(&self, packs: &[TableId]) {
        let slots = self.slots_of(packs);
        for stripe in 0..STRIPES {
            self.remove_from(stripe, &slots);
        }
        self.unregister(&slots);
    }

    fn slots_of(&self, packs: &[TableId]) -> Vec<NonZeroU32> {
        let registered = self.packs.read();
        packs.iter().filter_map(|id| registered.slot_of(*id)).collect()
    }

    /// Removes the spans of packs from a stripe of the p-hash. Returns how many directories it has looked at.
    fn remove_from(&self, stripe: usize, slots: &[NonZeroU32]) -> usize {
        let (mut looked_at, mut kept) = (0, Vec::new());
        self.known.update_stripe(stripe, |_, known, lists| {
            looked_at += 1;
            let mut were = 0;
            kept.clear();
            kept.extend(spans_in(*known, lists).inspect(|_| were += 1).filter(|span| !slots.contains(&span.pack)));
            if kept.len() == were {
                return;
            }
            self.spans.fetch_sub((were - kept.len()) as u64, Ordering::Relaxed);
            if let Some(first) = known.and_then(Known::several) {
                lists.drop_list(first);
            }
            *known = Known::of(&kept, lists);
        });
        self.known.update_beside(stripe, |lists, known| {
            if lists.is_sparse() {
                let before = std::mem::take(lists);
                for known in known {
                    let several = known.several().and_then(|first| lists.list(before.spans(first)));
                    several.into_iter().for_each(|first| *known = Known::of_list(first));
                }
            }
        });
        looked_at
    }

    /// Counts a change, and the bytes that the index takes now.
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        // Measured under the lock: of two changes at once the later one sees both.
        let mut charge = self.charge.lock();
        charge.set(self.size().2 as u64);
    }

    /// Releases packs that no span names.
    fn unregister(&self, slots: &[NonZeroU32]) {
        self.changed();
        let gone: Vec<Option<Arc<Table>>> = {
            let mut registered = self.packs.write();
            let gone = slots.iter().map(|slot| registered.get(*slot).cloned()).collect();
            slots.iter().for_each(|slot| registered.remove(*slot));
            gone
        };
        // Dropped after the lock.
        drop(gone);
    }

    /// Removes everything, after the keyspace was dropped or cleared.
    pub(crate) fn clear(&self) {
        for stripe in 0..STRIPES {
            let (all, lists) = self.known.take_stripe(stripe);
            let spans: usize = all.map(|known| known.spans(&lists).count()).sum();
            self.spans.fetch_sub(spans as u64, Ordering::Relaxed);
        }
        // The slots are not given out again: a flush under way may still add spans with them. Dropped after the lock.
        let packs: Vec<_> = self.packs.write().slots.iter_mut().map(Option::take).collect();
        drop(packs);
        self.changed();
    }

    /// The slot of a pack, counted from 0.
    #[cfg(feature = "experiments")]
    pub(super) fn slot_of(&self, pack: TableId) -> Option<u32> {
        self.packs.read().slot_of(pack).map(|slot| slot.get() - 1)
    }

    /// The pack in a slot, counted from 0.
    #[cfg(feature = "experiments")]
    pub(super) fn pack_in(&self, slot: u32) -> Option<Arc<Table>> {
        self.packs.read().get(NonZeroU32::MIN.checked_add(slot)?).cloned()
    }

    /// The directories of which some packs have entries.
    #[cfg(feature = "experiments")]
    pub(super) fn directories_in(&self, packs: &[TableId]) -> std::collections::BTreeSet<u64> {
        let slots = self.slots_of(packs);
        let mut found = std::collections::BTreeSet::new();
        let mut look = |directory, known: &mut Option<Known>, lists: &mut SpanLists| {
            if spans_in(*known, lists).any(|span| slots.contains(&span.pack)) {
                found.insert(directory);
            }
        };
        (0..STRIPES).for_each(|stripe| self.known.update_stripe(stripe, &mut look));
        found
    }

    /// Calls `visit` with each directory of which a pack has versions, in no order. Holds one lock of a stripe at a
    /// time, also over `visit`.
    pub(super) fn visit_directories(&self, mut visit: impl FnMut(u64)) -> Result<()> {
        self.check()?;
        (0..STRIPES).for_each(|stripe| self.known.update_stripe(stripe, |directory, _, _| visit(directory)));
        Ok(())
    }

    /// The packs that have a directory, and what they have of it; the one with the greatest sequence number first.
    pub(super) fn spans_of(&self, directory: u64) -> Result<Vec<(Arc<Table>, PackSpan)>> {
        self.spans_from(directory, |_| true)
    }

    /// As [`DirectoryIndex::spans_of`], from the first pack on for which `is_wanted` is true. `is_wanted` does no I/O:
    /// the packs of the index do not change meanwhile. Packs before that one are not held, which is cheaper than to
    /// hold them.
    pub(super) fn spans_from(
        &self,
        directory: u64,
        is_wanted: impl Fn(&Table) -> bool,
    ) -> Result<Vec<(Arc<Table>, PackSpan)>> {
        self.check()?;
        // Locked before the stripe, and for longer: a pack leaves its slot only after the spans that name it have left
        // the stripe.
        let packs = self.packs.read();
        let of = |span: Span| Some((packs.get(span.pack)?, span.place));
        let mut spans: Vec<_> = self.known.read(directory, |known, lists| {
            known.map_or_else(Vec::new, |known| known.spans(lists).filter_map(of).collect())
        });
        spans.sort_by_key(|(pack, _)| std::cmp::Reverse(pack.meta().seq_max));
        let wanted = spans.into_iter().skip_while(|(pack, _)| !is_wanted(pack));
        Ok(wanted.map(|(pack, place)| (Arc::clone(pack), place)).collect())
    }

    /// The result of [`DirectoryIndex::look`], if it has looked at these packs and nothing has changed since.
    pub(crate) fn is_scattered(&self, packs: &[Arc<Table>]) -> Option<bool> {
        let at = self.look_at(packs);
        self.last_look.lock().filter(|look| look.at == at).map(|look| look.is_scattered)
    }

    fn look_at(&self, packs: &[Arc<Table>]) -> (u64, usize, u64) {
        let sum = packs.iter().fold(0_u64, |sum, pack| sum.wrapping_add(pack.meta().id.0));
        (self.changes.load(Ordering::Relaxed), packs.len(), sum)
    }

    /// Finds out whether at least a quarter of the spans of these packs are of directories with several spans: other
    /// directories gain nothing from a merge. Goes over the whole index, unless it has done that already.
    pub(crate) fn look(&self, packs: &[Arc<Table>]) {
        if self.is_scattered(packs).is_some() {
            return;
        }
        let at = self.look_at(packs);
        let slots: Vec<NonZeroU32> = {
            let registered = self.packs.read();
            packs.iter().filter_map(|pack| registered.slot_of(pack.meta().id)).collect()
        };
        let (mut all, mut scattered) = (0_u64, 0_u64);
        let mut count = |_, known: &mut Option<Known>, lists: &mut SpanLists| {
            let of_packs = spans_in(*known, lists).filter(|span| slots.contains(&span.pack)).count() as u64;
            all += of_packs;
            scattered += if known.and_then(Known::several).is_some() { of_packs } else { 0 };
        };
        (0..STRIPES).for_each(|stripe| self.known.update_stripe(stripe, &mut count));
        let is_scattered = scattered > 0 && scattered * SCATTERED_PART >= all;
        *self.last_look.lock() = Some(Look { at, is_scattered });
    }

    /// The number of directories, of spans, and the bytes of memory that the index takes.
    pub(crate) fn size(&self) -> (usize, u64, usize) {
        (self.known.len(), self.spans.load(Ordering::Relaxed), self.known.bytes(SpanLists::bytes))
    }
}
