//! A database with a fast tier in a directory: commands keep the tier, find it where it was moved, or say that they
//! empty it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Scratch, thalweg};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use thalweg::{Database, FastTier};

/// Held by each test. Between its fork and its exec, a command that the other test starts has the lock of the database
/// that this test had open.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A database whose entries are in a fast tier.
fn tiered(root: &Path, tier: &Path) {
    let builder = Database::builder(root).memtable_bytes(64 << 10);
    let database = builder.fast_tier(FastTier::Directory(tier.to_path_buf()), 64 << 20).open().unwrap();
    let keyspace = database.keyspace("default").unwrap();
    for number in 0..3_000u32 {
        keyspace.insert(number.to_string(), [b'v'; 100]).unwrap();
    }
    drop(keyspace);
    database.close().unwrap();
}

/// Files of fast tables in a directory.
fn fast_tables(tier: &Path) -> usize {
    let names = std::fs::read_dir(tier).unwrap().flatten();
    names.filter(|name| name.file_name().to_str().unwrap().starts_with(|digit: char| digit.is_ascii_digit())).count()
}

#[test]
fn a_command_that_names_the_tier_keeps_it_also_where_it_was_moved() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let (root, tier, moved) = (scratch.path("db"), scratch.path("tier"), scratch.path("moved"));
    tiered(&root, &tier);
    assert!(fast_tables(&tier) > 0);
    thalweg(&[&"put", &root, &"k", &"1", &"--fast-tier", &tier]).ok();
    assert!(fast_tables(&tier) > 0 && root.join("FAST").exists());
    let named = std::fs::read(root.join("FAST")).unwrap();
    std::fs::write(root.join("FAST"), "damaged").unwrap();
    let checked = String::from_utf8(thalweg(&[&"check", &root]).output).unwrap();
    assert!(checked.contains("of a fast tier that was not found"), "{checked}");
    std::fs::write(root.join("FAST"), named).unwrap();

    std::fs::rename(&tier, &moved).unwrap();
    for verb in [&["get", "k"][..], &["put", "k", "2"], &["scan"], &["stat"]] {
        let mut line: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&verb[0], &root];
        line.extend(verb[1..].iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
        thalweg(&line).fails(3, &["OWNER", "no such file", "--fast-tier DIR"]);
    }
    let lost = thalweg(&[&"check", &root]);
    assert_eq!(lost.code, Some(3), "{lost:?}");
    assert_eq!(thalweg(&[&"get", &root, &"k", &"--fast-tier", &moved]).ok(), "1\n");
    let drawn = thalweg(&[&"stat", &root, &"--levels", &"--fast-tier", &moved]);
    assert!(drawn.ok().contains("fast tier: ") && drawn.ok().contains("table"), "{drawn:?}");
    let checked = thalweg(&[&"check", &root, &"--fast-tier", &moved]);
    assert!(checked.ok().contains("no faults"), "{checked:?}");
    thalweg(&[&"put", &root, &"k", &"2", &"--fast-tier", &moved]).ok();
    // From then on the database knows the new place.
    assert_eq!(thalweg(&[&"get", &root, &"k"]).ok(), "2\n");
    thalweg(&[&"get", &root, &"k", &"--fast-tier", &tier]).fails(3, &["cannot list", "tier"]);
    std::fs::remove_file(moved.join("OWNER")).unwrap();
    std::fs::create_dir(moved.join("OWNER")).unwrap();
    thalweg(&[&"get", &root, &"k"]).fails(3, &["OWNER", "expected a file, found a directory"]);
}

#[test]
fn a_command_that_does_not_name_it_says_that_it_empties_it() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new();
    let (root, tier) = (scratch.path("db"), scratch.path("tier"));
    tiered(&root, &tier);
    let put = thalweg(&[&"put", &root, &"k", &"1"]);
    assert!(put.code == Some(0) && put.errors.contains("emptied") && put.errors.contains("--fast-tier"), "{put:?}");
    let compacted = thalweg(&[&"compact", &root]);
    assert_eq!(compacted.code, Some(0), "{compacted:?}");
    assert_eq!(fast_tables(&tier), 0);
    // Nothing is there any more that could be emptied.
    thalweg(&[&"put", &root, &"k", &"2"]).ok();
    assert_eq!(thalweg(&[&"get", &root, &"k"]).ok(), "2\n");
    let names = thalweg(&[&"get", &root, &"17"]);
    assert_eq!(names.output.len(), 101, "{names:?}");
}
