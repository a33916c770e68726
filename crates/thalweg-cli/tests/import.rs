//! `thalweg import`: formats, bad lines, batches, signals.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Scratch, thalweg, thalweg_reading};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_file_and_standard_input_give_the_same() {
    let scratch = Scratch::new();
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
    let scratch = Scratch::new();
    let database = scratch.path("db");
    command::import(&database, "a\t1\nb\t1\na\t2\n");
    command::import(&database, "b\t3");
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t2\nb\t3\n");
}

#[test]
fn tuned_imports_make_tables_and_stat_shows_them() {
    let scratch = Scratch::new();
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
    let scratch = Scratch::new();
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
    let scratch = Scratch::new();
    let (first, plain, json) = (scratch.path("a"), scratch.path("b"), scratch.path("c"));
    let lines: String = (0..=255).map(|byte| format!("k\\x{byte:02x}\\\\\t\\xff\\t\\n\\x{byte:02x}\n")).collect();
    thalweg_reading(&[&"import", &first, &"-", &"--escaped"], lines.as_bytes()).ok();
    let printed = thalweg(&[&"scan", &first, &"--escaped"]);
    assert_eq!(printed.ok().lines().count(), 256);
    thalweg_reading(&[&"import", &plain, &"-", &"--escaped"], &printed.output).ok();
    let printed_json = thalweg(&[&"scan", &first, &"--jsonl"]);
    thalweg_reading(&[&"import", &json, &"-", &"--escaped", &"--jsonl"], &printed_json.output).ok();
    assert_eq!(thalweg(&[&"scan", &plain, &"--escaped"]).output, printed.output);
    assert_eq!(thalweg(&[&"scan", &json, &"--escaped"]).output, printed.output);
    let raw = thalweg(&[&"get", &plain, &"k\\x00\\\\", &"--raw", &"--escaped"]);
    assert_eq!(raw.output, b"\xff\t\n\0");
}

#[test]
fn a_bad_line_is_named_and_the_lines_before_it_are_in() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let run = thalweg_reading(&[&"import", &database, &"-"], b"a\t1\nb\t2\nno tab\nc\t3\n");
    run.fails(3, &["line 3", "no tab", "2 lines are in and durable", "--skip-bad", "--from-line 3"]);
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nb\t2\n");
    let mended = b"a\t7\nb\t7\nc\t3\n";
    thalweg_reading(&[&"import", &database, &"-", &"--from-line", &"3"], mended).ok();
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nb\t2\nc\t3\n");
    let beyond = thalweg_reading(&[&"import", &database, &"-", &"--from-line", &"9"], mended);
    assert_eq!(beyond.code, Some(2), "{beyond:?}");
    assert!(beyond.errors.contains("the input has 3 lines, there is no line 9"), "{beyond:?}");
    let long = format!("{}\tv\n", "k".repeat(65 * 1024));
    thalweg_reading(&[&"import", &database, &"-"], long.as_bytes()).fails(3, &["line 1", "at most 65536"]);
    thalweg_reading(&[&"import", &database, &"-"], b"\tv\n").fails(3, &["line 1", "the key is empty"]);
}

#[test]
fn a_first_import_without_a_good_line_leaves_nothing() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let run = thalweg_reading(&[&"import", &database, &"-"], b"no tab\n");
    run.fails(3, &["line 1", "nothing was imported", "not created"]);
    assert!(!database.exists());
    let run = thalweg_reading(&[&"import", &database, &"-"], b"a\t1\n");
    assert!(run.ok().contains(" into the new database "), "{run:?}");
}

#[test]
fn bad_lines_are_skipped_named_and_counted_when_asked() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let run = thalweg_reading(&[&"import", &database, &"-", &"--skip-bad"], b"a\t1\nno tab\n\tx\nc\t3\n");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.text().contains("skipped 2 bad lines"), "{run:?}");
    let named: Vec<_> = run.errors.lines().collect();
    assert_eq!(named.len(), 2, "{run:?}");
    assert!(named[0].starts_with("thalweg: skipped line 2: there is no tab"), "{run:?}");
    assert_eq!(named[1], "thalweg: skipped line 3: the key is empty");
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nc\t3\n");
    let many = thalweg_reading(&[&"import", &database, &"-", &"--skip-bad"], "bad\n".repeat(9).as_bytes());
    assert_eq!(many.errors.lines().count(), 6, "{many:?}");
    assert!(many.errors.ends_with("more bad lines follow, and are only counted\n"), "{many:?}");
    assert!(many.text().contains("skipped 9 bad lines"), "{many:?}");
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_dropped_with_a_note_or_kept() {
    let scratch = Scratch::new();
    let (dropped, kept) = (scratch.path("a"), scratch.path("b"));
    let lines = b"\xef\xbb\xbfa\t1\r\nb\t2\r\n";
    let run = thalweg_reading(&[&"import", &dropped, &"-"], lines);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.errors.lines().count(), 2, "{run:?}");
    assert!(run.errors.contains("byte order mark") && run.errors.contains("line 1 ends in a carriage"), "{run:?}");
    assert_eq!(thalweg(&[&"scan", &dropped]).ok(), "a\t1\nb\t2\n");
    thalweg_reading(&[&"import", &kept, &"-", &"--verbatim"], lines).ok();
    assert_eq!(thalweg(&[&"scan", &kept, &"--escaped"]).ok(), "b\t2\\r\n\\xef\\xbb\\xbfa\t1\\r\n");
    let (only, copy) = (scratch.path("c"), scratch.path("d"));
    thalweg(&[&"put", &only, &"\u{feff}k", &"v", &"--create"]).ok();
    let printed = thalweg(&[&"scan", &only, &"--escaped"]);
    thalweg_reading(&[&"import", &copy, &"-", &"--escaped"], &printed.output).ok();
    assert_eq!(thalweg(&[&"get", &copy, &"\u{feff}k"]).ok(), "v\n");
}

#[test]
fn a_signal_stops_the_import_and_what_was_read_stays() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let scratch = Scratch::new();
        let database = scratch.path("db");
        // Under `nohup` the tests ignore a hang-up, and what they start would too.
        let mut child = std::process::Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_thalweg"), "import"])
            .args([database.as_os_str(), "-".as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The pipe stays open: only the signal can end the import.
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"a\t1\nb\t2\n").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let killed = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let since = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(since.elapsed() < Duration::from_secs(20));
        drop(input);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(errors, "thalweg: stopped; 2 lines are in and durable; go on with --from-line 3\n");
        assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nb\t2\n");
    }
}

#[test]
fn a_hang_up_that_is_ignored_does_not_stop_the_import() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    let line = format!("trap '' HUP; exec {} import {} -", env!("CARGO_BIN_EXE_thalweg"), database.display());
    let mut child = std::process::Command::new("sh")
        .args(["-c", &line])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"a\t1\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let hung_up = std::process::Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap();
    assert!(hung_up.success());
    input.write_all(b"b\t2\n").unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\nb\t2\n");
}

#[test]
fn an_error_of_the_engine_names_the_line_to_go_on_with() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    command::import(&database, "a\t1\n");
    let lines: String = (0..200_000).map(|n| format!("{n:08}\t{:0100}\n", n * 7)).collect();
    std::fs::write(scratch.path("lines"), &lines).unwrap();
    // A file may not grow beyond 64 KiB: the first new log segment cannot be made.
    let line = format!(
        "ulimit -f 64; trap '' XFSZ; exec {} import {} {}",
        env!("CARGO_BIN_EXE_thalweg"),
        database.display(),
        scratch.path("lines").display()
    );
    let run = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(3), "{errors}");
    assert!(errors.contains("go on with --from-line ") || errors.contains("cannot "), "{errors}");
    assert_eq!(thalweg(&[&"get", &database, &"a"]).ok(), "1\n");
}
