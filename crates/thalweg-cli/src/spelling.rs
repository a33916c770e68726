//! [`Spelling`]: how keys, values and names of keyspaces are written in arguments and in the output.
//!
//! Without `--escaped` an argument is used as it stands, backslashes included, and text is printed as it is. Bytes that
//! are no text are printed with escapes, and a note on standard error says so once: such a line is for the eye. With
//! `--escaped` both directions are escaped text (see `escape`), which reads back to the same bytes.

use crate::escape::{escape, escape_into, is_obeyed, unescape};
use crate::report::{Failure, say};
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The spelling of one run of the command.
pub struct Spelling {
    escaped: bool,
    /// The note for the first bytes that are no text; `None` once it is printed.
    note: Cell<Option<&'static str>>,
}

impl Spelling {
    /// Returns the spelling with or without `--escaped`. `note` says how to get all bytes exactly.
    pub fn new(escaped: bool, note: &'static str) -> Spelling {
        Spelling { escaped, note: Cell::new(Some(note)) }
    }

    /// Returns the spelling of a command that prints no keys and no values.
    pub fn of_arguments(escaped: bool) -> Spelling {
        Spelling::new(escaped, "")
    }

    /// Returns whether input and output are escaped text.
    pub fn is_escaped(&self) -> bool {
        self.escaped
    }

    /// Returns the bytes that an argument stands for.
    pub fn argument(&self, what: &str, text: &OsStr) -> Result<Vec<u8>, Failure> {
        self.typed(text.as_bytes())
            .map(Cow::into_owned)
            .map_err(|why| Failure::Usage(format!("the {what} cannot be read: {why}")))
    }

    /// Returns the name of a keyspace that an argument stands for.
    pub fn name(&self, text: &str) -> Result<String, Failure> {
        let bytes = self.argument("name of the keyspace", OsStr::new(text))?;
        String::from_utf8(bytes).map_err(|_| Failure::Usage("the name of a keyspace is UTF-8".into()))
    }

    /// Returns the bytes that typed text stands for, or a sentence about an invalid escape.
    pub fn typed<'a>(&self, text: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        if self.escaped { unescape(text) } else { Ok(Cow::Borrowed(text)) }
    }

    /// Appends `bytes` to a line of output, without a raw newline or tab.
    pub fn push(&self, bytes: &[u8], line: &mut String) {
        match std::str::from_utf8(bytes) {
            Ok(text) if !self.escaped && !text.chars().any(is_obeyed) => line.push_str(text),
            _ => self.push_escaped(bytes, line),
        }
    }

    /// Returns `bytes` as the whole output. Newlines and tabs count as text.
    pub fn whole(&self, bytes: &[u8]) -> String {
        let mut output = String::new();
        match std::str::from_utf8(bytes) {
            Ok(text) if !self.escaped && !text.chars().any(|c| is_obeyed(c) && c != '\n' && c != '\t') => {
                output.push_str(text);
            }
            _ => self.push_escaped(bytes, &mut output),
        }
        output
    }

    fn push_escaped(&self, bytes: &[u8], line: &mut String) {
        if !self.escaped
            && let Some(note) = self.note.take()
        {
            say(&format!("bytes that are no text are printed with escapes (\\xNN, \\t, \\n, \\\\); {note}"));
        }
        escape_into(bytes, line);
    }
}

/// Returns `bytes` for a message: text as it is, anything else escaped.
pub fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(is_obeyed) => text.to_owned(),
        _ => escape(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(escaped: bool, bytes: &[u8]) -> String {
        let mut line = String::new();
        Spelling::new(escaped, "note").push(bytes, &mut line);
        line
    }

    #[test]
    fn text_is_taken_and_printed_as_it_stands() {
        let plain = Spelling::of_arguments(false);
        assert_eq!(plain.argument("key", OsStr::new("C:\\temp\\x00")).unwrap(), b"C:\\temp\\x00");
        assert_eq!(plain.argument("key", OsStr::from_bytes(b"\xff")).unwrap(), b"\xff");
        assert_eq!(printed(false, b"C:\\temp"), "C:\\temp");
        assert_eq!(plain.whole(b"one\n\ttwo\\"), "one\n\ttwo\\");
    }

    #[test]
    fn what_is_no_text_is_escaped_and_said_once() {
        let spelling = Spelling::new(false, "note");
        let mut line = String::new();
        spelling.push(b"a\tb\\", &mut line);
        assert_eq!((line.as_str(), spelling.note.take()), ("a\\tb\\\\", None));
        assert_eq!(spelling.whole(b"\x1b[31m"), "\\x1b[31m");
        let silent = Spelling::new(true, "note");
        silent.push(b"\xff", &mut line);
        assert!(silent.note.take().is_some(), "with --escaped nothing needs to be said");
    }

    #[test]
    fn escaped_is_one_spelling_in_both_directions() {
        let spelling = Spelling::of_arguments(true);
        for byte in 0..=255u8 {
            let bytes = [byte, b'\\', byte];
            assert_eq!(spelling.typed(printed(true, &bytes).as_bytes()).unwrap(), bytes.as_slice());
        }
        assert_eq!(spelling.name("a\\tb").unwrap(), "a\tb");
        assert!(matches!(spelling.name("\\xff"), Err(Failure::Usage(text)) if text.contains("UTF-8")));
        let failure = spelling.argument("key", OsStr::new("a\\")).unwrap_err();
        assert!(matches!(&failure, Failure::Usage(text) if text.starts_with("the key cannot be read: a backslash")));
    }

    #[test]
    fn a_message_shows_text_as_it_is() {
        assert_eq!(shown(b"C:\\temp"), "C:\\temp");
        assert_eq!(shown(b"a\n"), "a\\n");
    }
}
