//! Converts bytes to text of one line, and back.
//!
//! Printable UTF-8 stands for itself; a backslash is `\\`; tab, newline and return are `\t`, `\n`, `\r`. Every other
//! control character and every byte that is not UTF-8 is `\xNN`. So the text has no tab, no newline and nothing that a
//! terminal obeys. `unescape` accepts all of these and `\0`, and refuses any other escape.

use std::borrow::Cow;

/// Appends `bytes` to `text`, escaped.
pub fn escape_into(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                _ if is_obeyed(character) => {
                    let mut buffer = [0; 4];
                    for byte in character.encode_utf8(&mut buffer).bytes() {
                        push_hex(byte, text);
                    }
                }
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            push_hex(*byte, text);
        }
    }
}

/// Returns `bytes`, escaped.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    escape_into(bytes, &mut text);
    text
}

/// Returns the bytes that `text` stands for, or a sentence about an invalid escape.
pub fn unescape(text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if !text.contains(&b'\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'\\') => bytes.push(b'\\'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'0') => bytes.push(0),
            Some(b'x') => match (rest.next().and_then(digit), rest.next().and_then(digit)) {
                (Some(high), Some(low)) => bytes.push(high << 4 | low),
                _ => return Err("\\x needs two hexadecimal digits, as in \\x00".into()),
            },
            Some(other) => {
                return Err(format!(
                    "there is no escape \\{}; write \\\\ for a backslash, or one of \\xNN \\t \\n \\r \\0",
                    escape(&[other])
                ));
            }
            None => return Err("a backslash ends the text; write \\\\ for a backslash".into()),
        }
    }
    Ok(Cow::Owned(bytes))
}

/// Returns whether a terminal or a reader of lines obeys the character: a control character, one that changes the
/// direction of text, or a byte order mark, which `import` drops before the first line.
pub fn is_obeyed(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn push_hex(byte: u8, text: &mut String) {
    text.push_str("\\x");
    for nibble in [byte >> 4, byte & 15] {
        text.extend(char::from_digit(u32::from(nibble), 16));
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself() {
        assert_eq!(escape("/usr/bin/ünï code".as_bytes()), "/usr/bin/ünï code");
    }

    #[test]
    fn what_a_terminal_or_a_line_reader_would_obey_is_escaped() {
        assert_eq!(escape(b"a\tb\nc\rd\\e\x00\x1b[31m\x7f"), "a\\tb\\nc\\rd\\\\e\\x00\\x1b[31m\\x7f");
        assert_eq!(escape("\u{85}\u{202e}".as_bytes()), "\\xc2\\x85\\xe2\\x80\\xae");
        assert_eq!(escape("\u{feff}k".as_bytes()), "\\xef\\xbb\\xbfk");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_escaped_one_by_one() {
        assert_eq!(escape(b"a\xff\xfeb\xc3"), "a\\xff\\xfeb\\xc3");
    }

    #[test]
    fn every_byte_and_every_pair_comes_back() {
        for high in 0..=255u8 {
            for low in 0..=255u8 {
                let bytes = [high, low, b'x'];
                assert_eq!(unescape(escape(&bytes).as_bytes()).unwrap(), bytes.as_slice());
            }
        }
    }

    #[test]
    fn unescape_reads_every_escape() {
        assert_eq!(unescape(b"\\x00\\xFf\\t\\n\\r\\0\\\\").unwrap(), b"\0\xff\t\n\r\0\\".as_slice());
    }

    #[test]
    fn a_bad_escape_is_told_in_a_sentence() {
        assert!(unescape(b"a\\").unwrap_err().contains("a backslash ends the text"));
        assert!(unescape(b"\\q").unwrap_err().contains("there is no escape \\q"));
        assert!(unescape(b"\\x0").unwrap_err().contains("two hexadecimal digits"));
        assert!(unescape(b"\\xzz").unwrap_err().contains("two hexadecimal digits"));
    }
}
