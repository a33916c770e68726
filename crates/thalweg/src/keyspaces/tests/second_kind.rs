//! A second kind of keyspace registers, writes through the log, pins it, recovers, is cleared and is dropped.

use super::world::World;
use crate::keyspaces::Keyspace;
use std::sync::Arc;

#[test]
fn a_second_kind_pins_the_log_until_it_has_flushed() {
    let mut world = World::new();
    let rivers = world.create("rivers");
    let created = world.log_pins.needed();
    assert!(created.position < world.log.published().position, "the record of the creation pins the log");
    world.install_definitions();
    assert_eq!(world.log_pins.needed().position, world.log.published().position, "nothing pins it");
    world.put(&rivers, "Rhine", "1233 km");
    let first = rivers.oldest_mark().unwrap();
    world.put(&rivers, "Danube", "2850 km");
    assert_eq!(world.log_pins.needed().position, first.position);
    assert_eq!(world.get(&rivers, "Rhine").unwrap(), b"1233 km");
    world.flush(&rivers);
    assert!(rivers.oldest_mark().is_none() && !world.registry.has_pending_flush());
    assert_eq!(world.log_pins.needed().position, world.log.published().position);
    assert_eq!(world.get(&rivers, "Danube").unwrap(), b"2850 km", "from its table");
}

#[test]
fn a_second_kind_recovers_what_is_in_tables_and_what_is_in_the_log() {
    let mut world = World::new();
    let rivers = world.create("rivers");
    world.put(&rivers, "Rhine", "1230 km");
    world.flush(&rivers);
    world.lineage.settle().unwrap();
    world.put(&rivers, "Rhine", "1233 km");
    for number in 0..60 {
        world.put(&rivers, &format!("brook {number}"), "short");
    }
    let world = world.crash();
    let rivers = world.keyspace("rivers").unwrap();
    assert_eq!(world.get(&rivers, "Rhine").unwrap(), b"1233 km");
    assert_eq!(world.get(&rivers, "brook 59").unwrap(), b"short");
    assert_eq!(rivers.tables().len(), 1);
    assert!(world.registry.has_pending_flush(), "replay has filled a buffer and sealed it");
}

#[test]
fn a_keyspace_of_a_second_kind_is_dropped_with_its_tables() {
    let mut world = World::new();
    let (rivers, lakes) = (world.create("rivers"), world.create("lakes"));
    world.put(&rivers, "Rhine", "1233 km");
    world.flush(&rivers);
    world.put(&rivers, "Danube", "2850 km");
    world.put(&lakes, "Constance", "536 km2");
    let pinned = rivers.oldest_mark().unwrap();
    world.drop_keyspace(&rivers);
    assert!(world.keyspace("rivers").is_none() && rivers.lifecycle().is_dropped());
    assert_eq!(world.log_pins.needed().position, pinned.position, "until the manifest knows");
    world.install_definitions();
    assert_eq!(world.log_pins.needed().position, lakes.oldest_mark().unwrap().position);
    assert!(rivers.tables().is_empty() && !rivers.lifecycle().is_readable());
    let world = world.crash();
    assert!(world.keyspace("rivers").is_none());
    let lakes = world.keyspace("lakes").unwrap();
    assert_eq!(world.get(&lakes, "Constance").unwrap(), b"536 km2");
}

#[test]
fn a_snapshot_keeps_a_cleared_generation_of_a_second_kind() {
    let mut world = World::new();
    let before = world.create("rivers");
    world.put(&before, "Rhine", "1233 km");
    world.flush(&before);
    let snapshot = world.snapshots.pin(|| world.log.visible());
    let after = world.clear(&before);
    assert!(!Arc::ptr_eq(&before, &after) && before.id() == after.id());
    world.install_definitions();
    assert!(world.get(&after, "Rhine").is_none());
    assert_eq!(before.get(b"Rhine", snapshot.seq()).unwrap(), b"1233 km");
    drop(snapshot);
    world.installer.cleared.sweep();
    assert!(!before.lifecycle().is_readable() && before.tables().is_empty());
    let world = world.crash();
    assert!(world.get(&world.keyspace("rivers").unwrap(), "Rhine").is_none());
}
