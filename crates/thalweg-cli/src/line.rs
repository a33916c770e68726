//! [`LineFormat`]: reads a line of input as a key and a value.
//!
//! A plain line is `key<TAB>value`, the bytes as they are; the first tab divides. With `--escaped` both are escaped
//! text. A JSON line is an object with a field for each; a value that is no string is stored as its JSON text.

use crate::escape::unescape;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The longest key that the engine accepts, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value that the engine accepts, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// How a line holds its key and value.
#[derive(Clone, Debug)]
pub enum LineFormat {
    Tabs { escaped: bool },
    Json { key_field: String, value_field: String },
}

/// A key and its value, borrowed from the line if they need no unescaping.
pub type Record<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

impl LineFormat {
    /// Returns the record in `line`, which has no newline, or a sentence about what is wrong with it.
    pub fn record<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, String> {
        let (key, value) = match self {
            LineFormat::Tabs { escaped } => tabs(line, *escaped)?,
            LineFormat::Json { key_field, value_field } => json(line, key_field, value_field)?,
        };
        if key.is_empty() {
            return Err("the key is empty".into());
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(format!("the key has {} bytes, at most {KEY_BYTES_MAX} are possible", key.len()));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("the value has {} bytes, at most {VALUE_BYTES_MAX} are possible", value.len()));
        }
        Ok((key, value))
    }

    /// Returns the length of the longest line that can hold a record. It bounds the memory of an import.
    pub fn line_bytes_max(&self) -> usize {
        let record = KEY_BYTES_MAX + VALUE_BYTES_MAX + 1;
        match self {
            LineFormat::Tabs { escaped: false } => record,
            // A byte takes up to four characters: \xNN.
            LineFormat::Tabs { escaped: true } => 4 * record,
            // A byte takes up to six characters, \u00NN; other fields may take as much again.
            LineFormat::Json { .. } => 8 * record,
        }
    }
}

fn tabs(line: &[u8], escaped: bool) -> Result<Record<'_>, String> {
    let tab = line.iter().position(|&byte| byte == b'\t');
    let Some((key, value)) = tab.and_then(|tab| Some((line.get(..tab)?, line.get(tab + 1..)?))) else {
        return Err("there is no tab between a key and a value".into());
    };
    if escaped { Ok((unescape(key)?, unescape(value)?)) } else { Ok((Cow::Borrowed(key), Cow::Borrowed(value))) }
}

fn json<'a>(line: &'a [u8], key_field: &str, value_field: &str) -> Result<Record<'a>, String> {
    let object: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_slice(line).map_err(|error| match error {
        error if error.is_syntax() || error.is_eof() => format!("this is no JSON: {}", without_place(&error)),
        error => format!("this is no JSON object: {}", without_place(&error)),
    })?;
    let field = |name: &str| object.get(name).copied().ok_or_else(|| format!("there is no field {name:?}"));
    let (key, value) = (field(key_field)?, field(value_field)?);
    let key = match text(key) {
        Some(text) => text,
        None if key.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()) => key.get().to_owned(),
        None => return Err(format!("the field {key_field:?} is neither a string nor a number")),
    };
    let value = text(value).map_or(Cow::Borrowed(value.get().as_bytes()), |text| Cow::Owned(text.into_bytes()));
    let key = Cow::Owned(key.into_bytes());
    // `scan --jsonl` marks what is not text.
    if object.get("escaped").is_some_and(|flag| flag.get() == "true") {
        return Ok((Cow::Owned(unescape(&key)?.into_owned()), Cow::Owned(unescape(&value)?.into_owned())));
    }
    Ok((key, value))
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
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
        LineFormat::Json { key_field: "key".into(), value_field: "value".into() }
    }

    fn read(format: &LineFormat, line: &str) -> Result<(String, Vec<u8>), String> {
        let (key, value) = format.record(line.as_bytes())?;
        Ok((String::from_utf8_lossy(&key).into_owned(), value.into_owned()))
    }

    #[test]
    fn the_first_tab_divides() {
        let format = LineFormat::Tabs { escaped: false };
        assert_eq!(read(&format, "a\tb\tc").unwrap(), ("a".into(), b"b\tc".to_vec()));
        assert_eq!(read(&format, "a\t").unwrap(), ("a".into(), Vec::new()));
        assert_eq!(read(&format, "a\\t\tb\\n").unwrap(), ("a\\t".into(), b"b\\n".to_vec()));
    }

    #[test]
    fn escapes_are_read_when_asked() {
        let format = LineFormat::Tabs { escaped: true };
        assert_eq!(read(&format, "a\\t\tb\\xff").unwrap(), ("a\t".into(), b"b\xff".to_vec()));
        assert!(read(&format, "a\tb\\").unwrap_err().contains("backslash"));
    }

    #[test]
    fn a_line_without_tab_or_key_or_with_too_much_is_refused() {
        let format = LineFormat::Tabs { escaped: false };
        assert!(read(&format, "word").unwrap_err().contains("no tab"));
        assert!(read(&format, "").unwrap_err().contains("no tab"));
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
