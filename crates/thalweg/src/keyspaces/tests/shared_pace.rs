//! Writers of all keyspaces share one pace, for the memory of all memtables.

use super::world::World;
use crate::format::{EntryKind, SeqNo};
use crate::memtable::{Memtable, MemtablePool};
use std::time::Duration;

#[test]
fn writers_are_slowed_down_between_the_memory_of_memtables_and_twice_as_much_while_a_flush_is_due() {
    const MOST: usize = 1 << 20;
    let mut world = World::new();
    world.backpressure.pool = MemtablePool::bounded(0, MOST);
    let full = |bytes: usize| {
        let memtable = Memtable::new(&world.backpressure.pool);
        memtable.insert(b"key", SeqNo(1), EntryKind::Put, &vec![7; bytes]);
        memtable
    };
    let fullest = full(MOST + MOST / 2);
    let rivers = world.create("rivers");
    world.put(&rivers, "Rhine", "1233 km");
    let is_pressed = |world: &World| {
        world.backpressure.pace_all();
        world.backpressure.shared_pacer.is_pressed()
    };
    assert!(!is_pressed(&world), "no flush is due that could give memory back, and none has told its rate");
    world.flush(&rivers);
    world.backpressure.flush_begun();
    std::thread::sleep(Duration::from_millis(20));
    world.backpressure.flush_ended(MOST as u64);
    assert!(!is_pressed(&world), "nothing is sealed");
    world.put(&rivers, "Danube", "2850 km");
    world.log.at_seal_point(|last| rivers.seal(last));
    assert!(is_pressed(&world));
    assert!(world.backpressure.shared_pacer.delay_ns(100 * MOST, 0).is_some());
    // Each time the schedule is used up.
    let delay_ns = |at: u64| world.backpressure.shared_pacer.delay_ns(MOST, u64::MAX / 8 * at);
    let before = delay_ns(1);
    world.backpressure.flush_begun();
    world.backpressure.flush_ended(0);
    world.backpressure.flush_begun();
    world.backpressure.flush_ended(100);
    assert!(is_pressed(&world) && delay_ns(2) == before, "one that failed or was small says nothing");
    drop(fullest);
    assert!(!is_pressed(&world), "there is room again");
}
