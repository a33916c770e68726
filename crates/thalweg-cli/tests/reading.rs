//! `get`, `scan`, `stat`, `check`, `dump`, `keyspaces`: what they print, and that they change nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Scratch, command, files, import, thalweg};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const LINES: &str = "a/1\tone\na/2\ttwo\nb/1\tthree\nc\tfour\n";

#[test]
fn get_prints_the_value_and_a_missing_key_is_not_found() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, LINES);
    assert_eq!(thalweg(&[&"get", &database, &"a/2"]).ok(), "two\n");
    assert_eq!(thalweg(&[&"get", &database, &"a/2", &"--raw"]).ok(), "two");
    let missing = thalweg(&[&"get", &database, &"a\\t3", &"--escaped"]);
    missing.fails(1, &["there is no key a\\t3 in keyspace default"]);
    assert!(missing.output.is_empty());
}

#[test]
fn text_with_backslashes_goes_in_and_out_as_it_stands() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let name = "back\\slash";
    thalweg(&[&"put", &database, &"C:\\temp", &"D:\\new\\x00", &"--create", &"--keyspace", &name]).ok();
    assert_eq!(thalweg(&[&"keyspaces", &database]).ok(), "back\\slash\n");
    assert_eq!(thalweg(&[&"get", &database, &"C:\\temp", &"--keyspace", &name]).ok(), "D:\\new\\x00\n");
    assert_eq!(thalweg(&[&"scan", &database, &"--keyspace", &name]).ok(), "C:\\temp\tD:\\new\\x00\n");
    // With --escaped, what is printed goes back in; names of keyspaces, too.
    let escaped = thalweg(&[&"keyspaces", &database, &"--escaped"]);
    let name = escaped.ok().trim_end();
    let scan = thalweg(&[&"scan", &database, &"--keyspace", &name, &"--escaped", &"--prefix", &"C:\\\\"]);
    assert_eq!(scan.ok(), "C:\\\\temp\tD:\\\\new\\\\x00\n");
    thalweg(&[&"remove", &database, &"C:\\temp", &"--keyspace", &"back\\slash"]).ok();
    assert_eq!(thalweg(&[&"scan", &database, &"--keyspace", &"back\\slash"]).ok(), "");
}

#[test]
fn bytes_that_are_no_text_are_escaped_and_a_note_says_so() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    thalweg(&[&"put", &database, &"a\\xff", &"\\x1b[31m", &"--create", &"--escaped"]).ok();
    thalweg(&[&"put", &database, &"b", &"two\nlines"]).ok();
    let scan = thalweg(&[&"scan", &database]);
    assert_eq!((scan.code, scan.text()), (Some(0), "a\\xff\t\\x1b[31m\nb\ttwo\\nlines\n"));
    assert_eq!(scan.errors.lines().count(), 1, "{scan:?}");
    assert!(scan.errors.contains("--escaped or --jsonl"), "{scan:?}");
    assert_eq!(thalweg(&[&"scan", &database, &"--escaped"]).ok(), scan.text());
    assert_eq!(thalweg(&[&"get", &database, &"b"]).ok(), "two\nlines\n");
}

#[test]
fn scan_takes_a_prefix_bounds_a_limit_and_a_direction() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, LINES);
    let scan = |options: &[&str]| {
        let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"scan", &database, &"--keys-only"];
        arguments.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
        thalweg(&arguments).ok().lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(scan(&[]), "a/1 a/2 b/1 c");
    assert_eq!(scan(&["--prefix", "a/"]), "a/1 a/2");
    assert_eq!(scan(&["--prefix", "a/", "--reverse"]), "a/2 a/1");
    assert_eq!(scan(&["--from", "a/2", "--to", "c"]), "a/2 b/1");
    assert_eq!(scan(&["--from", "c", "--to", "c"]), "");
    assert_eq!(scan(&["--reverse", "--limit", "1"]), "c");
    assert_eq!(scan(&["--limit", "0"]), "");
}

#[test]
fn a_reader_that_goes_away_ends_the_scan_in_silence() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let lines: String = (0..100_000).map(|n| format!("key{n:06}\tvalue\n")).collect();
    import(&database, &lines);
    let mut child = command(&[&"scan", &database]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "key000000\tvalue\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn stat_check_and_keyspaces_tell_of_the_database() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, LINES);
    command::thalweg_reading(&[&"import", &database, &"-", &"--keyspace", &"other", &"--create"], b"x\ty\n").ok();
    assert_eq!(thalweg(&[&"keyspaces", &database]).ok(), "default\nother\n");
    let statistics: serde_json::Value = serde_json::from_str(thalweg(&[&"stat", &database, &"--json"]).ok()).unwrap();
    assert_eq!(statistics["keyspaces"][1]["name"], "other");
    let text = thalweg(&[&"stat", &database, &"--levels"]);
    assert!(text.ok().contains("keyspace default (1 partition)\n"), "{text:?}");
    assert!(!text.ok().contains('\x1b'), "colours in a pipe: {text:?}");
    let one = thalweg(&[&"stat", &database, &"--keyspace", &"other"]);
    assert!(!one.ok().contains("keyspace default"), "{one:?}");
    assert!(thalweg(&[&"check", &database]).ok().ends_with(": no faults\n"));
}

#[test]
fn every_file_with_data_can_be_dumped() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let lines: String = (0..30_000).map(|n| format!("{n:08}\t{:0100}\n", n * 7)).collect();
    let small = [&"import" as &dyn AsRef<std::ffi::OsStr>, &database, &"-", &"--memtable-mib", &"1"];
    command::thalweg_reading(&small, lines.as_bytes()).ok();
    let mut kinds = [false; 3];
    for (path, _) in files(&database) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let kind = [name.ends_with(".log"), name.starts_with("manifest-"), name.ends_with(".table")];
        if kind.contains(&true) {
            assert!(!thalweg(&[&"dump", &path]).ok().is_empty(), "{name}");
        }
        kinds.iter_mut().zip(kind).for_each(|(seen, is)| *seen |= is);
    }
    assert_eq!(kinds, [true; 3], "log, manifest, table");
}

#[test]
fn reading_changes_no_file() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, LINES);
    let contents =
        || -> Vec<_> { files(&database).into_iter().map(|(path, _)| (std::fs::read(&path).unwrap(), path)).collect() };
    let before = contents();
    thalweg(&[&"get", &database, &"a/1"]).ok();
    thalweg(&[&"scan", &database]).ok();
    thalweg(&[&"stat", &database]).ok();
    thalweg(&[&"check", &database]).ok();
    thalweg(&[&"keyspaces", &database]).ok();
    assert!(contents() == before, "a reading command changed a file");
}

#[test]
fn damage_is_found_by_check_with_its_place() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let lines: String = (0..30_000).map(|n| format!("{n:08}\t{:0100}\n", n * 7)).collect();
    let small = [&"import" as &dyn AsRef<std::ffi::OsStr>, &database, &"-", &"--memtable-mib", &"1"];
    command::thalweg_reading(&small, lines.as_bytes()).ok();
    let table =
        files(&database).into_iter().map(|(path, _)| path).find(|path| path.extension().is_some_and(|e| e == "table"));
    let table = table.expect("no table");
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let run = thalweg(&[&"check", &database]);
    assert_eq!((run.code, run.errors.as_str()), (Some(3), ""), "{run:?}");
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    let first = run.text().lines().next().unwrap();
    assert!(first.contains(&name) && first.contains("damaged at offset"), "{run:?}");
    assert!(run.text().lines().last().unwrap().ends_with(" fault") || run.text().ends_with(" faults\n"), "{run:?}");
    thalweg(&[&"scan", &database]).fails(3, &[&name, "thalweg check DB"]);
}

#[test]
fn entries_of_directories_are_put_and_removed() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let run = |words: &[&str]| {
        let (command, rest) = words.split_first().unwrap();
        let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![command, &database];
        arguments.extend(rest.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
        thalweg(&[&arguments[..], &[&"--keyspace", &"files"]].concat())
    };
    let put = |directory: &str, name: &str| run(&["put", name, "644", "--directory", directory, "--create"]);
    let names = |directory: &str| {
        let scan = run(&["scan", "--directory", directory, "--keys-only"]);
        let mut names: Vec<String> = scan.ok().lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    for name in ["a", "b", "c", "d"] {
        put("7", name).ok();
    }
    put("8", "a").ok();
    run(&["put", "key", "value"]).fails(2, &["\"files\" is a directory keyspace"]);
    run(&["remove", "a", "missing", "--directory", "7"]).ok();
    assert_eq!(names("7"), ["b", "c", "d"]);
    let list = scratch.path("list");
    std::fs::write(&list, "b\n").unwrap();
    run(&["remove", "--directory", "7", "--keys-from", list.to_str().unwrap()]).ok();
    run(&["remove", "--directory", "7", "--all"]).fails(2, &["about 2 keys of directory 7 of keyspace files", "--yes"]);
    assert_eq!(names("7"), ["c", "d"]);
    let removed = run(&["remove", "--directory", "7", "--all", "--yes"]);
    assert_eq!(removed.ok(), "removed 2 keys of keyspace files, durable\n");
    assert_eq!((names("7").len(), names("8")), (0, vec!["a".to_owned()]));
    let run = run(&["remove", "--directory", "7", "--prefix", "x"]);
    assert!(run.code == Some(2) && run.errors.contains("cannot be used with"), "{run:?}");
}

#[test]
fn directories_are_imported_listed_and_read() {
    let scratch = Scratch::new();
    let (database, file) = (scratch.path("db"), scratch.path("entries"));
    std::fs::write(&file, "1\tsrc\tdirectory 7\n7\tmain.rs\t644\n7\tlib.rs\t600 of a user\n").unwrap();
    thalweg(&[&"import", &database, &file, &"--directory", &"--keyspace", &"files"]).ok();
    let get =
        |arguments: &[&dyn AsRef<std::ffi::OsStr>]| thalweg(&[&[&"get" as _, &database as _], arguments].concat());
    assert_eq!(get(&[&"main.rs", &"--directory", &"7", &"--keyspace", &"files"]).ok(), "644\n");
    let missing = get(&[&"src", &"--directory", &"7", &"--keyspace", &"files"]);
    missing.fails(1, &["there is no key src in directory 7 of keyspace files"]);
    let scan = thalweg(&[&"scan", &database, &"--directory", &"7", &"--keyspace", &"files"]);
    let mut lines: Vec<&str> = scan.ok().lines().collect();
    lines.sort();
    assert_eq!(lines, ["lib.rs\t600 of a user", "main.rs\t644"]);
    assert_eq!(thalweg(&[&"scan", &database, &"--directory", &"8", &"--keyspace", &"files"]).ok(), "");
    thalweg(&[&"check", &database]).ok();
}
