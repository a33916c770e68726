//! The bytes of f-hashes.

use crate::directory::paper::descriptor::Descriptor;
use crate::directory::paper::image::Shape;
use crate::directory::paper::page::{Entry, LINES_MAX, PAGE_BYTES, Page};
use crate::directory::paper::recency::Recency;
use crate::format::NameHash;
use std::collections::BTreeMap;

fn entry(hash: u64, number: usize) -> Entry {
    let descriptor = Descriptor::new(7, number as u32, number % 500).unwrap();
    Entry { hash: NameHash(hash), descriptor }
}

fn found(page: &Page, hash: u64) -> Vec<Descriptor> {
    let mut found: Vec<_> = page.find(NameHash(hash)).collect();
    found.sort_unstable();
    found
}

#[test]
fn a_descriptor_has_its_parts_or_there_is_none() {
    let largest = Descriptor::new((1 << 12) - 1, (1 << 26) - 1, (1 << 10) - 1).unwrap();
    assert_eq!((largest.pack(), largest.place(), largest.item()), ((1 << 12) - 1, (1 << 26) - 1, (1 << 10) - 1));
    let other = Descriptor::new(5, 6, 7).unwrap();
    assert_eq!((other.pack(), other.place(), other.item()), (5, 6, 7));
    assert_eq!(Descriptor::new(1 << 12, 0, 0), None);
    assert_eq!(Descriptor::new(0, 1 << 26, 0), None);
    assert_eq!(Descriptor::new(0, 0, 1 << 10), None);
}

#[test]
fn a_page_of_any_size_has_what_was_inserted_and_its_bytes_are_all_of_it() {
    let mut random = fastrand::Rng::with_seed(3);
    for lines in [1, 2, 4, 8, 16, 32, 64] {
        for hashes in [1_u64, 3, u64::MAX] {
            let (mut page, mut model) = (Page::new(lines), BTreeMap::<u64, Vec<Descriptor>>::new());
            let mut count = 0;
            loop {
                let entry = entry(random.u64(..hashes).wrapping_mul(0x9e37_79b9_7f4a_7c15), count);
                if !page.insert(entry) {
                    break;
                }
                count += 1;
                model.entry(entry.hash.0).or_default().push(entry.descriptor);
                let copy = Page::from_bytes(page.bytes());
                assert!(model.iter().all(|(hash, descriptors)| found(&copy, *hash) == *descriptors));
            }
            assert_eq!(page.entries().count(), count);
            assert_eq!(page.bytes().len(), lines * 64);
            // A chain of one hash has one normal line and all overflow lines.
            let least = if hashes == 1 { 4 * (1 + lines / 4) } else { lines };
            assert!(count >= least, "{count} entries in {lines} lines");
            assert!(found(&page, 12345).is_empty());
        }
    }
}

#[test]
fn an_f_hash_doubles_until_its_entries_fit_and_shrinks_when_it_is_sparse() {
    let mut random = fastrand::Rng::with_seed(4);
    let entries: Vec<Entry> = (0..40_000).map(|number| entry(random.u64(..), number)).collect();
    let mut shape = Shape::SMALLEST;
    for count in [1, 4, 5, 20, 100, 160, 1000, 8000, 40_000, 8000, 20, 1] {
        let (next, pages) = shape.filled(&entries[..count]).unwrap();
        assert_eq!(pages.len(), next.pages);
        assert!(next.pages == 1 || next.lines == LINES_MAX, "only full pages are several");
        assert!(pages.iter().all(|page| page.bytes().len() == next.page_bytes()));
        for entry in &entries[..count] {
            let page = &pages[next.page_of(entry.hash)];
            assert!(page.find(entry.hash).any(|descriptor| descriptor == entry.descriptor));
        }
        let bytes = next.pages * next.page_bytes();
        assert!(bytes <= 64.max(count * 16 * 8), "{count} entries take {bytes} bytes");
        shape = next;
    }
    assert!(Shape::SMALLEST.filled(&entries[..1000]).unwrap().0.pages * PAGE_BYTES >= 1000 * 16);
}

#[test]
fn equal_hashes_coexist_until_they_fill_a_page() {
    let equal = |count: usize| (0..count).map(|number| entry(42, number)).collect::<Vec<_>>();
    let (shape, pages) = Shape::SMALLEST.filled(&equal(60)).unwrap();
    assert_eq!(found(&pages[shape.page_of(NameHash(42))], 42).len(), 60);
    assert_eq!(Shape::SMALLEST.filled(&equal(300)), None);
}

#[test]
fn the_oldest_use_comes_first() {
    let mut recency = Recency::default();
    let order = |recency: &Recency| recency.oldest(10).collect::<Vec<_>>();
    (0..5).for_each(|number| recency.add(number));
    assert_eq!(order(&recency), [0, 1, 2, 3, 4]);
    recency.touch(0);
    recency.touch(2);
    recency.remove(1);
    recency.remove(1);
    recency.touch(1);
    assert_eq!(order(&recency), [3, 4, 0, 2]);
    recency.add(1);
    recency.add(3);
    assert_eq!(order(&recency), [3, 4, 0, 2, 1]);
    assert_eq!(recency.oldest(2).collect::<Vec<_>>(), [3, 4]);
    (0..5).for_each(|number| recency.remove(number));
    assert!(order(&recency).is_empty());
}
