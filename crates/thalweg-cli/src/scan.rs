//! `thalweg scan`: prints keys and values in key order, a line each; or the entries of a directory.
//!
//! A plain line is `key<TAB>value`, text as it is. With `--escaped` both are escaped, and `import --escaped` reads them
//! back to the same bytes. A JSON line is `{"key":…,"value":…}`. If one of the two is not UTF-8, both are escaped and
//! the object has `"escaped":true`.

use crate::args::Scan;
use crate::bounds::Bounds;
use crate::escape::escape;
use crate::open;
use crate::report::Failure;
use crate::spelling::Spelling;
use std::io::Write;
use thalweg::{Entry, Slice};

pub fn run(args: &Scan, output: &mut dyn Write) -> Result<(), Failure> {
    let spelling = Spelling::new(args.target.escaped, "--escaped or --jsonl prints what import reads back exactly");
    let bounds = Bounds::new(&args.range, &spelling)?;
    let name = spelling.name(&args.target.keyspace)?;
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if let Some(directory) = args.directory {
        let (_database, files) = open::directories_for_reading(&args.target.source, &name)?;
        let entries = files.list(directory).map(|entry| {
            let entry = entry?;
            // Long values are read only if they are printed.
            let value = if args.keys_only { Slice::default() } else { entry.value()? };
            Ok((entry.name().into(), value))
        });
        return print(entries.take(limit), args, &spelling, output);
    }
    let (_database, keyspace) = open::keyspace_for_reading(&args.target.source, &name)?;
    let range = bounds.of(&keyspace);
    if args.reverse {
        print(range.rev().take(limit), args, &spelling, output)
    } else {
        print(range.take(limit), args, &spelling, output)
    }
}

fn print(
    entries: impl Iterator<Item = thalweg::Result<Entry>>,
    args: &Scan,
    spelling: &Spelling,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let mut line = String::new();
    for entry in entries {
        let (key, value) = entry?;
        line.clear();
        let value = (!args.keys_only).then_some(&*value);
        if args.jsonl {
            json_line(&key, value, &mut line);
        } else {
            plain_line(&key, value, spelling, &mut line);
        }
        output.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn plain_line(key: &[u8], value: Option<&[u8]>, spelling: &Spelling, line: &mut String) {
    spelling.push(key, line);
    if let Some(value) = value {
        line.push('\t');
        spelling.push(value, line);
    }
    line.push('\n');
}

fn json_line(key: &[u8], value: Option<&[u8]>, line: &mut String) {
    let texts = (std::str::from_utf8(key), value.map(std::str::from_utf8).transpose());
    if let (Ok(key), Ok(value)) = texts {
        json_object(key, value, false, line);
    } else {
        json_object(&escape(key), value.map(escape).as_deref(), true, line);
    }
}

fn json_object(key: &str, value: Option<&str>, escaped: bool, line: &mut String) {
    line.push_str("{\"key\":");
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
    use crate::line::LineFormat;

    #[test]
    fn json_says_when_it_is_escaped() {
        let mut line = String::new();
        json_line(b"k\n", Some("ü\"".as_bytes()), &mut line);
        assert_eq!(line, "{\"key\":\"k\\n\",\"value\":\"ü\\\"\"}\n");
        line.clear();
        json_line(b"k", Some(b"\xff\\"), &mut line);
        assert_eq!(line, "{\"key\":\"k\",\"value\":\"\\\\xff\\\\\\\\\",\"escaped\":true}\n");
        line.clear();
        json_line(b"k", None, &mut line);
        assert_eq!(line, "{\"key\":\"k\"}\n");
    }

    #[test]
    fn import_reads_back_what_scan_prints() {
        let plain = LineFormat::Tabs { escaped: true };
        let json = LineFormat::Json { key_field: "key".into(), value_field: "value".into() };
        for first in 0..=255u8 {
            let (key, value) = (vec![first, b'\\', b'x'], vec![b'\t', first, b'"']);
            let (mut plain_text, mut json_text) = (String::new(), String::new());
            plain_line(&key, Some(&value), &Spelling::of_arguments(true), &mut plain_text);
            json_line(&key, Some(&value), &mut json_text);
            for (format, line) in [(&plain, plain_text), (&json, json_text)] {
                let line = line.strip_suffix('\n').unwrap();
                let (key_back, value_back) = format.record(line.as_bytes()).unwrap();
                assert_eq!((key_back.as_ref(), value_back.as_ref()), (key.as_slice(), value.as_slice()), "{line}");
            }
        }
    }
}
