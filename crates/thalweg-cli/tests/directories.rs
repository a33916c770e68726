//! Directory keyspaces: imported in every format, listed whole, and imported again byte by byte.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Run, Scratch, files, import, thalweg, thalweg_reading};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Runs a subcommand on keyspace `files` of a database.
fn run(database: &Path, words: &[&str], input: &[u8]) -> Run {
    let (command, rest) = words.split_first().unwrap();
    let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![command, &database];
    arguments.extend(rest.iter().map(|word| word as &dyn AsRef<OsStr>));
    thalweg_reading(&[&arguments[..], &[&"--keyspace", &"files"]].concat(), input)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    lines
}

#[test]
fn a_directory_keyspace_goes_through_scan_and_import_unchanged() {
    let scratch = Scratch::new();
    let (first, plain, json) = (scratch.path("a"), scratch.path("b"), scratch.path("c"));
    // Every byte in names and values; directories from 0 to the greatest; a value that lies in an extent.
    let mut lines: String =
        (0..=255).map(|byte| format!("{}\tn\\x{byte:02x}\\\\\t\\xff\\t\\n\\x{byte:02x}\n", byte % 9)).collect();
    lines.push_str(&format!("{}\tlast\t{}\n", u64::MAX, "\\xfe".repeat(5000)));
    run(&first, &["import", "-", "--directory", "--escaped"], lines.as_bytes()).ok();
    // One directory loses all its entries, one is written again into the memtable.
    run(&first, &["remove", "--directory", "4", "--all", "--yes"], b"").ok();
    run(&first, &["put", "again", "1", "--directory", "3"], b"").ok();
    let printed = run(&first, &["scan", "--escaped"], b"");
    assert_eq!(printed.ok().lines().count(), 257 - 28 + 1);
    let printed_json = run(&first, &["scan", "--jsonl"], b"");
    run(&plain, &["import", "-", "--directory", "--escaped"], &printed.output).ok();
    run(&json, &["import", "-", "--directory", "--jsonl"], &printed_json.output).ok();
    for copy in [&plain, &json] {
        assert_eq!(sorted(run(copy, &["scan", "--escaped"], b"").ok()), sorted(printed.text()));
    }
    let value = run(&json, &["get", "n\\x00\\\\", "--raw", "--escaped", "--directory", "0"], b"");
    assert_eq!(value.output, b"\xff\t\n\0");
}

#[test]
fn a_directory_keyspace_is_listed_whole_or_by_number() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let fields = ["--jsonl", "--directory", "--directory-field", "parent", "--key-field", "name"];
    let lines = b"{\"parent\":7,\"name\":\"a\",\"value\":1}\n{\"value\":2,\"name\":\"b\",\"parent\":\"12\"}\n";
    run(&database, &[&["import", "-"], &fields[..]].concat(), lines).ok();
    let scan = |options: &[&str]| run(&database, &[&["scan"], options].concat(), b"");
    assert_eq!(scan(&[]).ok(), "7\ta\t1\n12\tb\t2\n");
    assert_eq!(scan(&["--keys-only", "--limit", "1"]).ok(), "7\ta\n");
    assert_eq!(scan(&["--jsonl", "--limit", "1"]).ok(), "{\"directory\":7,\"key\":\"a\",\"value\":\"1\"}\n");
    assert_eq!(scan(&["--directory", "12"]).ok(), "b\t2\n");
    assert_eq!(scan(&["--directories"]).ok(), "7\n12\n");
    assert_eq!(scan(&["--directories", "--limit", "1"]).ok(), "7\n");
    assert_eq!(scan(&["--limit", "0"]).ok(), "");
    for refused in [&["--prefix", "a"][..], &["--from", "a"], &["--reverse"]] {
        scan(refused).fails(2, &["directory keyspaces have no ranges", "--directory"]);
    }
    import(&scratch.path("ordered"), "a\t1\n");
    thalweg(&[&"scan", &scratch.path("ordered"), &"--directories"]).fails(2, &["is no directory keyspace"]);
}

#[test]
fn a_bad_first_line_of_a_directory_leaves_no_database() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let import = |options: &[&str], line: &str| {
        run(&database, &[&["import", "-", "--directory"], options].concat(), format!("{line}\n").as_bytes())
    };
    let whole = "a line must be directory, tab, name, tab, value";
    for (options, line, why) in [
        (&[][..], "word", ["line 1: there is no tab; with --directory", whole]),
        (&[], "1\tname", ["line 1: there is only one tab; with --directory", whole]),
        (&[], "x\tname\tvalue", ["line 1: \"x\" is no number of a directory", "from 0 to 18446744073709551615"]),
        (&[], "1\t\tvalue", ["line 1: the name is empty", "--skip-bad"]),
        (&["--escaped"], "1\tname\\\tvalue", ["line 1: a backslash ends the text", "--skip-bad"]),
        (&["--jsonl"], "{\"key\":\"name\",\"value\":1}", ["line 1: there is no field \"directory\"", "--skip-bad"]),
    ] {
        let run = import(options, line);
        run.fails(3, &["standard input, ", why[0], why[1], "nothing was imported", "not created", "mend this line"]);
        assert!(!database.exists(), "{line:?}");
    }
    import(&[], "1\tname\tvalue").ok();
    import(&[], "word").fails(3, &["line 1: there is no tab", "0 lines are in"]);
    import(&["--skip-bad"], "word\n1\tother\tvalue");
    assert_eq!(run(&database, &["scan", "--keys-only"], b"").ok().lines().count(), 2);
}

/// A database with a pack of 5 directories, and the path of the pack.
fn with_a_pack(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let database = scratch.path("db");
    import(&database, "a\t1\n");
    let lines: String = (0..1000).map(|n| format!("{}\tname {n}\t{n}\n", n % 5)).collect();
    run(&database, &["import", "-", "--directory", "--create"], lines.as_bytes()).ok();
    let is_pack = |path: &PathBuf| std::fs::read(path).unwrap().ends_with(b"thalwegP");
    let pack = files(&database.join("tables")).into_iter().map(|(path, _)| path).find(is_pack).unwrap();
    (database, pack)
}

#[test]
fn the_kind_of_a_keyspace_is_shown() {
    let scratch = Scratch::new();
    let (database, _) = with_a_pack(&scratch);
    assert_eq!(thalweg(&[&"keyspaces", &database]).ok(), "default\nfiles\tdirectory\n");
    let statistics: serde_json::Value = serde_json::from_str(thalweg(&[&"stat", &database, &"--json"]).ok()).unwrap();
    let kinds: Vec<_> = statistics["keyspaces"].as_array().unwrap().iter().map(|found| found["kind"].clone()).collect();
    assert_eq!(kinds, ["ordered", "directory"]);
}

#[test]
fn a_truncated_pack_is_one_fault() {
    let scratch = Scratch::new();
    let (database, pack) = with_a_pack(&scratch);
    let whole = std::fs::read(&pack).unwrap();
    std::fs::write(&pack, &whole[..whole.len() - 100]).unwrap();
    let check = thalweg(&[&"check", &database]);
    assert_eq!(check.code, Some(3), "{check:?}");
    assert_eq!(check.text().lines().count(), 2, "{check:?}");
    assert!(check.text().ends_with(": 1 fault\n"), "{check:?}");
    thalweg(&[&"get", &database, &"a"]).fails(3, &["expected a table of", "thalweg check DB", "restore the file"]);
}

#[test]
fn stat_names_the_damaged_contents_of_a_pack_and_shows_the_rest() {
    let scratch = Scratch::new();
    let (database, pack) = with_a_pack(&scratch);
    let mut bytes = std::fs::read(&pack).unwrap();
    // The footer has the offset of the contents.
    let footer = bytes.len() - 72;
    let contents = u64::from_le_bytes(bytes[footer + 8..footer + 16].try_into().unwrap()) as usize;
    bytes[contents + 20] ^= 1;
    std::fs::write(&pack, &bytes).unwrap();
    let stat = thalweg(&[&"stat", &database]);
    let name = pack.file_name().unwrap().to_str().unwrap();
    let line = stat.ok().lines().find(|line| line.contains("damaged pack: ")).unwrap();
    assert!(line.contains(name) && line.contains(&format!("at offset {contents}")), "{stat:?}");
    assert!(stat.text().contains("\nkeyspace default (") || stat.text().starts_with("keyspace default ("), "{stat:?}");
    assert!(stat.text().contains("1,000"), "the entries of the pack: {stat:?}");
    let json: serde_json::Value = serde_json::from_str(thalweg(&[&"stat", &database, &"--json"]).ok()).unwrap();
    assert!(json["keyspaces"][1]["directories"]["damage"].as_str().unwrap().contains(name), "{json}");
    assert_eq!(thalweg(&[&"get", &database, &"a"]).ok(), "1\n");
    assert_eq!(thalweg(&[&"keyspaces", &database]).ok(), "default\nfiles\tdirectory\n");
    for options in [&["scan"][..], &["scan", "--directories"], &["get", "name 1", "--directory", "1"]] {
        run(&database, options, b"").fails(3, &[name, "is damaged at offset", "thalweg check DB"]);
    }
}
