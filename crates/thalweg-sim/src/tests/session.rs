//! Assertions of what the lives of fixed plans reach.

use super::*;

/// The events that a life has reached in the directory keyspace.
#[derive(Debug, Default)]
struct Reached {
    /// Levels with packs, at most.
    levels: usize,
    /// Directories with more than two spans.
    is_scattered: bool,
    is_cleared: bool,
    has_extents: bool,
}

/// Whether a pack has a value of more than 2 KiB: each 16 bytes of a value end alike.
fn has_extents(bytes: &[u8]) -> bool {
    let repeats = |at: usize| (0..130).all(|piece| bytes[at + piece * 16..].starts_with(b"thalweg!"));
    bytes.ends_with(b"thalwegP") && (0..bytes.len().saturating_sub(130 * 16)).any(repeats)
}

#[test]
fn a_life_of_the_plan_of_directories_reaches_levels_extents_and_a_clear() {
    for operations in [70, 120] {
        let mut session = Session::new(Plan::directories(operations), 0, false);
        session.begin_phase(None);
        let Some(opened) = session.open() else { panic!("the first open failed") };
        let reached: Arc<std::sync::Mutex<Reached>> = Arc::default();
        let (seen, db, disk) = (Arc::clone(&reached), Database::clone(&opened.db), session.disk());
        session.begin_phase(Some(Box::new(move |_| {
            let statistics = db.statistics();
            let Some(files) = statistics.keyspaces.iter().find(|keyspace| keyspace.name == FILES) else { return };
            let Some(index) = &files.directories else { return };
            let levels = files.levels.iter().filter(|level| level.tables > 0).count();
            let Ok(mut seen) = seen.lock() else { return };
            seen.is_cleared |= seen.levels >= 3 && levels == 0;
            seen.levels = seen.levels.max(levels);
            seen.is_scattered |= index.spans > 2 * index.directories;
            let files = disk.files().into_iter().filter(|_| !seen.has_extents).collect::<Vec<_>>();
            seen.has_extents |= files.iter().any(|(path, _)| disk.read_file(path).is_some_and(|f| has_extents(&f)));
        })));
        session.run_clients(&opened);
        session.begin_phase(None);
        let Ok(reached) = reached.lock() else { panic!("the hook panicked") };
        let all = reached.levels >= 3 && reached.is_scattered && reached.is_cleared && reached.has_extents;
        assert!(all, "{operations} operations: {reached:?}");
        session.farewell(opened, Farewell::Close);
        session.finish();
    }
}

#[test]
fn a_life_of_the_fixed_plan_replaces_its_manifest() {
    let mut session = Session::new(Plan::fixed(120), 0, false);
    session.begin_phase(None);
    let Some(opened) = session.open() else { panic!("the first open failed") };
    session.run_clients(&opened);
    session.farewell(opened, Farewell::Close);
    // An open begins one manifest; a higher number is a replacement.
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("manifest-")?.parse::<u64>().ok();
    let numbers: Vec<u64> = session.disk().files().iter().filter_map(|(path, _)| number(path)).collect();
    assert!(numbers.iter().any(|number| *number > 1), "{numbers:?}");
    session.finish();
}
