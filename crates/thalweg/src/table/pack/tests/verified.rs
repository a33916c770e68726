//! A block in a cached page is verified, whatever other blocks of the page were.

use super::golden::write;
use crate::error::ErrorKind;
use crate::format::{EntryKey, SeqNo, Slice};
use crate::table::pack::PAGE_BYTES;
use crate::table::tests::bench::{Bench, options};
use crate::table::{Compression, TableOptions, entry_hash};

#[test]
fn a_page_that_the_cache_has_is_verified_block_by_block() {
    let bench = Bench::new(TableOptions { pack_block_bytes: 4 << 10, ..options(4096, Compression::None, 10) }, 1 << 20);
    let (names, value) = ((0..8_u64).map(u64::to_be_bytes).collect::<Vec<_>>(), [7; 128]);
    let given = (0..9).flat_map(|directory| names.iter().map(move |name| (directory, name)));
    let given: Vec<_> = given.map(|(directory, name)| (directory, &name[..], 5, Some(&value[..]))).collect();
    let table = bench.store.open(write(&bench, &given));
    let pack = table.pack().unwrap();
    let mut spans = Vec::new();
    pack.visit_directories(&mut |directory, span| spans.push((directory, span))).unwrap();
    let first_block = |number: usize| pack.blocks_of(spans[number].1)[0];
    let second = first_block(1);
    assert!(second.offset as usize + second.bytes_max < PAGE_BYTES, "two blocks in the first page");

    let mut page = vec![0; PAGE_BYTES];
    pack.file.read_exact_at(0, &mut page).unwrap();
    page[second.offset as usize + second.bytes_max / 2] ^= 1;
    pack.cached.insert(0, Slice::from_long(&page));
    let read = |directory: u64| {
        let key = EntryKey::new(directory, &names[3], &pack.hash_key);
        table.newest_of(spans[directory as usize].1, (&key, entry_hash(&key)), SeqNo::MAX)
    };
    let mark = || pack.cached.get_marked(0).unwrap().1;
    assert_eq!(mark(), 0);
    for _ in 0..3 {
        assert!(read(0).unwrap().is_some());
        assert_eq!(mark(), 1, "the first block begins the page");
        assert_eq!(read(1).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(mark(), 1, "a damaged block is not marked");
    }
    let third = first_block(2);
    assert!(third.offset as usize + third.bytes_max < PAGE_BYTES, "three blocks in the first page");
    assert!(read(2).unwrap().is_some());
    assert_eq!(u64::from(mark()), 1 + third.offset / 8);
    assert_eq!(read(1).unwrap_err().kind(), ErrorKind::Corruption);
}
