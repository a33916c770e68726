//! Wrong paths, wrong files, wrong words: each one clear line and the right exit code.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;

use command::{Scratch, import, thalweg, thalweg_reading};

#[test]
fn a_missing_database_is_not_created_by_reading_put_or_remove() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    for arguments in [
        vec!["get", "k"],
        vec!["put", "k", "v"],
        vec!["remove", "k"],
        vec!["scan"],
        vec!["stat"],
        vec!["check"],
        vec!["keyspaces"],
    ] {
        let mut line: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&arguments[0], &database];
        line.extend(arguments[1..].iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
        thalweg(&line).fails(1, &["there is no database in ", "thalweg import"]);
        assert!(!database.exists(), "{arguments:?} created it");
    }
}

#[test]
fn a_file_is_no_database() {
    let scratch = Scratch::new();
    let file = scratch.path("file");
    std::fs::write(&file, "text").unwrap();
    for verb in ["scan", "stat", "check", "keyspaces"] {
        thalweg(&[&verb, &file]).fails(2, &["is a file, and a database is a directory"]);
    }
    thalweg(&[&"import", &file, &"-"]).fails(2, &["is a file, and a database is a directory"]);
    thalweg(&[&"scan", &file.join("below")]).fails(3, &["cannot look at", "check the path"]);
}

#[test]
fn a_directory_with_something_else_is_left_alone() {
    let scratch = Scratch::new();
    let directory = scratch.path("documents");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("letter"), "dear").unwrap();
    thalweg_reading(&[&"import", &directory, &"-"], b"a\t1\n").fails(2, &["is not empty and holds no database"]);
    thalweg(&[&"scan", &directory]).fails(1, &["there is no database in"]);
    assert_eq!(command::files(&directory).len(), 1);
}

#[test]
fn an_input_that_cannot_be_read_is_named() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    thalweg(&[&"import", &database, &scratch.path("missing")]).fails(3, &["cannot read", "missing", "check the path"]);
    thalweg(&[&"import", &database, &scratch.path(".")]).fails(2, &["is a directory", "- for standard input"]);
    assert!(!database.exists());
}

#[test]
fn dump_refuses_directories_and_foreign_files() {
    let scratch = Scratch::new();
    let file = scratch.path("notes.txt");
    std::fs::write(&file, "text").unwrap();
    thalweg(&[&"dump", &scratch.path(".")]).fails(2, &["is a directory"]);
    thalweg(&[&"dump", &scratch.path("missing")]).fails(3, &["cannot read", "check the path"]);
    thalweg(&[&"dump", &file]).fails(2, &["notes.txt"]);
    let table = scratch.path("00000001.table");
    std::fs::write(&table, "text").unwrap();
    thalweg(&[&"dump", &table]).fails(3, &["00000001.table"]);
}

#[test]
fn a_file_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let file = scratch.path("secret");
    std::fs::write(&file, "a\t1\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o0)).unwrap();
    if std::fs::File::open(&file).is_ok() {
        return; // The superuser may read everything.
    }
    thalweg(&[&"import", &scratch.path("db"), &file]).fails(3, &["cannot read", "ls -l"]);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, "a\t1\n");
    thalweg(&[&"get", &database, &"a\\", &"--escaped"]).fails(2, &["the key cannot be read", "backslash"]);
    thalweg(&[&"scan", &database, &"--from", &"b", &"--to", &"a"]).fails(2, &["--from b lies behind --to a"]);
    assert_eq!(thalweg(&[&"scan"]).code, Some(2));
    assert_eq!(thalweg(&[&"frobnicate"]).code, Some(2));
    assert_eq!(thalweg(&[&"import", &database, &"-", &"--batch", &"0"]).code, Some(2));
}

#[test]
fn links_that_lead_nowhere_or_in_a_circle_say_so() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let (nowhere, circle) = (scratch.path("nowhere"), scratch.path("circle"));
    symlink("missing", &nowhere).unwrap();
    symlink("circle", &circle).unwrap();
    thalweg(&[&"stat", &nowhere]).fails(1, &["symbolic link to missing, which is not there"]);
    thalweg(&[&"import", &scratch.path("db"), &nowhere]).fails(3, &["symbolic link to missing, which is not there"]);
    let run = thalweg(&[&"stat", &circle]);
    run.fails(3, &["symbolic links lead in a circle"]);
    assert!(!run.errors.contains("dmesg"), "{run:?}");
}

#[test]
fn too_many_open_files_names_the_limit() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, "a\t1\n");
    let shell = format!("ulimit -n 4; exec {} get {} a", env!("CARGO_BIN_EXE_thalweg"), database.display());
    let run = std::process::Command::new("sh").args(["-c", &shell]).output().unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{errors}");
    assert!(errors.contains("ulimit -n") && !errors.contains("dmesg"), "{errors}");
}

#[test]
fn keys_out_of_limits_are_refused_by_put() {
    let scratch = Scratch::new();
    let database = scratch.path("db");
    import(&database, "a\t1\n");
    let run = thalweg(&[&"put", &database, &"", &"v"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    let run = thalweg(&[&"put", &database, &"k".repeat(65_537), &"v"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(thalweg(&[&"scan", &database]).ok(), "a\t1\n");
}

#[test]
fn help_has_examples_and_succeeds() {
    for verb in ["import", "get", "put", "remove", "scan", "stat", "check", "dump", "keyspaces", "drop-keyspace"] {
        let run = thalweg(&[&verb, &"--help"]);
        assert!(run.ok().contains("Example"), "{verb}");
    }
    assert!(thalweg(&[&"--version"]).ok().starts_with("thalweg "));
}
