//! When the files of replaced tables go, how fast, and in which pieces.

use super::*;

/// The interval of [`World`], in milliseconds.
const INTERVAL_MS: usize = 100;

/// A world in which tables 1 to `count`, of `bytes` bytes each, were replaced by an edit that is settled by now.
fn replaced(count: u64, bytes: usize, piece_bytes: u64) -> World {
    let world = World::new().start();
    world.lineage.set_piece_bytes(piece_bytes);
    let tables = (1..=count).map(|id| (id, None)).collect();
    replace(&world, tables, bytes);
    world.lineage.settle().unwrap();
    world
}

fn handle(world: &World, id: u64, bytes: usize) -> Arc<Table> {
    world.tables.open(TableMeta { bytes: bytes as u64, ..table(id, "a", "z") })
}

/// Replaces tables; a handle that is given may have a reader.
fn replace(world: &World, tables: Vec<(u64, Option<Arc<Table>>)>, bytes: usize) {
    let mut inputs = Vec::new();
    for (id, shared) in tables {
        world.disk.put(&table_path(id), vec![7; bytes]);
        inputs.push(shared.unwrap_or_else(|| handle(world, id, bytes)));
    }
    world.thread.run(world.install_with(Edit::default(), inputs)).unwrap();
}

fn tables_left(world: &World) -> usize {
    world.disk.list(&Path::new(ROOT).join("tables")).unwrap().unwrap().len()
}

#[test]
fn what_may_go_goes_evenly_over_an_interval() {
    let world = replaced(20, 100, 1000);
    let mut left = vec![tables_left(&world)];
    for _ in 0..4 {
        world.thread.pass_ms(INTERVAL_MS / 4 + 1);
        left.push(tables_left(&world));
    }
    assert!(left[0] >= 17 && left[4] <= 1, "{left:?}");
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= 7), "{left:?}");
    world.thread.pass_ms(INTERVAL_MS / 10);
    assert_eq!(world.lineage.retained_bytes(), 0);
}

#[test]
fn what_waits_is_counted_and_goes_at_once_when_a_table_finds_no_room() {
    let world = replaced(20, 100, 1000);
    world.thread.pass_ms(10);
    let waits = tables_left(&world);
    assert!(waits > 10);
    assert_eq!(world.lineage.retained_bytes(), 100 * waits as u64);
    world.lineage.settle_for_space();
    world.thread.pass_ms(25);
    assert_eq!(tables_left(&world), 0);
}

#[test]
fn what_waits_goes_at_once_when_it_is_too_much_and_when_lineage_stops() {
    let world = replaced(20, 1000, 2000);
    world.thread.pass_ms(25);
    let left = tables_left(&world);
    assert!((1..=10).contains(&left), "{left} of 1000 bytes where 10 000 may be kept");
    world.lineage.stop();
    world.thread.pass_ms(25);
    assert_eq!(tables_left(&world), 0);
}

#[test]
fn a_large_file_is_cut_from_its_end_once_its_name_is_gone() {
    let world = replaced(1, 1000, 300);
    world.thread.pass_ms(2);
    assert!(!world.disk.disk().has(&table_path(1)));
    assert!(world.lineage.retained_bytes() > 0, "not all of it is gone");
    world.thread.pass_ms(INTERVAL_MS);
    let cuts: Vec<u64> = world.disk.disk().lengths.iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!((cuts, world.lineage.retained_bytes()), (vec![700, 400, 100], 0));
}

#[test]
fn a_file_with_another_name_is_not_cut() {
    let world = World::new().start();
    world.lineage.set_piece_bytes(300);
    let held = handle(&world, 1, 1000);
    replace(&world, vec![(1, Some(Arc::clone(&held)))], 1000);
    world.disk.disk().link(&table_path(1), Path::new("/copy/1.table"));
    drop(held);
    world.lineage.settle().unwrap();
    world.thread.pass_ms(INTERVAL_MS + 20);
    let disk = &mut *world.disk.disk();
    assert!(!disk.has(&table_path(1)) && disk.lengths.is_empty());
    assert_eq!(disk.content(Path::new("/copy/1.table")), &[7; 1000]);
}

#[test]
fn nothing_loses_its_name_while_a_checkpoint_is_made() {
    let world = World::new().start();
    let hold = world.lineage.hold_unlinks();
    replace(&world, vec![(1, None), (2, None)], 100);
    world.lineage.settle().unwrap();
    world.lineage.settle_for_space();
    world.thread.pass_ms(3 * INTERVAL_MS);
    assert_eq!((tables_left(&world), world.lineage.retained_bytes()), (2, 200));
    drop(hold);
    world.thread.pass_ms(INTERVAL_MS);
    assert_eq!(tables_left(&world), 0);
}

#[test]
fn a_poisoned_database_cuts_nothing_more() {
    let world = replaced(1, 1000, 100);
    world.thread.pass_ms(20);
    world.health.poison(Error::invalid_input("for the test"));
    let cuts = world.disk.disk().lengths.len();
    assert!((1..9).contains(&cuts));
    world.thread.pass_ms(2 * INTERVAL_MS);
    assert_eq!((world.disk.disk().lengths.len(), world.lineage.retained_bytes()), (cuts, 0));
}

#[test]
fn a_handle_is_let_go_before_its_edit_is_settled_and_its_file_is_not() {
    let world = World::new().start();
    let handle = handle(&world, 1, 100);
    let table = Arc::downgrade(&handle);
    replace(&world, vec![(1, Some(handle))], 100);
    world.thread.pass_ms(2);
    assert!(table.upgrade().is_none());
    assert!(world.disk.disk().has(&table_path(1)));
    assert_eq!(world.lineage.retained_bytes(), 100);
}

#[test]
fn outputs_of_a_refused_edit_go_with_their_last_reader() {
    let world = World::new().start();
    let read = handle(&world, 1, 100);
    world.disk.put(&table_path(1), vec![7; 100]);
    world.lineage.discard(vec![Handle::from(Arc::clone(&read))]);
    world.thread.pass_ms(2 * INTERVAL_MS);
    assert!(world.disk.disk().has(&table_path(1)), "a reader has it");
    drop(read);
    world.lineage.readers_left();
    world.thread.pass_ms(2 * INTERVAL_MS);
    assert!(!world.disk.disk().has(&table_path(1)));
    assert_eq!(world.lineage.retained_bytes(), 0);
}
