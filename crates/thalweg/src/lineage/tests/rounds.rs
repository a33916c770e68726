//! Settle rounds: what they sync and when they begin.

use super::installing::{first, flush, merge};
use super::*;
use std::io;

fn two_tables_in_rounds() -> World {
    two_tables_in_rounds_on(Fake::default())
}

/// A world with rounds, keyspace 1, and tables 1 and 2 in level 0; everything is settled.
fn two_tables_in_rounds_on(disk: Fake) -> World {
    let world = World::on(DurabilityBackend::SettleRounds, disk).start();
    first(&world);
    world.thread.run(world.install(flush(1))).unwrap();
    world.thread.run(world.install(flush(2))).unwrap();
    world.lineage.settle().unwrap();
    world.disk.disk().syncs.clear();
    world
}

#[test]
fn with_rounds_an_edit_is_used_at_once_and_waits_for_nothing() {
    let world = two_tables_in_rounds();
    world.thread.run(world.install(merge())).unwrap();
    assert_eq!(world.disk.disk().syncs, [] as [&str; 0]);
    assert_eq!(world.lineage.state().edit, EditId(4));
    assert_eq!(world.unsettled_edits(), 1);
    let (found, _) = recover(&world.disk.after_power_cut()).unwrap().unwrap();
    assert_eq!(found.edit, EditId(3), "nothing of it was durable, and its inputs are there");
    assert!(world.disk.disk().has(&table_path(1)) && world.disk.disk().has(&table_path(2)));
}

#[test]
fn a_round_syncs_log_tables_their_directory_and_the_manifest_in_this_order_and_once_for_many_edits() {
    let world = two_tables_in_rounds();
    for id in 4..20 {
        world.thread.run(world.install(flush(id))).unwrap();
    }
    world.thread.run(world.install(merge())).unwrap();
    world.thread.pass_ms(150);
    let syncs = world.disk.disk().syncs.clone();
    let tables = syncs.iter().filter(|name| name.ends_with(".table")).count();
    assert_eq!((&*syncs[0], tables), ("00000000.log", 17));
    assert_eq!(syncs[1 + tables..], ["tables", "manifest-00000001"]);
    world.thread.pass_ms(300);
    assert_eq!(world.disk.disk().syncs.len(), syncs.len() + 1, "one more for the last record, then none");
    assert_eq!((world.lineage.retained_bytes(), world.unsettled_edits()), (0, 0));
    assert!(!world.disk.disk().has(&table_path(1)));
}

#[test]
fn a_table_that_was_replaced_before_its_round_is_not_synced() {
    let world = two_tables_in_rounds();
    world.thread.run(world.install(merge())).unwrap();
    let next = edit(vec![remove(0, 1, 3), add(0, 2, table(4, "a", "z"))]);
    world.thread.run(world.install(next)).unwrap();
    world.lineage.settle().unwrap();
    assert!(!world.disk.disk().syncs.contains(&"0000000003.table".into()));
    assert!(world.disk.disk().syncs.contains(&"0000000004.table".into()));
}

#[test]
fn too_many_retained_bytes_or_too_much_of_the_log_begin_a_round_at_once() {
    let world = two_tables_in_rounds();
    world.thread.run(world.install(merge())).unwrap();
    world.thread.pass_ms(40);
    assert_eq!(world.unsettled_edits(), 1, "201 bytes are few");
    let big = world.tables.open(TableMeta { bytes: 10_000, ..table(2, "a", "z") });
    world.log_to(SeqNo(90)).unwrap();
    world.thread.run(world.install_with(edit(vec![flushed(0, 90)]), vec![big])).unwrap();
    world.thread.pass_ms(40);
    assert_eq!(world.unsettled_edits(), 0);
    (0..12).for_each(|_| world.log_bytes(50_000));
    let pins = Edit { log_start: Some(world.log.published()), ..Edit::default() };
    world.thread.run(world.install_with(pins, vec![])).unwrap();
    world.thread.pass_ms(40);
    assert_eq!(world.unsettled_edits(), 0);
}

#[test]
fn a_disk_with_little_left_or_too_many_open_files_begins_a_round_at_once() {
    for is_low in [false, true] {
        let disk = Fake::default();
        disk.disk().open_files_max = Some(48);
        let world = two_tables_in_rounds_on(disk);
        if is_low {
            world.disk.disk().free = Some(403);
        } else {
            (0..=world.lineage.unsynced_files_max).for_each(|_| drop(world.write_table()));
        }
        // Without inputs nothing would be gained of space.
        world.thread.run(world.install(flush(9))).unwrap();
        world.thread.pass_ms(40);
        assert_eq!(world.unsettled_edits(), u64::from(is_low));
        world.thread.run(world.install(merge())).unwrap();
        world.thread.pass_ms(40);
        assert_eq!(world.unsettled_edits(), 0);
        world.thread.pass_ms(300);
        assert_eq!(world.lineage.retained_bytes(), 0);
    }
}

#[test]
fn a_round_whose_table_cannot_be_made_durable_poisons_and_keeps_every_input() {
    let world = two_tables_in_rounds();
    world.disk.disk().failing_sync = Some((".table", io::ErrorKind::Other));
    world.thread.run(world.install(merge())).unwrap();
    assert!(world.lineage.settle().is_err());
    assert!(world.health.check().is_err());
    world.thread.pass_ms(300);
    assert!(world.disk.disk().has(&table_path(1)) && world.disk.disk().has(&table_path(2)));
    assert_eq!(recover(&world.disk.after_power_cut()).unwrap().unwrap().0.edit, EditId(3));
}
