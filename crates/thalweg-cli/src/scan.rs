//! `thalweg scan`: keys and values in key order, a line each.
//!
//! Plain: `key<TAB>value`, both escaped, which `import --escaped` reads back. JSON: `{"key":…,"value":…}`; where one of
//! the two is not UTF-8 both are escaped and the object says `"escaped":true`.

use crate::args::Scan;
use crate::escape::{escape, escape_into};
use crate::open;
use crate::report::Failure;
use std::io::Write;
use std::ops::Bound;
use thalweg::{Entry, Keyspace, Range};

pub fn run(args: &Scan, output: &mut dyn Write) -> Result<(), Failure> {
    let bounds = Bounds::new(args)?;
    let (_database, keyspace) = open::keyspace_for_reading(&args.target)?;
    let range = bounds.of(&keyspace);
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if args.reverse { print(range.rev().take(limit), args, output) } else { print(range.take(limit), args, output) }
}

fn print(
    entries: impl Iterator<Item = thalweg::Result<Entry>>,
    args: &Scan,
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
            plain_line(&key, value, &mut line);
        }
        output.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Which keys are asked for.
#[derive(Debug, PartialEq, Eq)]
enum Bounds {
    Prefix(Vec<u8>),
    Between(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Bounds {
    fn new(args: &Scan) -> Result<Bounds, Failure> {
        let bytes = |what, text: &Option<_>| text.as_deref().map(|text| open::argument_bytes(what, text)).transpose();
        if let Some(prefix) = bytes("prefix", &args.prefix)? {
            return Ok(Bounds::Prefix(prefix));
        }
        let (from, to) = (bytes("lower bound", &args.from)?, bytes("upper bound", &args.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && from > to
        {
            return Err(Failure::Usage(format!(
                "--from {} lies behind --to {}; exchange them (--reverse turns the order)",
                escape(from),
                escape(to)
            )));
        }
        Ok(Bounds::Between(
            from.map_or(Bound::Unbounded, Bound::Included),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        ))
    }

    fn of(self, keyspace: &Keyspace) -> Range {
        match self {
            Bounds::Prefix(prefix) => keyspace.prefix(prefix),
            Bounds::Between(from, to) => keyspace.range::<Vec<u8>>((from, to)),
        }
    }
}

fn plain_line(key: &[u8], value: Option<&[u8]>, line: &mut String) {
    escape_into(key, line);
    if let Some(value) = value {
        line.push('\t');
        escape_into(value, line);
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
    use crate::args::{Arguments, Command};
    use crate::line::LineFormat;
    use clap::Parser;

    fn bounds(options: &[&str]) -> Result<Bounds, Failure> {
        let line = ["thalweg", "scan", "db"].iter().chain(options);
        let Command::Scan(args) = Arguments::parse_from(line).command else { panic!("not a scan") };
        Bounds::new(&args)
    }

    #[test]
    fn bounds_are_unescaped_and_the_end_is_exclusive() {
        assert_eq!(bounds(&["--prefix", "\\x00"]).unwrap(), Bounds::Prefix(vec![0]));
        let between = Bounds::Between(Bound::Included(b"a".to_vec()), Bound::Excluded(b"b".to_vec()));
        assert_eq!(bounds(&["--from", "a", "--to", "b"]).unwrap(), between);
        assert_eq!(bounds(&[]).unwrap(), Bounds::Between(Bound::Unbounded, Bound::Unbounded));
    }

    #[test]
    fn a_range_turned_round_is_wrong_usage() {
        assert!(matches!(bounds(&["--from", "b", "--to", "a"]), Err(Failure::Usage(_))));
        assert!(bounds(&["--from", "a", "--to", "a"]).is_ok());
    }

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
            for (format, render) in [(&plain, plain_line as fn(&_, _, &mut _)), (&json, json_line)] {
                let mut line = String::new();
                render(&key, Some(&value), &mut line);
                let line = line.strip_suffix('\n').unwrap();
                let (key_back, value_back) = format.record(line.as_bytes()).unwrap();
                assert_eq!((key_back.as_ref(), value_back.as_ref()), (key.as_slice(), value.as_slice()), "{line}");
            }
        }
    }
}
