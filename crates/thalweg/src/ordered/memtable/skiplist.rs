//! [`SkipList`]: the entries of a memtable in internal-key order; readers take no lock, writers insert concurrently.
//!
//! A node is one piece of the arena. Its *tower*, the links to the next node on each of its levels, grows downwards
//! from the header, so that the link of level 0, the header and the key lie side by side whatever the height:
//!
//! ```text
//!   link[h-1] … link[1] link[0] | trailer: u64 | key_len: u32 | value_len: u32 | key | value
//!                                ^ a node pointer points here
//! ```
//!
//! Invariants
//! - Header, key and value never change once the node is linked; nodes are never unlinked; memory stays until the list
//!   drops. So a pointer that was read from a link is good for as long as the list lives.
//! - A node is linked on level 0 first, then upwards. Level 0 alone says what is in the list; higher levels are
//!   shortcuts, each a subsequence of the level below it.
//! - Each level is strictly ascending. A link only ever changes from a node to a smaller node that precedes it.
//!
//! Publication: a node's fields and its links up to level `l` are written before it is linked on level `l` with
//! Release; every link is read with Acquire. Whoever reaches a node on level `l` follows its links at `l` and below
//! only, which were all written by then. A node that was reached by the writer, and to which its new node points, was
//! read with Acquire too, so that its own fields come along.
//!
//! Locks: none (the arena takes one to get a new chunk).

#![allow(unsafe_code)]

use super::arena::{ALIGNMENT, Arena};
use super::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::format::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX, compare, pack_trailer, unpack_trailer};
use crate::format::{EntryKind, SeqNo};
use std::cmp::Ordering as Order;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Levels of the tallest tower. With one node in four a level taller, 12 serve 4^12 entries. Few in a model check,
/// whose cost grows with every atomic.
const HEIGHT_MAX: usize = if cfg!(all(loom, test)) { 2 } else { 12 };

/// A sorted list of entries in an arena.
pub(super) struct SkipList {
    arena: Arena,
    /// A node of full height without an entry, before all others.
    head: NonNull<Node>,
    /// The tallest tower so far. A hint: a stale one costs time, not correctness.
    height: AtomicUsize,
    /// Entries so far; also what tower heights are drawn from.
    entries: AtomicU64,
}

/// The header of a node; its tower lies before it, its key and value behind it.
#[repr(C)]
struct Node {
    trailer: u64,
    key_len: u32,
    value_len: u32,
}

type Link = AtomicPtr<Node>;

const _: () = assert!(align_of::<Node>() <= ALIGNMENT);
const _: () = assert!(align_of::<Link>() <= ALIGNMENT);
const _: () = assert!(KEY_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX <= u32::MAX as usize);

// SAFETY: `head` and all links point into `arena`, which the list owns and which may move between threads.
unsafe impl Send for SkipList {}
// SAFETY: nodes are immutable once linked, except for their links, which are atomics; see "Publication" above.
unsafe impl Sync for SkipList {}

/// The nodes around a place in the list, on each level: `before` is less than the place, `after` not (or null).
struct Splice {
    before: [NonNull<Node>; HEIGHT_MAX],
    after: [*mut Node; HEIGHT_MAX],
}

impl SkipList {
    pub(super) fn new() -> Self {
        let arena = Arena::new();
        let head = Node::write(&arena, HEIGHT_MAX, b"", 0, b"");
        SkipList { arena, head, height: AtomicUsize::new(1), entries: AtomicU64::new(0) }
    }

    /// Bytes of memory used.
    pub(super) fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Entries inserted, those included that are being inserted at this moment.
    pub(super) fn entries(&self) -> u64 {
        // Relaxed: a statistic; whoever needs an exact number has waited for the writers.
        self.entries.load(Ordering::Relaxed)
    }

    /// The newest version of `key` at or below `seq`.
    pub(super) fn get(&self, key: &[u8], seq: SeqNo) -> Option<(SeqNo, EntryKind, &[u8])> {
        let node = NonNull::new(self.find(key, seq).after[0])?;
        // SAFETY: `find` read the node from a link with Acquire; it lives as long as the list, which is borrowed.
        let (node_key, value) = unsafe { (Node::key(node), Node::value(node)) };
        let (seq, kind) = version_of(node);
        (node_key == key).then_some((seq, kind, value))
    }

    /// Adds an entry. Panics when `(key, seq)` is in the list.
    pub(super) fn insert(&self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        // Relaxed: each insert only needs a number of its own.
        let number = self.entries.fetch_add(1, Ordering::Relaxed);
        self.insert_with_height(key, seq, kind, value, tower_height(number));
    }

    fn insert_with_height(&self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8], height: usize) {
        assert!(key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX, "the caller checked the lengths");
        assert!(seq <= SeqNo::MAX && (1..=HEIGHT_MAX).contains(&height));
        let node = Node::write(&self.arena, height, key, pack_trailer(seq, kind), value);
        // Relaxed: see the field.
        self.height.fetch_max(height, Ordering::Relaxed);
        let mut splice = self.find(key, seq);
        for (level, (before, after)) in splice.before.iter_mut().zip(&mut splice.after).enumerate().take(height) {
            loop {
                if level == 0
                    && let Some(after) = NonNull::new(*after)
                {
                    assert!(node_order(after, key, seq) != Order::Equal, "a sequence number was used twice for a key");
                }
                // SAFETY: `node` was written with `height` links and `level` is below it; `before` was found on
                // `level`, so its tower reaches it. Both live as long as the list.
                let (link, link_before) = unsafe { (Node::link(node, level), Node::link(*before, level)) };
                // Relaxed: the node is not linked on this level yet; the exchange below publishes it.
                link.store(*after, Ordering::Relaxed);
                // Release: publishes the node's fields and its links up to this level. On failure nothing is read
                // through the value found: `find_on_level` loads it again with Acquire.
                if link_before.compare_exchange(*after, node.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok() {
                    break;
                }
                // Others linked nodes here meanwhile; nodes are never unlinked, so the search goes on from `before`.
                (*before, *after) = self.find_on_level(*before, level, key, seq, null_mut());
            }
        }
    }

    /// The place of `(key, seq)` on every level.
    fn find(&self, key: &[u8], seq: SeqNo) -> Splice {
        let mut splice = Splice { before: [self.head; HEIGHT_MAX], after: [null_mut(); HEIGHT_MAX] };
        let (mut before, mut after) = (self.head, null_mut());
        // Relaxed: a hint. Above it the splice says "between head and nothing", which the exchange puts right.
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            (before, after) = self.find_on_level(before, level, key, seq, after);
            splice.before[level] = before;
            splice.after[level] = after;
        }
        splice
    }

    /// The last node less than `(key, seq)` and the first that is not, on one level, from `before` on. `not_less` is
    /// a node known not to be less (or null): a comparison saved where two levels meet the same node.
    fn find_on_level(
        &self,
        mut before: NonNull<Node>,
        level: usize,
        key: &[u8],
        seq: SeqNo,
        not_less: *mut Node,
    ) -> (NonNull<Node>, *mut Node) {
        loop {
            let after = next_of(before, level);
            let Some(node) = NonNull::new(after) else { return (before, after) };
            if after == not_less || node_order(node, key, seq) != Order::Less {
                return (before, after);
            }
            before = node;
        }
    }

    /// The last node, or `head`.
    fn find_last(&self) -> NonNull<Node> {
        let mut before = self.head;
        // Relaxed: a hint.
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            while let Some(next) = NonNull::new(next_of(before, level)) {
                before = next;
            }
        }
        before
    }
}

/// The next node on `level`, or null. Requires that `node` is of this list and was reached on `level` or above.
fn next_of(node: NonNull<Node>, level: usize) -> *mut Node {
    // SAFETY: callers reach nodes only through links of `level` or a higher level (or start at the head, which has
    // them all), so the tower has this link; nodes live as long as the list, which the callers borrow.
    // Acquire: the next node's fields are seen as they were when it was linked.
    unsafe { Node::link(node, level) }.load(Ordering::Acquire)
}

/// The sequence number and kind of a node, not the head. Requires that its list is borrowed meanwhile.
fn version_of(node: NonNull<Node>) -> (SeqNo, EntryKind) {
    // SAFETY: the node was read from a link with Acquire, so its header is written, and never changes again.
    match unpack_trailer(unsafe { (*node.as_ptr()).trailer }) {
        Some(version) => version,
        None => unreachable!("a node's trailer was packed from a kind"),
    }
}

/// How the entry of a node, not the head, compares to `(key, seq)`.
fn node_order(node: NonNull<Node>, key: &[u8], seq: SeqNo) -> Order {
    // SAFETY: the node was read from a link with Acquire, so it is written in full; it lives as long as the list.
    let (node_key, trailer) = unsafe { (Node::key(node), (*node.as_ptr()).trailer) };
    compare((node_key, SeqNo(trailer >> 8)), (key, seq))
}

/// The height of the `number`th tower: one in four is taller than 1, one in sixteen taller than 2, and so on. A hash of
/// the number, so that the same inserts give the same list (DESIGN 4).
fn tower_height(number: u64) -> usize {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    HEIGHT_MAX.min(1 + hash.trailing_zeros() as usize / 2)
}

impl Node {
    /// Writes a node, its links null, that nothing points to yet.
    fn write(arena: &Arena, height: usize, key: &[u8], trailer: u64, value: &[u8]) -> NonNull<Node> {
        let tower_bytes = height * size_of::<Link>();
        let piece = arena.allocate(tower_bytes + size_of::<Node>() + key.len() + value.len());
        // SAFETY: the piece is ours alone and has room for tower, header, key and value in a row. It is aligned for
        // links and header, whose sizes are multiples of their alignment. The pointers keep the provenance of the
        // whole chunk, so that tower and bytes may be reached from the header.
        unsafe {
            let node = piece.add(tower_bytes).cast::<Node>();
            for level in 0..height {
                node.cast::<Link>().sub(1 + level).write(Link::new(null_mut()));
            }
            node.write(Node { trailer, key_len: key.len() as u32, value_len: value.len() as u32 });
            let bytes = node.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
            node
        }
    }

    /// # Safety
    /// `node` is a node of a list that outlives `'a`, with a tower taller than `level`.
    unsafe fn link<'a>(node: NonNull<Node>, level: usize) -> &'a Link {
        // SAFETY: the tower lies before the header, level 0 next to it, and links are only ever shared.
        unsafe { node.cast::<Link>().sub(1 + level).as_ref() }
    }

    /// # Safety
    /// `node` is a written node of a list that outlives `'a`.
    unsafe fn key<'a>(node: NonNull<Node>) -> &'a [u8] {
        // SAFETY: `key_len` bytes behind the header were initialised by `write` and never change.
        unsafe { std::slice::from_raw_parts(node.add(1).cast().as_ptr(), (*node.as_ptr()).key_len as usize) }
    }

    /// # Safety
    /// `node` is a written node of a list that outlives `'a`.
    unsafe fn value<'a>(node: NonNull<Node>) -> &'a [u8] {
        // SAFETY: `value_len` bytes behind the key were initialised by `write` and never change.
        unsafe {
            let header = node.as_ptr();
            let value = node.add(1).cast::<u8>().add((*header).key_len as usize);
            std::slice::from_raw_parts(value.as_ptr(), (*header).value_len as usize)
        }
    }
}

/// A place in a list, which it keeps alive: at an entry, or nowhere.
pub(super) struct Position {
    list: Arc<SkipList>,
    /// A node of `list`, never its head.
    node: Option<NonNull<Node>>,
}

// SAFETY: the node belongs to `list`, which is `Send + Sync` and kept alive by the position.
unsafe impl Send for Position {}

impl Position {
    /// Nowhere in `list`.
    pub(super) fn new(list: Arc<SkipList>) -> Self {
        Position { list, node: None }
    }
    pub(super) fn valid(&self) -> bool {
        self.node.is_some()
    }
    pub(super) fn go_to_first(&mut self) {
        self.node = NonNull::new(next_of(self.list.head, 0));
    }
    pub(super) fn go_to_last(&mut self) {
        self.node = self.entry_of(self.list.find_last());
    }
    /// To the first entry at or after `(key, seq)`.
    pub(super) fn go_to_at_or_after(&mut self, key: &[u8], seq: SeqNo) {
        self.node = NonNull::new(self.list.find(key, seq).after[0]);
    }
    /// To the last entry before `(key, seq)`.
    pub(super) fn go_to_before(&mut self, key: &[u8], seq: SeqNo) {
        self.node = self.entry_of(self.list.find(key, seq).before[0]);
    }
    pub(super) fn go_to_next(&mut self) {
        self.node = NonNull::new(next_of(self.at(), 0));
    }
    /// A search from the head: the list is linked forwards only.
    pub(super) fn go_to_previous(&mut self) {
        let before = self.list.find(self.key(), self.seq()).before[0];
        self.node = self.entry_of(before);
    }
    pub(super) fn key(&self) -> &[u8] {
        // SAFETY: `node` is of `list`, which lives at least as long as the borrow of `self`.
        unsafe { Node::key(self.at()) }
    }
    pub(super) fn value(&self) -> &[u8] {
        // SAFETY: as for `key`.
        unsafe { Node::value(self.at()) }
    }
    pub(super) fn seq(&self) -> SeqNo {
        version_of(self.at()).0
    }
    pub(super) fn kind(&self) -> EntryKind {
        version_of(self.at()).1
    }

    fn at(&self) -> NonNull<Node> {
        match self.node {
            Some(node) => node,
            None => panic!("the cursor is not at an entry"),
        }
    }

    fn entry_of(&self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        (node != self.list.head).then_some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_tower_in_four_is_taller() {
        let mut at_least = [0u32; HEIGHT_MAX + 1];
        for number in 0..100_000 {
            for count in at_least.iter_mut().take(1 + tower_height(number)) {
                *count += 1;
            }
        }
        for (height, expected) in [(2, 25_000), (3, 6_250), (4, 1_562)] {
            let count = at_least[height];
            assert!(count.abs_diff(expected) < expected / 10, "{count} towers of height {height} or more");
        }
    }

    #[test]
    fn every_level_is_an_ascending_part_of_the_level_below() {
        let list = SkipList::new();
        for i in 0..if cfg!(miri) { 60u64 } else { 5000 } {
            let key = (i.wrapping_mul(0x9e37_79b9) % 1000).to_be_bytes();
            list.insert(&key, SeqNo(i + 1), EntryKind::Put, b"");
        }
        let mut below: Option<Vec<*mut Node>> = None;
        for level in 0..HEIGHT_MAX {
            let (mut nodes, mut node) = (Vec::new(), list.head);
            while let Some(next) = NonNull::new(next_of(node, level)) {
                if node != list.head {
                    // SAFETY: `node` is linked, and the list is alive.
                    let (key, trailer) = unsafe { (Node::key(node), (*node.as_ptr()).trailer) };
                    assert_eq!(node_order(next, key, SeqNo(trailer >> 8)), Order::Greater);
                }
                nodes.push(next.as_ptr());
                node = next;
            }
            if let Some(below) = &below {
                let mut below = below.iter();
                assert!(nodes.iter().all(|node| below.any(|other| other == node)));
            }
            below = Some(nodes);
        }
    }
}

/// Every interleaving: `RUSTFLAGS="--cfg loom" cargo test -p thalweg --lib loom_`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    fn keys(list: &Arc<SkipList>) -> Vec<u8> {
        let mut position = Position::new(Arc::clone(list));
        position.go_to_first();
        let mut keys = Vec::new();
        while position.valid() {
            assert_eq!(position.key(), position.value());
            keys.extend_from_slice(position.key());
            position.go_to_next();
        }
        keys
    }

    #[test]
    fn loom_two_inserts_at_one_place_are_both_linked_on_every_level() {
        loom::model(|| {
            let list = Arc::new(SkipList::new());
            let other = Arc::clone(&list);
            let thread = loom::thread::spawn(move || other.insert_with_height(b"b", SeqNo(2), EntryKind::Put, b"b", 2));
            list.insert_with_height(b"a", SeqNo(1), EntryKind::Put, b"a", 2);
            thread.join().unwrap();
            assert_eq!(keys(&list), b"ab");
            let first = NonNull::new(next_of(list.head, 1)).unwrap();
            let second = NonNull::new(next_of(first, 1)).unwrap();
            assert_eq!(node_order(second, b"b", SeqNo(2)), Order::Equal);
            assert!(next_of(second, 1).is_null());
        });
    }

    #[test]
    fn loom_a_reader_sees_entries_whole_and_in_order() {
        loom::model(|| {
            let list = Arc::new(SkipList::new());
            list.insert_with_height(b"b", SeqNo(1), EntryKind::Put, b"b", 1);
            let other = Arc::clone(&list);
            let thread = loom::thread::spawn(move || {
                other.insert_with_height(b"c", SeqNo(2), EntryKind::Put, b"c", 2);
                other.insert_with_height(b"a", SeqNo(3), EntryKind::Put, b"a", 1);
            });
            let seen = keys(&list);
            assert!([&b"b"[..], b"bc", b"abc"].contains(&&*seen), "{seen:?}");
            let mut position = Position::new(Arc::clone(&list));
            position.go_to_before(b"d", SeqNo::MAX);
            assert!(position.key() == b"c" || (position.key() == b"b" && seen == b"b"));
            thread.join().unwrap();
            assert_eq!(keys(&list), b"abc");
        });
    }
}
