//! A memtable against a `BTreeMap`, and under threads. Small under Miri, which checks the unsafe code below.

use super::model::{Entries, Random, walk};
use crate::format::{Cursor, EntryKind, SeqNo, Slice, Version};
use crate::memtable::{Memtable, MemtablePool, list};
use crate::table::PointKey;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn new_memtable() -> Arc<Memtable> {
    Memtable::new(&MemtablePool::new(0))
}

/// An empty memtable with a filter.
fn with_filter(entries: u64) -> Arc<Memtable> {
    Memtable::expecting(&MemtablePool::new(0), 0, entries)
}

fn fill(random: &mut Random, memtable: &Memtable, entries: u64) -> Entries {
    let mut model = Entries::new();
    for i in 1..=entries {
        let key = random.key();
        let kind = if random.below(4) == 0 { EntryKind::Remove } else { EntryKind::Put };
        let value = if kind == EntryKind::Put { vec![i as u8; random.below(40) as usize] } else { Vec::new() };
        memtable.insert(&key, SeqNo(i), kind, &value);
        assert!(model.insert((key, Reverse(SeqNo(i))), (kind, value)).is_none());
    }
    model
}

#[test]
fn a_get_finds_the_newest_version_at_or_below_the_sequence_number() {
    let entries = if cfg!(miri) { 60 } else { 3000 };
    for memtable in [new_memtable(), with_filter(entries)] {
        let mut random = Random::new(1);
        let model = fill(&mut random, &memtable, entries);
        for _ in 0..entries {
            let (key, seq) = (random.key(), SeqNo(random.below(entries + 2)));
            let newest = model.range((key.clone(), Reverse(seq))..).next().filter(|((found, _), _)| *found == key);
            let expected = newest.map(|((_, seq), (kind, value))| Version {
                seq: seq.0,
                kind: *kind,
                value: Slice::from(value.as_slice()),
            });
            assert_eq!(memtable.get(&PointKey::new(&key, seq)), expected);
        }
    }
}

#[test]
fn a_key_that_was_published_passes_the_filter_while_others_are_inserted() {
    const THREADS: u64 = 3;
    let entries = if cfg!(miri) { 60 } else { 30_000 };
    let memtable = with_filter(entries);
    // By thread, how many keys it has published.
    let published: [AtomicU64; THREADS as usize] = Default::default();
    let key = |thread: u64, number: u64| (number * THREADS + thread).to_be_bytes();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (memtable, published) = (&memtable, &published);
            scope.spawn(move || {
                for number in 0..entries / THREADS {
                    let seq = SeqNo(1 + number * THREADS + thread);
                    memtable.insert(&key(thread, number), seq, EntryKind::Put, b"");
                    published[thread as usize].store(number + 1, Ordering::Release);
                    let other = (thread + 1) % THREADS;
                    for number in published[other as usize].load(Ordering::Acquire).saturating_sub(4).. {
                        if number >= published[other as usize].load(Ordering::Acquire) {
                            break;
                        }
                        let found = memtable.get(&PointKey::new(&key(other, number), SeqNo::MAX));
                        assert!(found.is_some(), "key {number} of thread {other}");
                    }
                }
            });
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "40 000 inserts")]
fn what_follows_a_large_memtable_has_a_filter() {
    let pool = MemtablePool::new(8 << 20);
    let (small, large) = (Memtable::new(&pool), Memtable::new(&pool));
    small.insert(b"key", SeqNo(1), EntryKind::Put, b"");
    for seq in 1..40_000u64 {
        large.insert(&seq.to_be_bytes(), SeqNo(seq), EntryKind::Put, &[0; 20]);
    }
    let passes = |memtable: &Memtable| {
        let successor = memtable.successor(&pool);
        successor.insert(b"key", SeqNo(1), EntryKind::Put, b"");
        assert!(successor.get(&PointKey::new(b"key", SeqNo::MAX)).is_some());
        (0..1000u64).filter(|other| successor.may_have(&PointKey::new(&other.to_be_bytes(), SeqNo::MAX))).count()
    };
    assert_eq!(passes(&small), 1000, "no filter");
    assert!(passes(&large) < 10);
}

#[test]
fn a_cursor_walks_as_the_model_does() {
    let mut random = Random::new(2);
    let memtable = new_memtable();
    let entries = if cfg!(miri) { 40 } else { 1000 };
    let model = fill(&mut random, &memtable, entries);
    assert!(!memtable.cursor().valid());
    walk(&mut random, &mut memtable.cursor(), &model, entries + 2, entries as usize * 4);
}

#[test]
fn steps_from_a_seek_agree_with_the_model_before_and_after_leaves_are_ranked() {
    let mut random = Random::new(5);
    let memtable = new_memtable();
    let (entries, seeks) = if cfg!(miri) { (150, 5) } else { (3000, 3000) };
    let mut model = BTreeSet::new();
    for seq in 1..=entries {
        // Digits, so that words repeat; several versions of some keys.
        let key = format!("{:05}", random.below(entries)).into_bytes();
        memtable.insert(&key, SeqNo(seq), EntryKind::Put, b"");
        model.insert((key, Reverse(SeqNo(seq))));
    }
    let mut cursor = memtable.cursor();
    for _ in 0..seeks {
        let place = (format!("{:05}", random.below(entries)).into_bytes(), Reverse(SeqNo(random.below(entries))));
        let mut at = if random.below(2) == 0 {
            cursor.seek(&place.0, place.1.0).unwrap();
            model.range(place..).next()
        } else {
            cursor.seek_before(&place.0, place.1.0).unwrap();
            model.range(..place).next_back()
        };
        let backwards_in_8 = random.below(9);
        for _ in 0..random.below(300).min(random.below(300)) {
            assert_eq!(cursor.valid().then(|| (cursor.key().to_vec(), Reverse(cursor.seq()))).as_ref(), at);
            let Some(here) = at else { break };
            at = if random.below(8) < backwards_in_8 {
                cursor.prev().unwrap();
                model.range(..here).next_back()
            } else {
                cursor.next().unwrap();
                model.range(here..).nth(1)
            };
        }
    }
}

#[test]
fn an_empty_memtable_has_nothing() {
    let memtable = new_memtable();
    assert!(memtable.is_empty());
    assert_eq!(memtable.get(&PointKey::new(b"", SeqNo::MAX)), None);
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    assert!(!cursor.valid());
    cursor.seek_to_last().unwrap();
    assert!(!cursor.valid());
    cursor.seek_before(b"z", SeqNo(0)).unwrap();
    assert!(!cursor.valid());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a sequence number was used twice for a key")]
fn the_same_key_and_sequence_number_twice_is_refused() {
    let memtable = new_memtable();
    memtable.insert(b"key", SeqNo(7), EntryKind::Put, b"one");
    memtable.insert(b"key", SeqNo(7), EntryKind::Remove, b"");
}

#[test]
fn inserts_into_the_gap_behind_a_full_leaf_do_not_begin_a_leaf_each() {
    let (leaf, more) = (list::CAPACITY_MAX as u64, if cfg!(miri) { 300 } else { 20_000 });
    let overwritten = |n: u64| (leaf.to_be_bytes(), n);
    let descending = |n: u64| ((leaf << 32 | (more - n)).to_be_bytes(), n);
    for key_of in [&overwritten as &dyn Fn(u64) -> ([u8; 8], u64), &descending] {
        let memtable = new_memtable();
        for n in 0..=leaf {
            let key = if n < leaf { n } else { leaf << 33 };
            memtable.insert(&key.to_be_bytes(), SeqNo(n + 1), EntryKind::Put, b"");
        }
        memtable.insert(&leaf.to_be_bytes(), SeqNo(leaf + 2), EntryKind::Put, b"");
        let before = memtable.bytes();
        for n in 0..more {
            let (key, n) = key_of(n);
            memtable.insert(&key, SeqNo(leaf + 3 + n), EntryKind::Put, b"");
        }
        let bytes_an_entry = (memtable.bytes() - before) as u64 / more;
        assert!(bytes_an_entry < 100, "{bytes_an_entry} bytes an entry");
    }
}

#[test]
fn a_cursor_keeps_the_memory_when_the_memtable_is_gone() {
    let memtable = new_memtable();
    memtable.insert(b"key", SeqNo(1), EntryKind::Put, b"value");
    let mut cursor = memtable.cursor();
    drop(memtable);
    std::thread::spawn(move || {
        cursor.seek(b"", SeqNo::MAX).unwrap();
        assert_eq!((cursor.key(), cursor.value()), (&b"key"[..], Slice::from(&b"value"[..])));
    })
    .join()
    .unwrap();
}

#[test]
fn large_and_small_values_lie_side_by_side() {
    let memtable = new_memtable();
    let sizes = [0, 1, 3000, 5000, 300_000, 7, 2 << 20];
    for (i, size) in sizes.iter().enumerate() {
        memtable.insert(&[i as u8], SeqNo(1), EntryKind::Put, &vec![i as u8; *size]);
    }
    assert!(memtable.bytes() >= sizes.iter().sum());
    for (i, size) in sizes.iter().enumerate() {
        assert_eq!(memtable.get(&PointKey::new(&[i as u8], SeqNo(1))).unwrap().value, vec![i as u8; *size]);
    }
}

#[test]
fn the_same_inserts_take_the_same_memory() {
    let bytes = || {
        let memtable = new_memtable();
        fill(&mut Random::new(3), &memtable, 100);
        (memtable.bytes(), memtable.entries())
    };
    assert_eq!(bytes(), bytes());
    assert_eq!(bytes().1, 100);
}

/// Writers share the sequence numbers; each publishes how far it has come, as the log does.
struct Stress {
    memtable: Arc<Memtable>,
    inserted: [AtomicU64; WRITERS as usize],
    each: u64,
    done: AtomicBool,
}

const WRITERS: u64 = 4;

impl Stress {
    /// Writer `writer`'s `i`th entry, on keys that all writers use.
    fn entry(writer: u64, i: u64) -> ([u8; 2], SeqNo, [u8; 8]) {
        let seq = 1 + i * WRITERS + writer;
        let key = (seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as u16;
        (key.to_be_bytes(), SeqNo(seq), seq.to_le_bytes())
    }

    fn write(&self, writer: u64) {
        for i in 0..self.each {
            let (key, seq, value) = Self::entry(writer, i);
            self.memtable.insert(&key, seq, EntryKind::Put, &value);
            self.inserted[writer as usize].store(i + 1, Ordering::Release);
        }
    }

    /// Scans over and over: in order, whole, with everything that was inserted before and everything seen before.
    fn read(&self, backwards: bool) {
        let mut seen = BTreeSet::new();
        loop {
            let last_round = self.done.load(Ordering::Acquire);
            let inserted: Vec<u64> = self.inserted.iter().map(|count| count.load(Ordering::Acquire)).collect();
            let found = self.scan(backwards);
            assert!(seen.is_subset(&found), "an entry that was seen is gone");
            for (writer, count) in inserted.iter().enumerate() {
                for i in 0..*count {
                    assert!(found.contains(&Self::entry(writer as u64, i).1), "an inserted entry is missing");
                }
            }
            seen = found;
            if last_round {
                break;
            }
        }
        assert_eq!(seen.len() as u64, WRITERS * self.each);
    }

    fn scan(&self, backwards: bool) -> BTreeSet<SeqNo> {
        let mut cursor = self.memtable.cursor();
        let mut found = BTreeSet::new();
        let mut before: Option<(Vec<u8>, Reverse<SeqNo>)> = None;
        if backwards {
            cursor.seek_to_last().unwrap()
        } else {
            cursor.seek_to_first().unwrap()
        }
        while cursor.valid() {
            let here = (cursor.key().to_vec(), Reverse(cursor.seq()));
            if let Some(before) = before {
                assert!(if backwards { here < before } else { before < here }, "out of order");
            }
            assert_eq!(cursor.value(), cursor.seq().0.to_le_bytes());
            found.insert(cursor.seq());
            before = Some(here);
            if backwards { cursor.prev().unwrap() } else { cursor.next().unwrap() }
        }
        found
    }
}

#[test]
fn readers_see_order_and_lose_nothing_while_writers_insert() {
    let stress = Stress {
        memtable: new_memtable(),
        inserted: Default::default(),
        each: if cfg!(miri) { 12 } else { 4000 },
        done: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let stress = &stress;
        let readers = [false, true].map(|backwards| scope.spawn(move || stress.read(backwards)));
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || stress.write(writer))).collect();
        for writer in writers {
            writer.join().unwrap();
        }
        stress.done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(stress.memtable.entries(), WRITERS * stress.each);
}
