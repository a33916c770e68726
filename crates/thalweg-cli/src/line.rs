//! [`LineFormat`]: reads a line of input as a key and a value, or as an entry of a directory.
//!
//! A plain line is `key<TAB>value`, the bytes as they are; the first tab divides. With `--escaped` both are escaped
//! text. A JSON line is an object with a field for each; a value that is no string is stored as its JSON text. With
//! `--directory` a plain line begins with the number of the directory and a tab, and a JSON line has a field for it.

use crate::escape::unescape;
use crate::spelling::shown;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The longest key that the engine accepts, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest name of an entry of a directory that the engine accepts, in bytes.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// The longest value that the engine accepts, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// The default fields of a JSON line, and the field that marks escaped text.
pub const DIRECTORY_FIELD: &str = "directory";
pub const KEY_FIELD: &str = "key";
pub const VALUE_FIELD: &str = "value";
const ESCAPED_FIELD: &str = "escaped";

/// How a line holds its record.
#[derive(Clone, Debug)]
pub struct LineFormat {
    pub encoding: Encoding,
    /// Whether a line is an entry of a directory.
    pub directories: bool,
}

/// How the parts of a record are spelled and told apart.
#[derive(Clone, Debug)]
pub enum Encoding {
    Tabs { escaped: bool },
    Json { directory_field: String, key_field: String, value_field: String },
}

/// The parts of a line. Key and value are borrowed from the line if they need no unescaping.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The directory, if lines have one. The key is then the name of the entry.
    pub directory: Option<u64>,
    pub key: Cow<'a, [u8]>,
    pub value: Cow<'a, [u8]>,
}

impl LineFormat {
    /// Returns the record in `line`, which has no newline, or a sentence about what is wrong with it.
    pub fn record<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, String> {
        let record = match &self.encoding {
            Encoding::Tabs { escaped } => self.tabs(line, *escaped)?,
            Encoding::Json { directory_field, key_field, value_field } => {
                json(line, self.directories.then_some(directory_field), key_field, value_field)?
            }
        };
        let (what, bytes_max) = if self.directories { ("name", NAME_BYTES_MAX) } else { ("key", KEY_BYTES_MAX) };
        if record.key.is_empty() {
            return Err(format!("the {what} is empty"));
        }
        for (what, bytes, bytes_max) in
            [(what, record.key.len(), bytes_max), ("value", record.value.len(), VALUE_BYTES_MAX)]
        {
            if bytes > bytes_max {
                return Err(format!("the {what} has {bytes} bytes, at most {bytes_max} are possible"));
            }
        }
        Ok(record)
    }

    /// Returns the length of the longest line that can hold a record. It bounds the memory of an import.
    pub fn line_bytes_max(&self) -> usize {
        // The number of a directory has at most 20 digits.
        let record = KEY_BYTES_MAX + VALUE_BYTES_MAX + 1 + if self.directories { 21 } else { 0 };
        match self.encoding {
            Encoding::Tabs { escaped: false } => record,
            // A byte takes up to four characters: \xNN.
            Encoding::Tabs { escaped: true } => 4 * record,
            // A byte takes up to six characters, \u00NN; other fields may take as much again.
            Encoding::Json { .. } => 8 * record,
        }
    }

    fn tabs<'a>(&self, line: &'a [u8], escaped: bool) -> Result<Record<'a>, String> {
        let expected = if self.directories {
            "with --directory a line must be directory, tab, name, tab, value"
        } else {
            "a line must be key, tab, value"
        };
        let Some((first, rest)) = at_tab(line) else {
            let hint = if line.starts_with(b"{") { "; lines of JSON need --jsonl" } else { "" };
            return Err(format!("there is no tab; {expected}{hint}"));
        };
        let (directory, key, value) = if self.directories {
            let (name, value) = at_tab(rest).ok_or_else(|| format!("there is only one tab; {expected}"))?;
            (Some(directory_number(first)?), name, value)
        } else {
            (None, first, rest)
        };
        if escaped && value.contains(&b'\t') {
            let hint = if self.directories { "" } else { "; lines of a directory keyspace need --directory" };
            return Err(format!("there is a tab too many; {expected}, and a tab in a value \\t{hint}"));
        }
        let typed = |text| if escaped { unescape(text) } else { Ok(Cow::Borrowed(text)) };
        Ok(Record { directory, key: typed(key)?, value: typed(value)? })
    }
}

/// Divides bytes at the first tab.
fn at_tab(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = bytes.iter().position(|&byte| byte == b'\t')?;
    Some((bytes.get(..tab)?, bytes.get(tab + 1..)?))
}

fn directory_number(text: &[u8]) -> Result<u64, String> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let (text, max) = (shown(text), u64::MAX);
        format!("{text:?} is no number of a directory; it must be a whole number from 0 to {max}")
    })
}

fn json<'a>(
    line: &'a [u8],
    directory_field: Option<&String>,
    key_field: &str,
    value_field: &str,
) -> Result<Record<'a>, String> {
    let object: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_slice(line).map_err(|error| match error {
        error if error.is_syntax() || error.is_eof() => format!("this is no JSON: {}", without_place(&error)),
        error => format!("this is no JSON object: {}", without_place(&error)),
    })?;
    let field = |name: &str| object.get(name).copied().ok_or_else(|| format!("there is no field {name:?}"));
    let text = |name: &str, value| text(value).map_err(|why| format!("the field {name:?} is no text: {why}"));
    let directory = directory_field.map(|name| {
        let number = field(name)?;
        directory_number(text(name, number)?.as_deref().unwrap_or(number.get()).as_bytes())
    });
    let directory = directory.transpose()?;
    // Whether the fields are those that `scan --jsonl` prints.
    let is_printed = (key_field, value_field) == (KEY_FIELD, VALUE_FIELD);
    let is_known = |name: &str| [DIRECTORY_FIELD, KEY_FIELD, VALUE_FIELD, ESCAPED_FIELD].contains(&name);
    if directory.is_none()
        && is_printed
        && object.contains_key(DIRECTORY_FIELD)
        && object.keys().all(|name| is_known(name))
    {
        return Err("there is a field \"directory\"; lines of a directory keyspace need --directory".into());
    }
    let (key, value) = (field(key_field)?, field(value_field)?);
    // `scan --jsonl` marks a record that is not text; then both key and value are strings.
    let is_string = |value: &RawValue| value.get().starts_with('"');
    let is_marked = is_printed && is_string(key) && is_string(value);
    let key = match text(key_field, key)? {
        Some(text) => text,
        None if key.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()) => key.get().to_owned(),
        None => return Err(format!("the field {key_field:?} is neither a string nor a number")),
    };
    let value =
        text(value_field, value)?.map_or(Cow::Borrowed(value.get().as_bytes()), |text| Cow::Owned(text.into_bytes()));
    let key = Cow::Owned(key.into_bytes());
    if is_marked && object.get(ESCAPED_FIELD).is_some_and(|flag| flag.get() == "true") {
        let (key, value) = (unescape(&key)?.into_owned(), unescape(&value)?.into_owned());
        return Ok(Record { directory, key: Cow::Owned(key), value: Cow::Owned(value) });
    }
    Ok(Record { directory, key, value })
}

/// The text of a string; `None` for any other value.
fn text(value: &RawValue) -> Result<Option<String>, String> {
    match value.get().starts_with('"') {
        true => serde_json::from_str(value.get()).map(Some).map_err(|error| without_place(&error)),
        false => Ok(None),
    }
}

/// Returns the error without " at line 1 column 5": the caller names the line.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {}", error.line());
    match text.split_once(&place) {
        Some((message, _)) => format!("{message} (column {})", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_format() -> LineFormat {
        let (directory_field, key_field, value_field) = ("directory".into(), "key".into(), "value".into());
        LineFormat { encoding: Encoding::Json { directory_field, key_field, value_field }, directories: false }
    }

    fn tabs_format(escaped: bool) -> LineFormat {
        LineFormat { encoding: Encoding::Tabs { escaped }, directories: false }
    }

    fn read(format: &LineFormat, line: &str) -> Result<(String, Vec<u8>), String> {
        let Record { directory, key, value } = format.record(line.as_bytes())?;
        let directory = directory.map(|number| format!("{number}/")).unwrap_or_default();
        Ok((directory + &String::from_utf8_lossy(&key), value.into_owned()))
    }

    #[test]
    fn the_first_tab_divides() {
        let format = tabs_format(false);
        assert_eq!(read(&format, "a\tb\tc").unwrap(), ("a".into(), b"b\tc".to_vec()));
        assert_eq!(read(&format, "a\t").unwrap(), ("a".into(), Vec::new()));
        assert_eq!(read(&format, "a\\t\tb\\n").unwrap(), ("a\\t".into(), b"b\\n".to_vec()));
    }

    #[test]
    fn escapes_are_read_when_asked() {
        let format = tabs_format(true);
        assert_eq!(read(&format, "a\\t\tb\\xff").unwrap(), ("a\t".into(), b"b\xff".to_vec()));
        assert!(read(&format, "a\tb\\").unwrap_err().contains("backslash"));
        let of_a_directory = read(&format, "7\tname\tvalue").unwrap_err();
        assert!(
            of_a_directory.contains("a tab too many") && of_a_directory.contains("--directory"),
            "{of_a_directory}"
        );
    }

    #[test]
    fn a_line_without_tab_or_key_or_with_too_much_is_refused() {
        let format = tabs_format(false);
        assert!(read(&format, "word").unwrap_err().contains("no tab"));
        assert!(read(&format, "").unwrap_err().contains("no tab; a line must be key, tab, value"));
        assert!(read(&format, "{}").unwrap_err().contains("lines of JSON need --jsonl"));
        assert!(read(&format, "\tvalue").unwrap_err().contains("the key is empty"));
        assert!(read(&format, &format!("{}\tv", "k".repeat(KEY_BYTES_MAX))).is_ok());
        assert!(read(&format, &format!("{}\tv", "k".repeat(KEY_BYTES_MAX + 1))).unwrap_err().contains("at most 65536"));
    }

    #[test]
    fn json_strings_are_taken_as_text_and_the_rest_verbatim() {
        let format = json_format();
        assert_eq!(read(&format, r#"{"key":"a\n","value":"ü"}"#).unwrap(), ("a\n".into(), "ü".into()));
        assert_eq!(read(&format, r#"{"value":{"b":1.0, "a":[]},"key":17}"#).unwrap().1, br#"{"b":1.0, "a":[]}"#);
        assert_eq!(read(&format, r#"{"value":null,"key":17}"#).unwrap(), ("17".into(), b"null".to_vec()));
    }

    #[test]
    fn escaped_json_is_read_back() {
        let format = json_format();
        let line = r#"{"key":"\\x00k","value":"\\xff","escaped":true}"#;
        assert_eq!(read(&format, line).unwrap(), ("\0k".into(), vec![0xff]));
        assert_eq!(read(&format, r#"{"key":"\\x00k","value":"v"}"#).unwrap().0, "\\x00k");
        // A user's own field of that name is none of ours.
        let line = r#"{"id":"C:\\new","status":"x","escaped":true}"#;
        let (directory_field, key_field, value_field) = ("directory".into(), "id".into(), "status".into());
        let named =
            LineFormat { encoding: Encoding::Json { directory_field, key_field, value_field }, ..format.clone() };
        assert_eq!(read(&named, line).unwrap().0, "C:\\new");
        assert_eq!(read(&format, r#"{"key":"\\x00k","value":7,"escaped":true}"#).unwrap().0, "\\x00k");
    }

    #[test]
    fn a_string_that_is_no_text_is_refused_wherever_it_stands() {
        let format = json_format();
        for line in [r#"{"key":"k","value":"a\ud83d"}"#, r#"{"key":"a\ud83d","value":"v"}"#] {
            let why = read(&format, line).unwrap_err();
            assert!(why.contains("is no text: ") && !why.contains("line 1"), "{why}");
        }
    }

    #[test]
    fn an_entry_of_a_directory_is_no_record_of_an_ordered_keyspace() {
        let format = json_format();
        let why = read(&format, r#"{"directory":7,"key":"a","value":"b"}"#).unwrap_err();
        assert!(why.contains("need --directory"), "{why}");
        let other = r#"{"directory":"/usr","key":"a","value":"b","mode":3}"#;
        assert_eq!(read(&format, other).unwrap(), ("a".into(), b"b".to_vec()));
    }

    #[test]
    fn entries_of_directories_are_read_in_every_format() {
        let of_directories = |format: LineFormat| LineFormat { directories: true, ..format };
        let (plain, escaped) = (of_directories(tabs_format(false)), of_directories(tabs_format(true)));
        let json = of_directories(json_format());
        assert_eq!(read(&plain, "7\ta\tb\tc").unwrap(), ("7/a".into(), b"b\tc".to_vec()));
        assert_eq!(read(&escaped, "7\ta\\t\tb\\n").unwrap(), ("7/a\t".into(), b"b\n".to_vec()));
        assert_eq!(read(&json, r#"{"directory":7,"key":"a","value":"b"}"#).unwrap(), ("7/a".into(), b"b".to_vec()));
        let most = format!(r#"{{"directory":"{}","key":"a","value":"b"}}"#, u64::MAX);
        assert_eq!(read(&json, &most).unwrap().0, format!("{}/a", u64::MAX));
        assert!(read(&plain, "7").unwrap_err().contains("no tab; with --directory a line must be directory, tab"));
        assert!(read(&plain, "7\ta").unwrap_err().contains("only one tab; with --directory a line must be"));
        for number in ["", "+7", "-1", "7 ", "18446744073709551616"] {
            let why = read(&plain, &format!("{number}\ta\tb")).unwrap_err();
            assert!(why.contains("is no number of a directory") && why.contains("from 0 to"), "{why}");
        }
        assert!(read(&json, r#"{"directory":1.5,"key":"a","value":"b"}"#).unwrap_err().contains("no number of a"));
        assert!(read(&json, r#"{"key":"a","value":"b"}"#).unwrap_err().contains("no field \"directory\""));
        assert!(read(&plain, "7\t\tb").unwrap_err().contains("the name is empty"));
        assert!(read(&plain, &format!("7\t{}\tb", "n".repeat(NAME_BYTES_MAX))).is_ok());
        let long = read(&plain, &format!("7\t{}\tb", "n".repeat(NAME_BYTES_MAX + 1)));
        assert!(long.unwrap_err().contains("the name has 1025 bytes, at most 1024"));
    }

    #[test]
    fn bad_json_is_told_in_a_sentence() {
        let format = json_format();
        assert!(read(&format, "{").unwrap_err().contains("no JSON"));
        assert!(read(&format, "[1]").unwrap_err().contains("no JSON object"));
        assert!(read(&format, r#"{"key":"a"}"#).unwrap_err().contains("no field \"value\""));
        assert!(read(&format, r#"{"key":[],"value":1}"#).unwrap_err().contains("neither a string nor a number"));
        assert!(!read(&format, "{\"key\" 1}").unwrap_err().contains("line 1"));
    }
}
