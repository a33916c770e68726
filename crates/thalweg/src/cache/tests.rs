//! What is kept, for how long, and that it is the right block.

use super::*;

fn block(byte: u8, len: usize) -> Slice {
    Slice::from(vec![byte; len])
}

#[test]
fn blocks_of_two_tables_at_one_place_do_not_mix() {
    let cache = BlockCache::new(1 << 20);
    let tables = [1, 2].map(|id| cache.table(TableId(id), 10));
    tables[0].insert(0, block(1, 100));
    tables[1].insert(0, block(2, 100));
    assert_eq!(tables[0].get(0).unwrap(), block(1, 100));
    assert_eq!(tables[1].get(0).unwrap(), block(2, 100));
    assert!(tables[0].get(1).is_none() && !tables[0].has(1) && tables[0].get(10).is_none());
}

#[test]
fn bytes_used_never_pass_the_capacity() {
    for bytes in [64 << 10, 64 << 20] {
        let cache = BlockCache::new(bytes);
        let table = cache.table(TableId(1), 40_000);
        for at in 0..40_000 {
            table.insert(at, block(0, 100 + at % 7000));
            if at % 3 == 0 {
                table.get(at / 2);
            }
            assert!(at % 100 > 0 || cache.bytes_used() <= bytes);
        }
        assert!(cache.bytes_used() <= bytes && cache.bytes_used() > bytes / 2);
    }
}

#[test]
fn a_block_larger_than_an_eighth_is_not_kept() {
    let cache = BlockCache::new(64 << 10);
    cache.table(TableId(1), 1).insert(0, block(0, 8 << 10));
    assert_eq!(cache.bytes_used(), 0);
}

#[test]
fn a_cache_of_no_bytes_keeps_nothing() {
    let cache = BlockCache::new(0);
    let table = cache.table(TableId(1), 1);
    table.insert(0, block(0, 1));
    assert!(table.get(0).is_none());
    assert_eq!(cache.bytes_used(), 0);
}

#[test]
fn the_blocks_of_a_dropped_table_are_let_go() {
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
    let entries: usize = cache.shards.iter().map(|shard| lock(shard).entries()).sum();
    assert!(entries < 2000, "{entries} entries of dropped tables");
}

#[test]
fn a_long_scan_leaves_what_is_used_often() {
    let cache = BlockCache::new(4 << 20);
    let (hot, cold) = (cache.table(TableId(1), 500), cache.table(TableId(2), 100_000));
    let hot_round = || (0..500).filter(|at| hot.get(*at).is_some()).count();
    for at in 0..500 {
        hot.insert(at, block(1, 4000));
    }
    hot_round();
    for at in 0..100_000 {
        cold.insert(at, block(2, 4000));
        if at % 1000 == 0 {
            assert_eq!(hot_round(), 500, "after {at} blocks");
        }
    }
}

#[test]
fn a_block_that_comes_back_soon_after_it_was_evicted_stays_longer() {
    let cache = BlockCache::new(1 << 20);
    let table = cache.table(TableId(1), 10_000);
    for at in 0..200 {
        table.insert(at, block(0, 4000));
        table.get(at);
    }
    // The small queue has room for some 25: block 1000 is pushed out, comes back, and is not pushed out again.
    for at in 1000..1100 {
        table.insert(at, block(0, 4000));
    }
    assert!(!table.has(1000));
    table.insert(1000, block(0, 4000));
    for at in 2000..2100 {
        table.insert(at, block(0, 4000));
    }
    assert!(table.has(1000) && !table.has(2000));
}

#[test]
fn a_hot_block_goes_where_blocks_stay_and_cools_there() {
    let cache = BlockCache::new(1 << 20);
    let table = cache.table(TableId(1), 10_000);
    let fill = |blocks: std::ops::Range<usize>| {
        for at in blocks {
            table.insert(at, block(0, 4000));
        }
    };
    fill(1..200);
    table.insert_as(0, block(0, 4000), Warmth::Hot);
    assert_eq!([0, 199, 9999].map(|at| table.warmth(at)), [Warmth::Warm, Warmth::Cold, Warmth::Cold]);
    // There is room for some 250 blocks.
    fill(300..600);
    assert!(table.has(0) && !table.has(199) && table.has(599));
    table.get(599);
    assert_eq!([0, 599].map(|at| table.warmth(at)), [Warmth::Warm, Warmth::Hot]);
    fill(600..900);
    assert_eq!(table.warmth(599), Warmth::Warm, "the hit took it to where blocks stay");
}

#[test]
fn the_same_calls_give_the_same_hits() {
    let run = || {
        let cache = BlockCache::new(256 << 10);
        let tables = [0, 1, 2, 3].map(|id| cache.table(TableId(id), 200));
        let mut state = 7u64;
        let mut hits = Vec::new();
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (table, at) = (&tables[(state >> 62) as usize], (state >> 33) as usize % 200);
            let hit = table.get(at).is_some();
            if !hit {
                table.insert(at, block(0, 1000 + at));
            }
            hits.push(hit);
        }
        hits
    };
    let hits = run();
    assert!(hits.contains(&true) && hits.iter().skip(1000).any(|hit| !hit));
    assert_eq!(hits, run());
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
