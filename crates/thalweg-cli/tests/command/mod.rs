//! Runs the command on directories of its own.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// An empty directory, removed when dropped.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// What a run of the command gave.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub output: Vec<u8>,
    pub errors: String,
}

#[allow(dead_code, reason = "each test file uses some of these")]
impl Run {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.output).unwrap()
    }

    /// Asserts success and gives the output.
    pub fn ok(&self) -> &str {
        assert_eq!((self.code, self.errors.as_str()), (Some(0), ""), "{self:?}");
        self.text()
    }

    /// Asserts this exit code and one line on standard error that has each of `words`.
    pub fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.errors.lines().count(), 1, "{self:?}");
        assert!(self.errors.starts_with("thalweg: "), "{self:?}");
        for word in words {
            assert!(self.errors.contains(word), "no {word:?} in {self:?}");
        }
    }
}

/// The command, not yet started.
pub fn command(arguments: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

/// Runs the command.
pub fn thalweg(arguments: &[&dyn AsRef<OsStr>]) -> Run {
    thalweg_reading(arguments, b"")
}

/// Runs the command with `input` on its standard input.
pub fn thalweg_reading(arguments: &[&dyn AsRef<OsStr>], input: &[u8]) -> Run {
    let mut child =
        command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run { code: output.status.code(), output: output.stdout, errors: String::from_utf8(output.stderr).unwrap() }
}

/// Imports `lines` (key, tab, value) into `database`.
#[allow(dead_code, reason = "each test file uses some of these")]
pub fn import(database: &Path, lines: &str) {
    thalweg_reading(&[&"import", &database, &"-"], lines.as_bytes()).ok();
}

/// Names and lengths of all files below `directory`, sorted.
#[allow(dead_code, reason = "each test file uses some of these")]
pub fn files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path(), entry.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}
