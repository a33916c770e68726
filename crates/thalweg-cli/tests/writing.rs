//! `put` and `remove`, and a second process at the same database.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Scratch, command, import, thalweg, thalweg_reading};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn put_and_remove_change_one_key() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    thalweg(&[&"put", &database, &"a\\x00", &"one\\n", &"--create", &"--escaped"]).ok();
    thalweg(&[&"put", &database, &"b", &"-2", &"--sync"]).ok();
    assert_eq!(thalweg(&[&"scan", &database, &"--escaped"]).ok(), "a\\x00\tone\\n\nb\t-2\n");
    thalweg(&[&"remove", &database, &"a\\0", &"--escaped"]).ok();
    thalweg(&[&"remove", &database, &"never there", &"--sync"]).ok();
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "b\t-2\n");
}

#[test]
fn a_creation_that_was_cut_off_goes_on_when_the_command_is_run_again() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    // What a kill leaves before the database is there: the more of these, the later.
    for name in ["log", "tables", "lost"] {
        std::fs::create_dir_all(database.join(name)).unwrap();
        for file in ["LOCK", "manifest-00000001", "CURRENT.new"] {
            std::fs::write(database.join(file), b"").unwrap();
        }
        thalweg(&[&"put", &database, &"k", &"v", &"--create"]).ok();
        assert_eq!(thalweg(&[&"get", &database, &"k"]).ok(), "v\n");
        std::fs::remove_dir_all(&database).unwrap();
    }
    // A database that has lost its CURRENT is damaged, and not begun.
    thalweg(&[&"put", &database, &"k", &"v", &"--create"]).ok();
    std::fs::remove_file(database.join("CURRENT")).unwrap();
    assert_eq!(thalweg(&[&"put", &database, &"k", &"v", &"--create"]).code, Some(3));
    // What is somebody else's is left alone.
    let foreign = scratch.path("foreign");
    std::fs::create_dir_all(foreign.join("log")).unwrap();
    std::fs::write(foreign.join("log/app.log"), b"text").unwrap();
    assert_eq!(thalweg(&[&"put", &foreign, &"k", &"v", &"--create"]).code, Some(2));
}

#[test]
fn a_value_from_standard_input_is_taken_as_it_is() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let value: Vec<u8> = (0..=255).collect();
    thalweg_reading(&[&"put", &database, &"bytes", &"-", &"--create"], &value).ok();
    assert_eq!(thalweg(&[&"get", &database, &"bytes", &"--raw"]).output, value);
    thalweg_reading(&[&"put", &database, &"no dash"], b"\0\r\n").ok();
    assert_eq!(thalweg(&[&"get", &database, &"no dash", &"--raw"]).output, b"\0\r\n");
}

#[test]
fn with_escaped_a_value_from_standard_input_is_escaped_text() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let value: Vec<u8> = (0..=255).chain(*b"\\x00\n").collect();
    thalweg_reading(&[&"put", &database, &"a", &"--create"], &value).ok();
    // What `get` prints, with the newline behind it, goes back in.
    let printed = thalweg(&[&"get", &database, &"a", &"--escaped"]);
    assert!(printed.ok().ends_with("\\n\n"), "{printed:?}");
    thalweg_reading(&[&"put", &database, &"b", &"--escaped"], &printed.output).ok();
    thalweg_reading(&[&"put", &database, &"c", &"--escaped"], printed.text().trim_end().as_bytes()).ok();
    for key in ["b", "c"] {
        assert_eq!(thalweg(&[&"get", &database, &key, &"--raw"]).output, value);
    }
    let bad = thalweg_reading(&[&"put", &database, &"b", &"--escaped"], b"a\\q");
    bad.fails(2, &["the value cannot be read", "there is no escape \\q"]);
}

#[test]
fn a_keyspace_is_created_only_where_that_was_said() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    thalweg(&[&"put", &database, &"k", &"1", &"--create", &"--keyspace", &"a"]).ok();
    let typo = thalweg(&[&"put", &database, &"k", &"2", &"--keyspace", &"b"]);
    typo.fails(1, &["there is no keyspace b", "thalweg keyspaces DB", "--create"]);
    let typo = thalweg_reading(&[&"import", &database, &"-", &"--keyspace", &"b"], b"k\t2\n");
    typo.fails(1, &["there is no keyspace b", "--create"]);
    assert_eq!(thalweg(&[&"keyspaces", &database]).ok(), "a\n");
    thalweg(&[&"put", &database, &"k", &"2", &"--keyspace", &"b", &"--create"]).ok();
    thalweg_reading(&[&"import", &database, &"-", &"--keyspace", &"c", &"--create"], b"k\t3\n").ok();
    assert_eq!(thalweg(&[&"get", &database, &"k", &"--keyspace", &"a"]).ok(), "1\n");
    assert_eq!(thalweg(&[&"get", &database, &"k", &"--keyspace", &"b"]).ok(), "2\n");
    assert_eq!(thalweg(&[&"get", &database, &"k", &"--keyspace", &"c"]).ok(), "3\n");
    thalweg(&[&"get", &database, &"k"]).fails(1, &["no keyspace named \"default\"", "thalweg keyspaces DB"]);
    thalweg(&[&"remove", &database, &"k", &"--keyspace", &"d"]).fails(1, &["no keyspace named \"d\""]);
}

#[test]
fn a_keyspace_is_dropped_when_told_twice() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, "k\t1\n");
    thalweg(&[&"put", &database, &"k", &"2", &"--keyspace", &"typo", &"--create"]).ok();
    thalweg(&[&"drop-keyspace", &database, &"typo"]).fails(2, &["keyspace typo has ", "--yes"]);
    assert_eq!(thalweg(&[&"keyspaces", &database]).ok(), "default\ntypo\n");
    let dropped = thalweg(&[&"drop-keyspace", &database, &"typo", &"--yes"]);
    assert!(dropped.ok().starts_with("dropped keyspace typo with "), "{dropped:?}");
    assert_eq!(thalweg(&[&"keyspaces", &database]).ok(), "default\n");
    thalweg(&[&"drop-keyspace", &database, &"typo", &"--yes"]).fails(1, &["no keyspace named \"typo\""]);
}

#[test]
fn many_keys_are_removed_by_prefix_range_and_list() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let lines: String = (0..5000).map(|n| format!("{n:05}\t{n}\n")).collect();
    import(&database, &lines);
    let counted = thalweg(&[&"remove", &database, &"--prefix", &"01"]);
    counted.fails(2, &["this is about 1,000 keys of keyspace default", "--yes"]);
    let removed = thalweg(&[&"remove", &database, &"--prefix", &"01", &"--yes"]);
    assert_eq!(removed.ok(), "removed 1,000 keys of keyspace default, durable\n");
    let removed = thalweg(&[&"remove", &database, &"--from", &"02500", &"--yes"]);
    assert_eq!(removed.ok(), "removed 2,500 keys of keyspace default, durable\n");
    // Half of what is left, as a list, while the one who writes it has the database open to read.
    let binary = env!("CARGO_BIN_EXE_thalweg");
    let pipe = format!(
        "{binary} scan {path} --keys-only | awk 'NR % 2' | {binary} remove {path} --keys-from -",
        path = database.display()
    );
    let run = std::process::Command::new("sh").args(["-c", &pipe]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stderr), "");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "removed 750 keys of keyspace default, durable\n");
    let left = thalweg(&[&"scan", &database, &"--keys-only"]);
    assert_eq!(left.ok().lines().count(), 750);
    assert!(left.ok().lines().all(|key| key.ends_with(['1', '3', '5', '7', '9'])), "{left:?}");
    thalweg(&[&"remove", &database]).fails(2, &["name keys", "--prefix"]);
    thalweg(&[&"remove", &database, &"00001", &"00003"]).ok();
    assert_eq!(thalweg(&[&"remove", &database, &"--all", &"--yes"]).ok().split(' ').nth(1), Some("748"));
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "");
}

#[test]
fn a_compaction_leaves_the_last_version_of_each_key() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let lines = |value: &str| (0..2000).map(|key| format!("k{key:04}\t{value}\n")).collect::<String>();
    for value in ["old", "new"] {
        thalweg_reading(&[&"import", &database, &"-"], lines(value).as_bytes()).ok();
    }
    thalweg(&[&"remove", &database, &"--from", &"k1000", &"--yes"]).ok();
    let told = thalweg(&[&"compact", &database, &"--to", &"k0500"]);
    assert!(told.ok().starts_with("compacted keyspace default in "), "{told:?}");
    assert!(told.ok().contains(" became 1 table ("), "{told:?}");
    thalweg(&[&"compact", &database]).ok();
    let stat: serde_json::Value = serde_json::from_str(thalweg(&[&"stat", &database, &"--json"]).ok()).unwrap();
    let levels = stat["keyspaces"][0]["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|level| level["entries"].as_u64().unwrap()).sum::<u64>(), 1000, "{stat}");
    assert_eq!(thalweg(&[&"get", &database, &"k0999"]).ok(), "new\n");

    thalweg(&[&"put", &database, &"a", &"1", &"--directory", &"7", &"--keyspace", &"files", &"--create"]).ok();
    thalweg(&[&"compact", &database, &"--keyspace", &"files"]).ok();
    let ranged = thalweg(&[&"compact", &database, &"--keyspace", &"files", &"--from", &"a"]);
    ranged.fails(2, &["directory keyspace", "compacted as a whole"]);
    assert_eq!(thalweg(&[&"compact", &database, &"--keyspace", &"none"]).code, Some(1));
    assert_eq!(thalweg(&[&"compact", &scratch.path("nowhere")]).code, Some(1));
}

#[test]
fn a_database_in_use_is_refused() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let mut importer = command(&[&"import", &database, &"-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    importer.stdin.as_mut().unwrap().write_all(b"a\t1\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let holder = format!("is open for writing in process {}", importer.id());
    thalweg(&[&"put", &database, &"k", &"v"]).fails(3, &[holder.as_str(), "wait until it ends", "thalweg stat DB"]);
    thalweg(&[&"get", &database, &"a"]).fails(3, &[holder.as_str()]);
    drop(importer.stdin.take());
    assert!(importer.wait().unwrap().success());
    assert_eq!(thalweg(&[&"get", &database, &"a"]).ok(), "1\n");
}

#[test]
fn stat_answers_beside_a_process_that_writes() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let mut importer = command(&[&"import", &database, &"-", &"--batch", &"1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    importer.stdin.as_mut().unwrap().write_all(b"a\t1\nb\t22\n").unwrap();
    let told = || {
        let run = thalweg(&[&"stat", &database, &"--json"]);
        let told: serde_json::Value = serde_json::from_str(run.text()).unwrap_or_default();
        (run.code == Some(0) && told["user_written_bytes"] == 5).then_some(told)
    };
    let since = Instant::now();
    let told = loop {
        match told() {
            Some(told) => break told,
            None => assert!(since.elapsed() < Duration::from_secs(20), "nothing was said"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(told["running"]["process"], importer.id());
    assert_eq!(told["running"]["is_alive"], true);
    assert!(told["running"]["age_ms"].as_u64().unwrap() < 20_000, "{told}");
    assert_eq!(told["keyspaces"][0]["name"], "default");
    let text = thalweg(&[&"stat", &database]);
    assert!(text.ok().starts_with(&format!("as process {} said ", importer.id())), "{text:?}");
    // While nothing is written nothing is said, once what was written is settled.
    let written = || std::fs::metadata(database.join("STATUS")).unwrap().modified().unwrap();
    let since = Instant::now();
    let mut quiet = written();
    loop {
        std::thread::sleep(Duration::from_secs(3));
        if std::mem::replace(&mut quiet, written()) == quiet {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "an idle database goes on writing");
    }
    // Killed: what it said is of nobody who has the database open, and does not get in the way.
    importer.kill().unwrap();
    importer.wait().unwrap();
    let after: serde_json::Value = serde_json::from_str(thalweg(&[&"stat", &database, &"--json"]).ok()).unwrap();
    assert_eq!(after["running"], serde_json::Value::Null);
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nb\t22\n");
    assert!(thalweg(&[&"check", &database]).ok().ends_with(": no faults\n"));
}
