//! Which blocks stay, and how many bytes.

use super::block;
use crate::cache::{BlockCache, Charge, Warmth};
use crate::format::TableId;

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
fn a_long_scan_leaves_blocks_that_are_read_often() {
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
fn a_block_that_comes_back_soon_after_its_eviction_stays_longer() {
    let cache = BlockCache::new(1 << 20);
    let table = cache.table(TableId(1), 10_000);
    for at in 0..200 {
        table.insert(at, block(0, 4000));
        table.get(at);
    }
    // The small queue has room for some 25 blocks. Block 1000 is evicted, comes back, and is not evicted again.
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
fn a_hot_block_goes_to_the_main_queue_and_cools_there() {
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
    assert_eq!(table.warmth(599), Warmth::Warm, "the hit took it to the main queue");
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
fn blocks_make_room_for_what_is_charged_and_take_it_back() {
    for (cache, makes_room) in [(BlockCache::within_budget(32 << 20), true), (BlockCache::new(32 << 20), false)] {
        let table = cache.table(TableId(1), 10_000);
        let fill = || (0..10_000).for_each(|at| table.insert(at, block(0, 4000)));
        fill();
        let full = cache.bytes_used();
        assert!(full > 30 << 20, "{full}");
        let mut charge = Charge::new(&cache, 20 << 20);
        assert_eq!(cache.bytes_used() <= 12 << 20, makes_room, "{}", cache.bytes_used());
        charge.set(100 << 20);
        let least = cache.bytes_used();
        assert_eq!((3 << 20..=4 << 20).contains(&least), makes_room, "an eighth stays: {least}");
        assert_eq!(cache.charged_bytes(), 100 << 20);
        drop(charge);
        fill();
        assert!(cache.bytes_used() > 30 << 20, "{}", cache.bytes_used());
        assert_eq!(cache.charged_bytes(), 0);
    }
}
