//! Blocks end where their page ends, where that leaves little of the page unused.

use super::golden::write;
use crate::table::pack::PAGE_BYTES;
use crate::table::pack::contents::Walk;
use crate::table::tests::bench::{Bench, options};
use crate::table::{Compression, TableOptions};

/// Offset and bytes of each block of a pack of `directories` directories, each with `entries` entries with values of
/// `value_bytes` bytes.
fn blocks(directories: u64, entries: u64, value_bytes: usize) -> Vec<(u64, usize)> {
    let bench = Bench::new(TableOptions { pack_block_bytes: 4 << 10, ..options(4096, Compression::None, 10) }, 0);
    let (names, value) = ((0..entries).map(u64::to_be_bytes).collect::<Vec<_>>(), vec![7; value_bytes]);
    let given = (0..directories).flat_map(|directory| names.iter().map(move |name| (directory, name)));
    let given: Vec<_> = given.map(|(directory, name)| (directory, &name[..], 5, Some(&value[..]))).collect();
    let meta = write(&bench, &given);
    let table = bench.store.open(meta);
    let pack = table.pack().unwrap();
    let contents = pack.contents().unwrap();
    let (mut walk, mut of_directory) = (Walk::new(&contents, pack.footer.data_end()).unwrap(), Vec::new());
    let mut found = Vec::new();
    while walk.next(&contents, &mut of_directory).unwrap().is_some() {
        found.extend(of_directory.iter().map(|block| block.place()));
    }
    found
}

fn crosses(&(offset, bytes): &(u64, usize)) -> bool {
    offset % PAGE_BYTES as u64 + bytes as u64 > PAGE_BYTES as u64
}

#[test]
fn a_block_of_small_entries_lies_in_one_page() {
    for (directories, entries, value_bytes) in [(200, 20, 128), (2, 3000, 128), (1000, 3, 10), (50, 40, 220)] {
        let blocks = blocks(directories, entries, value_bytes);
        assert!(!blocks.iter().any(crosses), "values of {value_bytes} bytes");
        let used: usize = blocks.iter().map(|(_, bytes)| bytes).sum();
        let (last, bytes) = blocks[blocks.len() - 1];
        let unused = last as usize + bytes - used;
        assert!(unused * 20 < used, "{unused} of {used} bytes unused, values of {value_bytes} bytes");
    }
}

#[test]
fn a_page_is_not_left_half_empty_for_a_long_entry() {
    for value_bytes in [600, 1500, 2040] {
        let blocks = blocks(20, 50, value_bytes);
        assert!(blocks.iter().any(crosses), "values of {value_bytes} bytes");
        let gaps = blocks.windows(2).map(|two| two[1].0 - two[0].0 - two[0].1 as u64);
        assert!(gaps.clone().all(|gap| gap <= 256), "values of {value_bytes} bytes");
        assert!(gaps.sum::<u64>() * 25 < blocks[blocks.len() - 1].0, "values of {value_bytes} bytes");
    }
}
