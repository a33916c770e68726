//! `thalweg scan`: prints keys and values in key order, a line each; or the entries of directories; or their numbers.
//!
//! A plain line is `key<TAB>value`, text as it is. With `--escaped` both are escaped, and `import --escaped` reads them
//! back to the same bytes. A JSON line is `{"key":…,"value":…}`. If one of the two is not UTF-8, both are escaped and
//! the object has `"escaped":true`. A line of a whole directory keyspace begins with the number of the directory, as
//! `import --directory` reads it.

use crate::args::Scan;
use crate::bounds::Bounds;
use crate::escape::escape;
use crate::open;
use crate::report::Failure;
use crate::spelling::Spelling;
use std::io::Write;
use thalweg::{DirectorySnapshot, ReadOnlyDatabase};

pub fn run(args: &Scan, output: &mut dyn Write) -> Result<(), Failure> {
    let spelling = Spelling::new(args.target.escaped, "--escaped or --jsonl prints what import reads back exactly");
    let bounds = Bounds::new(&args.range, &spelling)?;
    let name = spelling.name(&args.target.keyspace)?;
    let mut printer = Printer { args, spelling, output, left: args.limit.unwrap_or(u64::MAX), line: String::new() };
    if args.directory.is_some() || args.directories {
        let (_database, files) = open::directories_for_reading(&args.target.source, &name)?;
        return match args.directory {
            Some(directory) => printer.directory(&files, directory, false),
            None => printer.numbers(&files),
        };
    }
    let database = open::for_reading(&args.target.source)?;
    if let Some(files) = directories(&database, &name) {
        return if args.reverse || args.range.is_given() {
            let why = "directory keyspaces have no ranges: name one directory with --directory, or print all of them";
            Err(Failure::Usage(why.into()))
        } else {
            printer.all_directories(&files)
        };
    }
    let range = bounds.of(&database.keyspace(&name)?);
    if args.reverse { printer.range(range.rev()) } else { printer.range(range) }
}

/// Returns the directory keyspace of that name. `None`: there is none, or it is an ordered keyspace.
fn directories(database: &ReadOnlyDatabase, name: &str) -> Option<DirectorySnapshot> {
    database.existing_directory_keyspace(name).ok().flatten()
}

/// Prints lines, at most as many as the limit allows.
struct Printer<'a> {
    args: &'a Scan,
    spelling: Spelling,
    output: &'a mut dyn Write,
    /// How many lines may still be printed.
    left: u64,
    line: String,
}

impl Printer<'_> {
    /// Prints keys and values.
    fn range(&mut self, entries: impl Iterator<Item = thalweg::Result<thalweg::Entry>>) -> Result<(), Failure> {
        for entry in entries.take(self.limit()) {
            let (key, value) = entry?;
            self.entry(None, &key, (!self.args.keys_only).then_some(&*value))?;
        }
        Ok(())
    }

    /// Prints the entries of a directory, with its number if `is_numbered`.
    fn directory(&mut self, files: &DirectorySnapshot, directory: u64, is_numbered: bool) -> Result<(), Failure> {
        for entry in files.list(directory).take(self.limit()) {
            let entry = entry?;
            // Long values are read only if they are printed.
            let value = if self.args.keys_only { None } else { Some(entry.value()?) };
            self.entry(is_numbered.then_some(directory), entry.name(), value.as_deref())?;
        }
        Ok(())
    }

    fn all_directories(&mut self, files: &DirectorySnapshot) -> Result<(), Failure> {
        for directory in files.directories() {
            if self.left == 0 {
                break;
            }
            self.directory(files, directory?, true)?;
        }
        Ok(())
    }

    fn numbers(&mut self, files: &DirectorySnapshot) -> Result<(), Failure> {
        for directory in files.directories().take(self.limit()) {
            writeln!(self.output, "{}", directory?)?;
        }
        Ok(())
    }

    fn limit(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }

    fn entry(&mut self, directory: Option<u64>, key: &[u8], value: Option<&[u8]>) -> Result<(), Failure> {
        self.line.clear();
        if self.args.jsonl {
            json_line(directory, key, value, self.args.target.escaped, &mut self.line);
        } else {
            plain_line(directory, key, value, &self.spelling, &mut self.line);
        }
        self.left = self.left.saturating_sub(1);
        Ok(self.output.write_all(self.line.as_bytes())?)
    }
}

fn plain_line(directory: Option<u64>, key: &[u8], value: Option<&[u8]>, spelling: &Spelling, line: &mut String) {
    if let Some(directory) = directory {
        line.push_str(&format!("{directory}\t"));
    }
    spelling.push(key, line);
    if let Some(value) = value {
        line.push('\t');
        spelling.push(value, line);
    }
    line.push('\n');
}

fn json_line(directory: Option<u64>, key: &[u8], value: Option<&[u8]>, escaped: bool, line: &mut String) {
    let texts = (std::str::from_utf8(key), value.map(std::str::from_utf8).transpose());
    if let (Ok(key), Ok(value), false) = (texts.0, texts.1, escaped) {
        json_object(directory, key, value, false, line);
    } else {
        json_object(directory, &escape(key), value.map(escape).as_deref(), true, line);
    }
}

fn json_object(directory: Option<u64>, key: &str, value: Option<&str>, escaped: bool, line: &mut String) {
    line.push('{');
    if let Some(directory) = directory {
        line.push_str(&format!("\"directory\":{directory},"));
    }
    line.push_str("\"key\":");
    line.push_str(&json_string(key));
    if let Some(value) = value {
        line.push_str(",\"value\":");
        line.push_str(&json_string(value));
    }
    if escaped {
        line.push_str(",\"escaped\":true");
    }
    line.push_str("}\n");
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{Encoding, LineFormat, Record};

    #[test]
    fn json_says_when_it_is_escaped() {
        let mut line = String::new();
        json_line(None, b"k\n", Some("ü\"".as_bytes()), false, &mut line);
        assert_eq!(line, "{\"key\":\"k\\n\",\"value\":\"ü\\\"\"}\n");
        line.clear();
        json_line(None, b"k", Some(b"\xff\\"), false, &mut line);
        assert_eq!(line, "{\"key\":\"k\",\"value\":\"\\\\xff\\\\\\\\\",\"escaped\":true}\n");
        line.clear();
        json_line(None, b"k", None, false, &mut line);
        assert_eq!(line, "{\"key\":\"k\"}\n");
    }

    #[test]
    fn import_reads_back_what_scan_prints() {
        let json = || {
            let (directory_field, key_field, value_field) = ("directory".into(), "key".into(), "value".into());
            Encoding::Json { directory_field, key_field, value_field }
        };
        for (first, directory) in (0..=255u8).flat_map(|first| [(first, None), (first, Some(u64::MAX))]) {
            let directories = directory.is_some();
            let plain = LineFormat { encoding: Encoding::Tabs { escaped: true }, directories };
            let json = LineFormat { encoding: json(), directories };
            let (key, value) = (vec![first, b'\\', b'x'], vec![b'\t', first, b'"']);
            let (mut plain_text, mut json_text, mut escaped_text) = (String::new(), String::new(), String::new());
            plain_line(directory, &key, Some(&value), &Spelling::of_arguments(true), &mut plain_text);
            json_line(directory, &key, Some(&value), false, &mut json_text);
            json_line(directory, &key, Some(&value), true, &mut escaped_text);
            assert!(escaped_text.contains("\"escaped\":true"), "{escaped_text}");
            let expected = Record { directory, key: key.into(), value: value.into() };
            for (format, line) in [(&plain, plain_text), (&json, json_text), (&json, escaped_text)] {
                let line = line.strip_suffix('\n').unwrap();
                assert_eq!(format.record(line.as_bytes()).unwrap(), expected, "{line}");
            }
        }
    }
}
