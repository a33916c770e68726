//! [`PHash`]: the p-hash, a table of what is known of each directory, by its number (PHAT-2).
//!
//! It is in memory only; recovery makes it from the footers of packs. The paper's table takes 32 bytes a directory and
//! is CLHT. This one is a number of *stripes*, each a robin-hood table of its own that grows by an eighth when it is
//! nine tenths full. So an entry takes 1.11 to 1.25 times its bytes, and no operation waits for more than the growth of
//! one stripe: 8 million directories make stripes of 8 192. All stripes grow at about the same time, and leave memory
//! that is too small for their next tables: so a table has memory of its own ([`MappedVec`]).
//!
//! A stripe also has a value *beside* its table, for data that is not of one size. It is changed under the same lock.
//!
//! Locks: one for each stripe, held for a lookup, a change, or the growth of the stripe.

use super::mapped_vec::MappedVec;
use crate::sync::Mutex;

/// The number of stripes, a power of two.
pub(super) const STRIPES: usize = 1024;

/// The smallest capacity of a stripe that has entries.
const CAPACITY_MIN: usize = 4;

/// A table from directories to small values, which callers read and change under the lock of their stripe.
///
/// `Option<T>` should be as small as `T`, and `T` of alignment 2 at most: then nothing is between two directories.
pub(crate) struct PHash<T, B = ()> {
    /// Secret to the keyspace, so that nobody can choose directories that meet in one stripe.
    key: u64,
    stripes: Box<[Mutex<Stripe<T, B>>]>,
}

struct Stripe<T, B> {
    slots: MappedVec<Slot<T>>,
    used: usize,
    beside: B,
}

#[derive(Clone, Copy)]
struct Slot<T> {
    /// The number of the directory, as bytes: a `u64` would have its alignment.
    directory: [u8; 8],
    value: Option<T>,
}

impl<T> Slot<T> {
    #[inline]
    fn directory(&self) -> u64 {
        u64::from_le_bytes(self.directory)
    }
}

impl<T: Copy, B: Default> PHash<T, B> {
    /// An empty table, whose order depends on `key`.
    pub(crate) fn new(key: u64) -> Self {
        let empty = || Mutex::new(Stripe::default());
        PHash { key, stripes: std::iter::repeat_with(empty).take(STRIPES).collect() }
    }

    /// Calls `read` with what is known of a directory.
    pub(crate) fn read<R>(&self, directory: u64, read: impl FnOnce(Option<&T>, &B) -> R) -> R {
        let hash = mix(directory, self.key);
        let stripe = self.stripe(hash).lock();
        let found = stripe.find(hash, directory, self.key).ok().and_then(|at| stripe.slots[at].value.as_ref());
        read(found, &stripe.beside)
    }

    /// Changes what is known of directories; `None` stands for nothing. `change` also gets the value that comes with a
    /// directory. Directories of a stripe that follow one another share one lock.
    pub(crate) fn update_all<V>(&self, directories: &[(u64, V)], mut change: impl FnMut(&V, &mut Option<T>, &mut B)) {
        let number = |directory: u64| stripe_of(mix(directory, self.key));
        for some in directories.chunk_by(|(a, _), (b, _)| number(*a) == number(*b)) {
            let Some((first, _)) = some.first() else { continue };
            let mut stripe = self.stripes[number(*first)].lock();
            for (directory, with) in some {
                stripe.update(mix(*directory, self.key), *directory, self.key, |known, beside| {
                    change(with, known, beside)
                });
            }
        }
    }

    /// Returns the directories in the order of their stripes, because the slots of a stripe fit into the processor's
    /// cache.
    pub(crate) fn by_stripe<V: Copy>(&self, directories: &[(u64, V)]) -> Vec<(u64, V)> {
        let number = |directory: u64| stripe_of(mix(directory, self.key));
        let mut ends = vec![0; STRIPES];
        directories.iter().for_each(|(directory, _)| ends[number(*directory)] += 1);
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let mut ordered = directories.to_vec();
        for entry in directories.iter().rev() {
            let end = &mut ends[number(entry.0)];
            *end -= 1;
            ordered[*end] = *entry;
        }
        ordered
    }

    /// Changes what is known of every directory of a stripe.
    pub(crate) fn update_stripe(&self, stripe: usize, mut change: impl FnMut(u64, &mut Option<T>, &mut B)) {
        let stripe = &mut *self.stripes[stripe].lock();
        let mut at = 0;
        while at < stripe.slots.len() {
            let slot = &mut stripe.slots[at];
            if slot.value.is_none() {
                at += 1;
                continue;
            }
            change(slot.directory(), &mut slot.value, &mut stripe.beside);
            if slot.value.is_some() {
                at += 1;
            } else if stripe.remove(at, self.key) {
                // The table is smaller, and slots that were visited may be anywhere. They are visited again, to no
                // effect.
                at = 0;
            }
            // Otherwise the directory of the next slot has moved to this one.
        }
    }

    /// Changes what is beside a stripe together with its values.
    pub(crate) fn update_beside(&self, stripe: usize, change: impl FnOnce(&mut B, &mut dyn Iterator<Item = &mut T>)) {
        let stripe = &mut *self.stripes[stripe].lock();
        change(&mut stripe.beside, &mut stripe.slots.iter_mut().filter_map(|slot| slot.value.as_mut()));
    }

    /// Takes everything out of a stripe: the values, and what is beside them.
    pub(crate) fn take_stripe(&self, stripe: usize) -> (impl Iterator<Item = T> + use<T, B>, B) {
        let taken = std::mem::take(&mut *self.stripes[stripe].lock());
        let slots = taken.slots;
        ((0..slots.len()).filter_map(move |at| slots.get(at)?.value), taken.beside)
    }

    /// The number of directories of which something is known.
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().used).sum()
    }

    /// The bytes of memory that the table takes, with those that `of_beside` returns.
    pub(crate) fn bytes(&self, of_beside: impl Fn(&B) -> usize) -> usize {
        let of_stripe = |locked: &Mutex<Stripe<T, B>>| {
            let stripe = locked.lock();
            size_of_val(locked) + stripe.slots.bytes() + of_beside(&stripe.beside)
        };
        self.stripes.iter().map(of_stripe).sum()
    }

    fn stripe(&self, hash: u64) -> &Mutex<Stripe<T, B>> {
        &self.stripes[stripe_of(hash)]
    }
}

/// The stripe of a hash: the lower bits choose it, the upper ones the slot.
fn stripe_of(hash: u64) -> usize {
    hash as usize & (STRIPES - 1)
}

/// Spreads directory numbers, which are mostly consecutive: the finalizer of splitmix64.
fn mix(directory: u64, key: u64) -> u64 {
    let mut hash = directory ^ key;
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// The slot at which the search for a hash begins.
fn home(hash: u64, capacity: usize) -> usize {
    ((u128::from(hash) * capacity as u128) >> 64) as usize
}

impl<T, B: Default> Default for Stripe<T, B> {
    fn default() -> Self {
        Stripe { slots: MappedVec::default(), used: 0, beside: B::default() }
    }
}

impl<T: Copy, B> Stripe<T, B> {
    /// The slot of a directory; or the slot before which the search ended, and its distance from the directory's home.
    fn find(&self, hash: u64, directory: u64, key: u64) -> Result<usize, (usize, usize)> {
        let capacity = self.slots.len();
        if capacity == 0 {
            return Err((0, 0));
        }
        let mut at = home(hash, capacity);
        for distance in 0..capacity {
            let slot = &self.slots[at];
            if slot.value.is_none() || self.distance(at, key) < distance {
                return Err((at, distance));
            }
            if slot.directory() == directory {
                return Ok(at);
            }
            at = if at + 1 == capacity { 0 } else { at + 1 };
        }
        Err((at, capacity))
    }

    /// Changes what is known of a directory.
    fn update(&mut self, hash: u64, directory: u64, key: u64, change: impl FnOnce(&mut Option<T>, &mut B)) {
        if let Ok(at) = self.find(hash, directory, key) {
            change(&mut self.slots[at].value, &mut self.beside);
            if self.slots[at].value.is_none() {
                self.remove(at, key);
            }
            return;
        }
        let mut value = None;
        change(&mut value, &mut self.beside);
        if let Some(value) = value {
            self.insert(directory, value, key);
        }
    }

    /// How far the directory of a slot is from its home.
    fn distance(&self, at: usize, key: u64) -> usize {
        let (home, capacity) = (home(mix(self.slots[at].directory(), key), self.slots.len()), self.slots.len());
        if at >= home { at - home } else { at + capacity - home }
    }

    /// Inserts a directory that is not there. Invariant: no directory comes before one that is further from its home.
    fn insert(&mut self, directory: u64, value: T, key: u64) {
        if (self.used + 1) * 10 > self.slots.len() * 9 {
            self.grow(key);
        }
        let capacity = self.slots.len();
        let mut carried = Slot { directory: directory.to_le_bytes(), value: Some(value) };
        let Err((mut at, mut distance)) = self.find(mix(directory, key), directory, key) else {
            unreachable!("the directory is not there");
        };
        while self.slots[at].value.is_some() {
            let theirs = self.distance(at, key);
            if theirs < distance {
                std::mem::swap(&mut carried, &mut self.slots[at]);
                distance = theirs;
            }
            at = if at + 1 == capacity { 0 } else { at + 1 };
            distance += 1;
        }
        self.slots[at] = carried;
        self.used += 1;
    }

    /// Removes the directory of a slot: those after it that are not at home move one slot towards it. Returns whether
    /// the table has become smaller.
    fn remove(&mut self, mut at: usize, key: u64) -> bool {
        let capacity = self.slots.len();
        self.slots[at].value = None;
        loop {
            let next = if at + 1 == capacity { 0 } else { at + 1 };
            if self.slots[next].value.is_none() || self.distance(next, key) == 0 {
                break;
            }
            self.slots.swap(at, next);
            at = next;
        }
        self.used -= 1;
        if self.used == 0 {
            self.slots = MappedVec::default();
            return true;
        }
        let is_sparse = self.used * 4 < capacity && capacity > CAPACITY_MIN;
        if is_sparse {
            self.resize(key);
        }
        is_sparse
    }

    fn grow(&mut self, key: u64) {
        self.used += 1;
        self.resize(key);
        self.used -= 1;
    }

    /// Gives the table a capacity of which its entries fill four fifths.
    fn resize(&mut self, key: u64) {
        let capacity = (self.used * 5 / 4 + 1).max(CAPACITY_MIN);
        let empty = MappedVec::filled(Slot { directory: [0; 8], value: None }, capacity);
        let slots = std::mem::replace(&mut self.slots, empty);
        let used = std::mem::take(&mut self.used);
        for slot in slots.iter() {
            if let Some(value) = slot.value {
                self.insert(slot.directory(), value, key);
            }
        }
        self.used = used;
    }
}
