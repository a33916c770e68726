//! [`Bounds`]: the keys that a command selects, by a prefix or a range.

use crate::args::KeyRange;
use crate::report::Failure;
use crate::spelling::{Spelling, shown};
use std::ops::Bound;
use thalweg::{Range, Readable};

/// A lower and an upper bound of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl Bounds {
    pub fn new(range: &KeyRange, spelling: &Spelling) -> Result<Bounds, Failure> {
        let bytes = |what, text: &Option<_>| text.as_deref().map(|text| spelling.argument(what, text)).transpose();
        if let Some(prefix) = bytes("prefix", &range.prefix)? {
            let to = behind(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
            return Ok(Bounds { from: Bound::Included(prefix), to });
        }
        let (from, to) = (bytes("lower bound", &range.from)?, bytes("upper bound", &range.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && from > to
        {
            return Err(Failure::Usage(format!(
                "--from {} lies behind --to {}; exchange them",
                shown(from),
                shown(to)
            )));
        }
        Ok(Bounds {
            from: from.map_or(Bound::Unbounded, Bound::Included),
            to: to.map_or(Bound::Unbounded, Bound::Excluded),
        })
    }

    /// Moves the lower bound behind `key`.
    pub fn go_on_behind(&mut self, key: Vec<u8>) {
        self.from = Bound::Excluded(key);
    }

    pub fn of(&self, keyspace: &impl Readable) -> Range {
        keyspace.range(self.pair())
    }

    pub fn pair(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (self.from.clone(), self.to.clone())
    }
}

/// Returns the first key behind all keys that begin with `prefix`. `None`: there is no such key.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if let Some(next) = last.checked_add(1) {
            key.push(next);
            return Some(key);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    fn bounds(options: &[&str]) -> Result<Bounds, Failure> {
        let line = ["thalweg", "scan", "db"].iter().chain(options);
        let Command::Scan(args) = Arguments::parse_from(line).command else { panic!("not a scan") };
        Bounds::new(&args.range, &Spelling::of_arguments(args.target.escaped))
    }

    fn between(from: &[u8], to: &[u8]) -> Bounds {
        Bounds { from: Bound::Included(from.to_vec()), to: Bound::Excluded(to.to_vec()) }
    }

    #[test]
    fn bounds_are_taken_as_spelled_and_the_end_is_exclusive() {
        assert_eq!(bounds(&["--prefix", "\\x00", "--escaped"]).unwrap(), between(b"\0", b"\x01"));
        assert_eq!(bounds(&["--prefix", "\\x00"]).unwrap(), between(b"\\x00", b"\\x01"));
        assert_eq!(bounds(&["--from", "a", "--to", "b"]).unwrap(), between(b"a", b"b"));
        assert_eq!(bounds(&[]).unwrap(), Bounds { from: Bound::Unbounded, to: Bound::Unbounded });
    }

    #[test]
    fn a_range_turned_round_is_wrong_usage() {
        assert!(matches!(bounds(&["--from", "b", "--to", "a"]), Err(Failure::Usage(_))));
        assert!(bounds(&["--from", "a", "--to", "a"]).is_ok());
    }

    #[test]
    fn a_prefix_ends_where_no_key_begins_with_it() {
        assert_eq!(behind(b"a\xff\xff").unwrap(), b"b");
        assert_eq!(behind(b"\xff"), None);
        assert_eq!(behind(b""), None);
    }
}
