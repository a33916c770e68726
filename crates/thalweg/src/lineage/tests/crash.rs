//! The power goes, or the process dies, before every single step of a life: creation, edits, settling, a new manifest,
//! close, the next open.

use super::*;

/// The knowledge of a caller before the power cut.
#[derive(Default)]
struct Told {
    /// A state that is durable.
    durable: Option<State>,
    /// All states there ever were.
    states: Vec<State>,
    is_closed: bool,
}

/// One life, until the power goes.
fn live(disk: &Fake, backend: DurabilityBackend) -> Told {
    let mut told = Told { states: vec![State::default()], ..Told::default() };
    let Ok(world) = World::begin_as(backend, disk.clone(), None) else { return told };
    let world = world.start();
    told.durable = Some(State::default());
    world.lineage.set_rotation_bytes(700);
    let mut edits = vec![edit(vec![create(1, &["m"])])];
    let mut live = Vec::new();
    for id in 1..=12 {
        live.push(id);
        edits.push(edit(vec![add(1, 0, table(id, "m", "z")), flushed(1, id)]));
        if id % 4 == 0 {
            let mut changes: Vec<_> = live.drain(..).map(|id| remove(1, 0, id)).collect();
            if id > 4 {
                changes.push(remove(1, 1, 96 + id));
            }
            changes.push(add(1, 1, table(100 + id, "m", "z")));
            edits.push(edit(changes));
        }
    }
    for (number, edit) in edits.into_iter().enumerate() {
        let mut next = told.states.last().unwrap().clone();
        next.apply(&edit, EditId(next.edit.0 + 1)).unwrap();
        told.states.push(next.clone());
        if world.thread.run(world.install(edit)).is_err() {
            return told;
        }
        if backend == DurabilityBackend::SyncEachFile {
            told.durable = Some(next.clone());
        }
        if number % 5 == 3 {
            if world.lineage.settle().is_err() {
                return told;
            }
            told.durable = Some(next);
        }
        world.thread.pass_ms(number * 7 % 40);
    }
    told.is_closed = world.lineage.close(mark(5)).is_ok();
    world.lineage.stop();
    told
}

fn found_is_right(disk: &Fake, told: &Told, what: &str) -> Option<State> {
    let found = recover(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let Some((mut state, contents)) = found else {
        assert!(told.durable.is_none(), "{what}: the database is gone");
        return None;
    };
    for meta in state.tables() {
        let bytes = disk.file_bytes(&table_path(meta.id.0)).unwrap();
        assert_eq!(bytes, Some(meta.bytes), "{what}: table {} is gone", meta.id);
    }
    let durable = told.durable.as_ref().map_or(EditId(0), |state| state.edit);
    assert!(state.edit >= durable, "{what}: edit {} after {durable} was told durable", state.edit);
    assert_eq!(contents.closed.is_some(), told.is_closed || contents.closed.is_some());
    let last = contents.last(Path::new("manifest")).unwrap().edit;
    // Numbers of edits, and ids of files, that are left behind are not given again either.
    let is_found = |expected: &&State| {
        let State { keyspaces, next_keyspace, log_start, .. } = expected;
        (keyspaces, next_keyspace, log_start) == (&state.keyspaces, &state.next_keyspace, &state.log_start)
    };
    let possible = &told.states[durable.0 as usize..=last.0 as usize];
    let expected = possible.iter().rev().find(is_found);
    let expected = expected.unwrap_or_else(|| panic!("{what}: {state:?} is none of {possible:?}"));
    state.next_table = expected.next_table;
    Some(state)
}

fn disk() -> Fake {
    let disk = Fake::default();
    disk.create_directory(Path::new(ROOT)).unwrap();
    disk
}

#[test]
fn nothing_told_is_lost_wherever_the_power_goes() {
    for backend in [DurabilityBackend::SyncEachFile, DurabilityBackend::SettleRounds] {
        let whole = disk();
        assert!(live(&whole, backend).is_closed);
        let steps = whole.disk().steps;
        assert!(steps > 100, "{steps}");
        for until in 1..=steps {
            let disk = disk();
            disk.disk().power_until = Some(until);
            let told = live(&disk, backend);
            found_is_right(&disk.after_power_cut(), &told, &format!("{backend:?}: power cut before step {until}"));
            found_is_right(&disk.after_death(), &told, &format!("{backend:?}: death before step {until}"));
        }
    }
}

#[test]
fn an_open_that_is_cut_off_at_any_step_loses_nothing() {
    for cut in [40, 80, 120, 140] {
        let first = disk();
        first.disk().power_until = Some(cut);
        let told = live(&first, DurabilityBackend::SettleRounds);
        let left = first.after_power_cut();
        let Some(state) = found_is_right(&left, &told, "the first life") else { continue };
        let from = left.disk().steps;
        for until in from.. {
            let second = left.after_death();
            second.disk().power_until = Some(until);
            let begun = World::begin(second.clone(), Some(state.clone())).is_ok();
            let (mut found, _) = recover(&second.after_power_cut()).unwrap().unwrap();
            found.next_table = state.next_table;
            assert_eq!(found, state, "cut {cut}, then before step {until}");
            if begun && second.disk().steps < until {
                break;
            }
        }
    }
}
