//! `thalweg import`: formats, bad lines, batches, signals.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Scratch, command, thalweg, thalweg_reading};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_file_and_standard_input_give_the_same() {
    let scratch = Scratch::new("import");
    let lines: String = (0..5000).map(|n| format!("key{n:05}\tvalue {n}\n")).collect();
    std::fs::write(scratch.path("lines"), &lines).unwrap();
    let (from_file, from_input) = (scratch.path("a"), scratch.path("b"));
    let summary = thalweg(&[&"import", &from_file, &scratch.path("lines"), &"--batch", &"7"]);
    assert!(summary.ok().starts_with("imported 5,000 lines ("), "{summary:?}");
    thalweg_reading(&[&"import", &from_input, &"-", &"--sync"], lines.as_bytes()).ok();
    assert_eq!(thalweg(&[&"scan", &from_file]).ok(), lines);
    assert_eq!(thalweg(&[&"scan", &from_input]).ok(), lines);
}

#[test]
fn an_import_is_repeatable_and_the_last_value_stays() {
    let scratch = Scratch::new("import");
    let database = scratch.path("db");
    command::import(&database, "a\t1\nb\t1\na\t2\n");
    command::import(&database, "b\t3");
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t2\nb\t3\n");
}

#[test]
fn tuned_imports_make_tables_and_stat_shows_them() {
    let scratch = Scratch::new("import");
    let database = scratch.path("db");
    let lines: String = (0..30_000).map(|n| format!("{n:08}\t{:0100}\n", n * 7)).collect();
    let options = ["--memtable-mib", "1", "--cache-mib", "8", "--compression", "lz4", "--stat"];
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"import", &database, &"-"];
    arguments.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
    let summary = thalweg_reading(&arguments, lines.as_bytes());
    assert!(summary.ok().contains("write amplification"), "{summary:?}");
    let statistics: serde_json::Value = serde_json::from_str(thalweg(&[&"stat", &database, &"--json"]).ok()).unwrap();
    let tables = |level: &serde_json::Value| level["tables"].as_u64().unwrap();
    let levels = statistics["keyspaces"][0]["levels"].as_array().unwrap();
    assert!(levels.iter().map(tables).sum::<u64>() > 0, "{statistics}");
    assert_eq!(thalweg(&[&"scan", &database]).ok(), lines);
}

#[test]
fn json_lines_are_read_and_written() {
    let scratch = Scratch::new("import");
    let database = scratch.path("db");
    let lines = "{\"id\":\"b\",\"status\":{\"n\":1.50}}\n{\"status\":\"new\",\"id\":\"a\"}\n";
    let fields: [&dyn AsRef<std::ffi::OsStr>; 8] =
        [&"import", &database, &"-", &"--jsonl", &"--key-field", &"id", &"--value-field", &"status"];
    thalweg_reading(&fields, lines.as_bytes()).ok();
    let printed = thalweg(&[&"scan", &database, &"--jsonl"]);
    assert_eq!(printed.ok(), "{\"key\":\"a\",\"value\":\"new\"}\n{\"key\":\"b\",\"value\":\"{\\\"n\\\":1.50}\"}\n");
}

#[test]
fn binary_goes_through_scan_and_import_unchanged() {
    let scratch = Scratch::new("import");
    let (first, plain, json) = (scratch.path("a"), scratch.path("b"), scratch.path("c"));
    let lines: String = (0..=255).map(|byte| format!("k\\x{byte:02x}\\\\\t\\xff\\t\\n\\x{byte:02x}\n")).collect();
    thalweg_reading(&[&"import", &first, &"-", &"--escaped"], lines.as_bytes()).ok();
    let printed = thalweg(&[&"scan", &first]);
    assert_eq!(printed.ok().lines().count(), 256);
    thalweg_reading(&[&"import", &plain, &"-", &"--escaped"], &printed.output).ok();
    let printed_json = thalweg(&[&"scan", &first, &"--jsonl"]);
    thalweg_reading(&[&"import", &json, &"-", &"--escaped", &"--jsonl"], &printed_json.output).ok();
    assert_eq!(thalweg(&[&"scan", &plain]).output, printed.output);
    assert_eq!(thalweg(&[&"scan", &json]).output, printed.output);
    let raw = thalweg(&[&"get", &plain, &"k\\x00\\\\", &"--raw"]);
    assert_eq!(raw.output, b"\xff\t\n\0");
}

#[test]
fn a_bad_line_is_named_and_the_lines_before_it_are_in() {
    let scratch = Scratch::new("import");
    let database = scratch.path("db");
    let run = thalweg_reading(&[&"import", &database, &"-"], b"a\t1\nb\t2\nno tab\nc\t3\n");
    run.fails(3, &["line 3", "no tab", "2 lines", "--skip-bad"]);
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nb\t2\n");
    let long = format!("{}\tv\n", "k".repeat(65 * 1024));
    thalweg_reading(&[&"import", &database, &"-"], long.as_bytes()).fails(3, &["line 1", "at most 65536"]);
    thalweg_reading(&[&"import", &database, &"-"], b"\tv\n").fails(3, &["line 1", "the key is empty"]);
}

#[test]
fn bad_lines_are_skipped_and_counted_when_asked() {
    let scratch = Scratch::new("import");
    let database = scratch.path("db");
    let run = thalweg_reading(&[&"import", &database, &"-", &"--skip-bad"], b"a\t1\nno tab\n\tx\nc\t3\n");
    assert!(run.ok().contains("skipped 2 bad lines"), "{run:?}");
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nc\t3\n");
}

#[test]
fn a_signal_stops_the_import_and_what_was_read_stays() {
    let scratch = Scratch::new("import");
    let database = scratch.path("db");
    let mut child = command(&[&"import", &database, &"-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe stays open: only the signal can end the import.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"a\t1\nb\t2\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let since = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(since.elapsed() < Duration::from_secs(20));
    drop(input);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "thalweg: stopped; 2 lines are in and durable\n");
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nb\t2\n");
}
