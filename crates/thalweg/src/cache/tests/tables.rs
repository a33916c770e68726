//! Blocks of several tables and threads: each read returns the right block, and a dropped table keeps none.

use super::block;
use crate::cache::BlockCache;
use crate::format::TableId;

#[test]
fn blocks_of_two_tables_with_one_number_do_not_mix() {
    let cache = BlockCache::new(1 << 20);
    let tables = [1, 2].map(|id| cache.table(TableId(id), 10));
    tables[0].insert(0, block(1, 100));
    tables[1].insert(0, block(2, 100));
    assert_eq!(tables[0].get(0).unwrap(), block(1, 100));
    assert_eq!(tables[1].get(0).unwrap(), block(2, 100));
    assert!(tables[0].get(1).is_none() && !tables[0].has(1) && tables[0].get(10).is_none());
}

#[test]
fn the_blocks_of_a_dropped_table_are_freed() {
    let cache = BlockCache::new(32 << 20);
    let stays = cache.table(TableId(0), 10);
    stays.insert(3, block(3, 1000));
    let used = cache.bytes_used();
    for id in 1..200 {
        let table = cache.table(TableId(id), 300);
        (0..300).for_each(|at| table.insert(at, block(1, 1000)));
        assert!(table.has(299));
    }
    assert_eq!(cache.bytes_used(), used);
    assert_eq!(stays.get(3).unwrap(), block(3, 1000));
    let entries = cache.queue_entries();
    assert!(entries < 2000, "{entries} entries of dropped tables");
}

#[test]
fn threads_that_read_fill_and_drop_at_once_find_the_right_bytes() {
    let cache = BlockCache::new(1 << 20);
    let shared = cache.table(TableId(0), 1000);
    std::thread::scope(|scope| {
        for thread in 1..4u64 {
            let (cache, shared) = (&cache, &shared);
            scope.spawn(move || {
                for round in 0..200 {
                    let own = cache.table(TableId(thread * 1000 + round), 50);
                    for at in 0..200 {
                        let at = (at * 7 + round as usize) % 1000;
                        match shared.get(at) {
                            Some(found) => assert_eq!(found, block(at as u8, 2000)),
                            None => shared.insert(at, block(at as u8, 2000)),
                        }
                        own.insert(at % 50, block(thread as u8, 3000));
                        assert!(own.get(at % 50).is_none_or(|found| found == block(thread as u8, 3000)));
                    }
                }
            });
        }
    });
    assert!(cache.bytes_used() <= 1 << 20);
    drop(shared);
    assert_eq!(cache.bytes_used(), 0);
}
