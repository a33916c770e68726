//! Installing, settling, rotating and closing.

use super::*;
use std::io;

pub(super) fn flush(id: u64) -> Edit {
    edit(vec![add(0, 0, table(id, "a", "z")), flushed(0, id)])
}

pub(super) fn first(world: &World) {
    world.thread.run(world.install(edit(vec![create(1, &[])]))).unwrap();
}

/// A world with keyspace 1 and tables 1 and 2 in level 0.
fn two_tables() -> World {
    let world = World::new().start();
    first(&world);
    world.thread.run(world.install(flush(1))).unwrap();
    world.thread.run(world.install(flush(2))).unwrap();
    world
}

pub(super) fn merge() -> Edit {
    edit(vec![remove(0, 0, 1), remove(0, 0, 2), add(0, 1, table(3, "a", "z"))])
}

#[test]
fn an_installed_edit_is_found_after_a_power_cut() {
    let world = two_tables();
    let (state, _) = recover(&world.disk.after_power_cut()).unwrap().unwrap();
    assert_eq!(state, world.lineage.state());
    assert_eq!(state.edit, EditId(3));
}

#[test]
fn log_outputs_their_directory_and_the_manifest_are_synced_in_this_order() {
    let world = World::new();
    first(&world);
    world.disk.disk().syncs.clear();
    world.thread.run(world.install(flush(1))).unwrap();
    assert_eq!(world.disk.disk().syncs, ["00000000.log", "0000000001.table", "tables", "manifest-00000001"]);
}

#[test]
fn edits_appended_while_a_sync_runs_share_the_next_one() {
    let world = World::new();
    first(&world);
    world.disk.disk().syncs.clear();
    let running = world.lineage.syncing.lock_blocking(&world.lineage.environment);
    for id in 1..=16 {
        world.disk.put(&table_path(id), vec![0; 100 + id as usize]);
    }
    let install = |id| {
        let edit = edit(vec![add(0, 0, table(id, "a", "z"))]);
        let lineage = Arc::clone(&world.lineage);
        Box::pin(async move { drop(lineage.install(edit, vec![], || None, || ()).await) })
    };
    for id in 1..=16 {
        world.thread.spawn(Lane::Flush, install(id));
    }
    world.thread.pass_ms(100);
    assert_eq!((world.lineage.state().edit, world.lineage.book().ledger.durable()), (EditId(17), EditId(1)));
    drop(running);
    world.thread.pass_ms(10);
    assert_eq!(world.lineage.book().ledger.durable(), EditId(17));
    assert_eq!(world.disk.disk().syncs.iter().filter(|name| name.starts_with("manifest")).count(), 1);
    assert_eq!(recover(&world.disk.after_power_cut()).unwrap().unwrap().0.edit, EditId(17));
}

#[test]
fn inputs_are_unlinked_only_once_the_settled_record_survives_a_power_cut() {
    let world = two_tables();
    world.lineage.settle().unwrap();
    world.thread.run(world.install(merge())).unwrap();
    assert!(world.disk.disk().has(&table_path(1)) && world.disk.disk().has(&table_path(2)));
    assert!(world.lineage.retained_bytes() > 0);
    world.lineage.settle().unwrap();
    let (_, contents) = recover(&world.disk.after_power_cut()).unwrap().unwrap();
    assert_eq!(contents.settled.edit, EditId(4));
    world.thread.pass_ms(110);
    assert!(!world.disk.disk().has(&table_path(1)) && !world.disk.disk().has(&table_path(2)));
    assert_eq!((world.lineage.retained_bytes(), world.unsettled_edits()), (0, 0));
}

#[test]
fn an_input_that_a_reader_holds_stays_until_the_reader_says_that_it_left() {
    let world = two_tables();
    world.disk.put(&table_path(3), vec![0; 103]);
    let held = world.tables.open(table(1, "a", "z"));
    world.thread.run(world.install_with(merge(), vec![Arc::clone(&held)])).unwrap();
    world.lineage.settle().unwrap();
    world.thread.pass_ms(300);
    assert!(world.disk.disk().has(&table_path(1)));
    drop(held);
    world.lineage.readers_left();
    world.thread.pass_ms(5);
    assert!(!world.disk.disk().has(&table_path(1)));
}

#[test]
fn edits_settle_without_new_ones_or_anybody_asking() {
    let world = two_tables();
    assert!(world.unsettled_edits() > 0);
    world.thread.pass_ms(300);
    assert_eq!(world.unsettled_edits(), 0);
    let syncs = world.disk.disk().syncs.len();
    world.thread.pass_ms(1000);
    assert_eq!(world.disk.disk().syncs.len(), syncs, "nothing is synced when nothing is unsettled");
}

#[test]
fn the_log_is_let_go_with_the_settled_edit_and_never_back() {
    let world = two_tables();
    let early = world.log.published();
    world.log_bytes(200_000);
    let late = world.log.published();
    assert!(world.log.durable() < late.position && world.log.backlog_bytes() > 200_000);
    for start in [Some(late), Some(early), None] {
        world.thread.run(world.lineage.install(Edit::default(), vec![], move || start, || ())).unwrap();
    }
    assert_eq!(world.lineage.state().log_start, late);
    world.lineage.settle().unwrap();
    assert_eq!((world.log.durable(), world.log.backlog_bytes()), (late.position, 64 << 10));
}

#[test]
fn the_log_is_made_durable_only_for_an_edit_that_it_is_needed_before() {
    let world = World::new();
    first(&world);
    let mark_after = |seq: u64| {
        world.log_to(SeqNo(seq)).unwrap();
        world.log.published()
    };
    let install = |seq: u64, start: LogMark| {
        let (edit, syncs) = (edit(vec![flushed(0, seq)]), world.log_syncs());
        world.thread.run(world.lineage.install(edit, vec![], move || Some(start), || ())).unwrap();
        world.log_syncs() > syncs
    };
    let [before_20, _, at_30, at_45] = [19, 20, 30, 45].map(mark_after);
    assert!(install(20, before_20), "a record before 20 is only in a memtable");
    world.log_to(SeqNo(50)).unwrap();
    assert!(!install(30, at_30));
    assert!(!install(40, at_45));
    assert_eq!(world.lineage.state().log_start, at_45);
}

#[test]
#[should_panic(expected = "where the log is needed from does not go back")]
fn a_log_that_turns_out_to_be_needed_after_all_is_not_left_unsynced() {
    let world = World::new();
    first(&world);
    world.log_to(SeqNo(20)).unwrap();
    let starts = Mutex::new(vec![mark(10), mark(30)]);
    let edit = edit(vec![flushed(0, 20)]);
    let start = || starts.lock().unwrap().pop();
    let _ = world.thread.run(world.lineage.install(edit, vec![], start, || ()));
}

#[test]
fn a_log_that_lost_what_tables_hold_goes_on_from_its_end() {
    let world = World::new().start();
    first(&world);
    world.lineage.settle().unwrap();
    for (seq, start) in [(20, 20), (30, 35)] {
        let edit = edit(vec![flushed(0, seq)]);
        world.thread.run(world.lineage.install(edit, vec![], move || Some(mark(start)), || ())).unwrap();
    }
    let disk = world.disk.after_power_cut();
    let found = |end| recover_with_log(&disk, end).unwrap().unwrap().0;
    // The record that begins at 35 would have written the way there.
    for (end, seq, start) in [(25, 20, mark(20)), (32, 30, mark(32)), (40, 30, mark(35))] {
        let state = found(mark(end));
        assert_eq!((state.seq, state.log_start), (SeqNo(seq), start), "a log that ends at {end}");
    }
}

#[test]
fn readers_are_switched_under_the_turn_in_the_order_of_the_manifest() {
    let world = World::new();
    first(&world);
    let order = Mutex::new(Vec::new());
    let install = |number: usize| {
        let order = &order;
        let lineage = &world.lineage;
        async move {
            let apply = move || order.lock().unwrap().push((number, lineage.state().edit));
            lineage.install(Edit::default(), vec![], || None, apply).await.unwrap()
        }
    };
    let ids = world.thread.run_all((0..5).map(install).collect());
    let order = order.into_inner().unwrap();
    assert_eq!(order.len(), 5);
    assert!(order.iter().all(|(number, edit)| ids[*number] == *edit), "{order:?} {ids:?}");
}

#[test]
fn a_full_disk_changes_nothing_and_the_edit_goes_in_once_there_is_room() {
    let world = two_tables();
    world.lineage.settle().unwrap();
    world.disk.put(&table_path(3), vec![0; 103]);
    world.disk.remove(&Path::new(ROOT).join("RESERVE")).unwrap();
    let before = (world.lineage.state(), world.disk.disk().content(&world.manifest()).clone());
    world.disk.disk().room = Some(0);
    let install = || world.lineage.install(merge(), vec![], || None, || panic!("readers were switched"));
    let error = world.thread.run(install()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(before, (world.lineage.state(), world.disk.disk().content(&world.manifest()).clone()));
    assert!(world.health.check().is_ok());
    world.disk.disk().room = None;
    world.thread.run(world.lineage.install(merge(), vec![], || None, || ())).unwrap();
    assert_eq!(recover(&world.disk.after_power_cut()).unwrap().unwrap().0, world.lineage.state());
}

/// Also if CURRENT names the new manifest already, and only its own name is not durable yet.
#[test]
fn an_open_that_finds_no_space_leaves_a_manifest_in_force() {
    for syncs in 0..6 {
        let world = two_tables();
        world.lineage.settle().unwrap();
        let state = world.lineage.state();
        let disk = world.disk.after_power_cut();
        if !disk.disk().has(&Path::new(ROOT).join("RESERVE")) {
            disk.put(&Path::new(ROOT).join("RESERVE"), vec![0; 4096]);
        }
        disk.disk().full_directory_sync = Some(syncs);
        // It may succeed with the space of the reserve, or be refused.
        let begun = World::begin_as(DurabilityBackend::SyncEachFile, disk.clone(), Some(state.clone()));
        drop(begun);
        disk.disk().full_directory_sync = None;
        for disk in [disk.clone(), disk.after_power_cut()] {
            assert_eq!(recover(&disk).unwrap().unwrap().0, state, "after {syncs} syncs");
        }
    }
}

#[test]
fn a_short_append_is_cut_off_again() {
    let world = two_tables();
    world.lineage.settle().unwrap();
    world.disk.put(&table_path(3), vec![0; 103]);
    world.disk.remove(&Path::new(ROOT).join("RESERVE")).unwrap();
    let before = world.disk.disk().content(&world.manifest()).clone();
    let used = world.disk.disk().used();
    let mut refused = 0;
    for more in 0.. {
        world.disk.disk().room = Some(used + more);
        match world.thread.run(world.lineage.install(merge(), vec![], || None, || ())) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace),
        }
        refused += 1;
        assert_eq!(*world.disk.disk().content(&world.manifest()), before);
    }
    assert!(refused > 20);
}

#[test]
fn the_reserve_is_given_up_for_a_record_and_made_again_later() {
    let world = two_tables();
    world.lineage.settle().unwrap();
    let reserve = Path::new(ROOT).join("RESERVE");
    assert!(world.disk.disk().has(&reserve));
    world.disk.put(&table_path(3), vec![0; 103]);
    let room = world.disk.disk().used();
    world.disk.disk().room = Some(room);
    world.thread.run(world.lineage.install(merge(), vec![], || None, || ())).unwrap();
    assert!(!world.disk.disk().has(&reserve));
    world.lineage.settle().unwrap();
    world.disk.disk().room = None;
    world.thread.run(world.install(edit(vec![flushed(0, 9)]))).unwrap();
    world.lineage.settle().unwrap();
    world.thread.pass_ms(5);
    assert!(world.disk.disk().has(&reserve));
}

#[test]
fn settling_on_a_full_disk_is_refused_and_may_be_tried_again() {
    let world = two_tables();
    world.lineage.settle().unwrap();
    world.disk.remove(&Path::new(ROOT).join("RESERVE")).unwrap();
    let fill = || world.disk.disk().room = Some(0);
    world.thread.run(world.lineage.install(Edit::default(), vec![], || None, fill)).unwrap();
    assert_eq!(world.lineage.settle().unwrap_err().kind(), ErrorKind::NoSpace);
    world.thread.pass_ms(300);
    assert_eq!((world.unsettled_edits(), world.health.check().is_ok()), (1, true));
    let heard = world.health.rounds.get().unwrap();
    assert!(heard.times > 1 && heard.error.kind() == ErrorKind::NoSpace, "{heard:?}");
    world.disk.disk().room = None;
    world.lineage.settle().unwrap();
    assert_eq!(world.unsettled_edits(), 0);
    assert!(world.health.rounds.get().is_none() && world.health.last_failure().is_some());
}

#[test]
fn a_failed_sync_of_the_manifest_poisons_and_nothing_is_unlinked_ever_after() {
    let world = two_tables();
    world.lineage.settle().unwrap();
    world.disk.disk().failing_sync = Some(("manifest", io::ErrorKind::Other));
    world.disk.disk().removed.clear();
    assert_eq!(world.thread.run(world.install(merge())).unwrap_err().kind(), ErrorKind::Poisoned);
    world.disk.disk().failing_sync = None;
    assert_eq!(world.lineage.settle().unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(world.lineage.close(mark(9)).unwrap_err().kind(), ErrorKind::Poisoned);
    world.lineage.wake_cleanup();
    world.thread.pass_ms(500);
    assert!(world.disk.disk().removed.is_empty());
}

#[test]
fn a_failed_sync_of_an_output_poisons_before_the_manifest_names_it() {
    let world = two_tables();
    let before = world.lineage.state();
    world.disk.disk().failing_sync = Some((".table", io::ErrorKind::Other));
    assert_eq!(world.thread.run(world.install(merge())).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(world.lineage.state(), before);
}

#[test]
fn a_write_back_that_failed_after_the_writer_had_finished_poisons_too() {
    let world = two_tables();
    let before = world.lineage.state();
    let written = edit(vec![add(0, 0, world.write_table())]);
    // The kernel reports the failure to the writer's descriptor, not to one that is opened now.
    world.disk.disk().fails_writers = true;
    assert_eq!(world.thread.run(world.install_with(written, vec![])).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(world.lineage.state(), before);
}

#[test]
fn an_output_whose_sync_met_a_full_disk_is_never_named() {
    let world = two_tables();
    world.disk.disk().failing_sync = Some((".table", io::ErrorKind::StorageFull));
    assert_eq!(world.thread.run(world.install(flush(3))).unwrap_err().kind(), ErrorKind::NoSpace);
    world.disk.disk().failing_sync = None;
    let again = world.lineage.install(flush(3), vec![], || None, || ());
    assert_eq!(world.thread.run(again).unwrap_err().kind(), ErrorKind::NoSpace);
    world.thread.run(world.install(flush(4))).unwrap();
}

#[test]
fn an_edit_that_makes_no_sense_poisons_and_is_not_written() {
    let world = two_tables();
    let before = world.disk.disk().content(&world.manifest()).clone();
    let refused = world.thread.run(world.install(edit(vec![remove(0, 0, 77)])));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(*world.disk.disk().content(&world.manifest()), before);
}

#[test]
fn what_replay_skips_is_durable_in_the_log_even_where_the_table_ends_before() {
    let world = World::new();
    first(&world);
    let mut edit = flush(1);
    edit.changes.push(flushed(0, 40));
    edit.seq = SeqNo(6);
    world.thread.run(world.install(edit)).unwrap();
    assert_eq!(world.log.durable(), world.log.published().position);
    assert_eq!(world.lineage.state().seq, SeqNo(40));
}

#[test]
fn a_long_manifest_is_replaced_by_one_that_says_the_same() {
    let world = two_tables();
    world.lineage.set_rotation_bytes(600);
    for seq in 10..200 {
        world.thread.run(world.install(edit(vec![flushed(0, seq)]))).unwrap();
        assert_eq!(recover(&world.disk.after_power_cut()).unwrap().unwrap().0, world.lineage.state());
    }
    world.lineage.settle().unwrap();
    let names = world.disk.list(Path::new(ROOT)).unwrap().unwrap();
    let manifests: Vec<_> = names.iter().filter(|entry| entry.name.starts_with("manifest")).collect();
    assert!(world.lineage.book().open.number > 3);
    assert_eq!(manifests.len(), 1, "{manifests:?}");
    assert!(manifests[0].bytes < 2_000);
    assert_eq!(world.unsettled_edits(), 0);
}

#[test]
fn a_manifest_that_cannot_be_replaced_on_a_full_disk_goes_on() {
    let world = two_tables();
    world.lineage.settle().unwrap();
    world.lineage.set_rotation_bytes(100);
    let room = world.disk.disk().used() + 400;
    world.disk.disk().room = Some(room);
    let mut done = 0;
    for seq in 10..20 {
        done += usize::from(world.thread.run(world.install(edit(vec![flushed(0, seq)]))).is_ok());
        world.thread.pass_ms(5);
    }
    assert!(done > 0 && world.health.check().is_ok());
    assert_eq!(recover(&world.disk.after_power_cut()).unwrap().unwrap().0, world.lineage.state());
}

#[test]
fn a_closed_manifest_says_so_and_takes_no_more_edits() {
    let world = two_tables();
    let (number, bytes) = world.lineage.close(mark(900)).unwrap();
    let (state, contents) = recover(&world.disk.after_power_cut()).unwrap().unwrap();
    assert_eq!((contents.closed, contents.end, contents.header.number), (Some(mark(900)), bytes, number));
    assert!(contents.unsettled.is_empty());
    assert_eq!(state, world.lineage.state());
    assert_eq!(world.thread.run(world.install(Edit::default())).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(world.lineage.close(mark(900)).unwrap(), (number, bytes));
    world.lineage.stop();
    world.thread.pass_ms(3);
}

#[test]
fn a_begin_after_another_removes_the_old_manifest_and_orphans_and_nothing_else() {
    let world = two_tables();
    let state = world.lineage.state();
    let strange = Path::new(ROOT).join("notes.txt");
    for path in [table_path(99), strange.clone(), Path::new(ROOT).join("CURRENT.new")] {
        world.disk.put(&path, vec![1]);
    }
    let old = world.manifest();
    let next = World::begin(world.disk.after_death(), Some(state.clone())).unwrap();
    let disk = next.disk.disk().clone();
    for (path, stays) in [(table_path(99), false), (old, false), (table_path(1), true), (strange, true)] {
        assert_eq!(disk.has(&path), stays, "{path:?}");
    }
    assert!(!disk.has(&Path::new(ROOT).join("CURRENT.new")));
    assert_eq!(recover(&next.disk.after_power_cut()).unwrap().unwrap().0, state);
}
