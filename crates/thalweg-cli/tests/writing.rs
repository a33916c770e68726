//! `put` and `remove`, and a second process at the same database.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Scratch, command, thalweg, thalweg_reading};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn put_and_remove_change_one_key() {
    let scratch = Scratch::new("writing");
    let database = scratch.path("db");
    thalweg(&[&"put", &database, &"a\\x00", &"one\\n", &"--create"]).ok();
    thalweg(&[&"put", &database, &"b", &"two", &"--sync"]).ok();
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\\x00\tone\\n\nb\ttwo\n");
    thalweg(&[&"remove", &database, &"a\\0"]).ok();
    thalweg(&[&"remove", &database, &"never there", &"--sync"]).ok();
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "b\ttwo\n");
}

#[test]
fn a_value_from_standard_input_is_taken_as_it_is() {
    let scratch = Scratch::new("writing");
    let database = scratch.path("db");
    let value: Vec<u8> = (0..=255).collect();
    thalweg_reading(&[&"put", &database, &"bytes", &"-", &"--create"], &value).ok();
    assert_eq!(thalweg(&[&"get", &database, &"bytes", &"--raw"]).output, value);
}

#[test]
fn keyspaces_are_apart() {
    let scratch = Scratch::new("writing");
    let database = scratch.path("db");
    thalweg(&[&"put", &database, &"k", &"1", &"--create", &"--keyspace", &"a"]).ok();
    thalweg(&[&"put", &database, &"k", &"2", &"--keyspace", &"b"]).ok();
    assert_eq!(thalweg(&[&"get", &database, &"k", &"--keyspace", &"a"]).ok(), "1\n");
    assert_eq!(thalweg(&[&"get", &database, &"k", &"--keyspace", &"b"]).ok(), "2\n");
    thalweg(&[&"get", &database, &"k"]).fails(1, &["no keyspace named \"default\"", "thalweg keyspaces DB"]);
    thalweg(&[&"remove", &database, &"k", &"--keyspace", &"c"]).fails(1, &["no keyspace named \"c\""]);
}

#[test]
fn a_database_in_use_is_refused() {
    let scratch = Scratch::new("writing");
    let database = scratch.path("db");
    let mut import = command(&[&"import", &database, &"-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    import.stdin.as_mut().unwrap().write_all(b"a\t1\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    thalweg(&[&"put", &database, &"k", &"v"]).fails(3, &["in use by another process", "wait until it ends"]);
    thalweg(&[&"get", &database, &"a"]).fails(3, &["in use by another process"]);
    drop(import.stdin.take());
    assert!(import.wait().unwrap().success());
    assert_eq!(thalweg(&[&"get", &database, &"a"]).ok(), "1\n");
}
