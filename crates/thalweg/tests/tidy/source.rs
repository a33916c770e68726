//! [`Source`]: one file, split into code and comments.
//!
//! Invariant: `code` and `comments` have the lines and columns of the text; `code` is the text with comments and the
//! insides of literals blanked, `comments` the text with all else blanked. So a brace, a word or a path found in `code`
//! is one for the compiler too.

use std::collections::BTreeSet;

pub struct Source {
    /// Relative to the root of the workspace.
    pub path: String,
    pub text: Vec<String>,
    pub code: Vec<String>,
    pub comments: Vec<String>,
    /// For each line, whether it is compiled into tests only.
    pub test: Vec<bool>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (text, code, comments) = (lines(text), lines(&code), lines(&comments));
        let mut test = vec![false; text.len()];
        for (first, last) in test_items(&code) {
            test[first..=last].fill(true);
        }
        Source { path: path.to_owned(), text, code, comments, test }
    }

    /// The whole file is compiled into tests only.
    pub fn test_only(&mut self) {
        self.test.fill(true);
    }

    /// The files of the modules that this one declares for tests only, as the prefixes of their paths: `a/b.rs`,
    /// `a/b/`.
    pub fn test_modules(&self) -> Vec<String> {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = name.trim_end_matches(".rs");
        let below = if matches!(stem, "mod" | "lib" | "main") { folder.to_owned() } else { format!("{folder}/{stem}") };
        let mut found = Vec::new();
        for (number, line) in self.code.iter().enumerate().filter(|(number, _)| self.test[*number]) {
            let declared = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let Some(module) = declared.strip_suffix(';').and_then(|line| line.strip_prefix("mod ")) else {
                continue;
            };
            let attribute = number.checked_sub(1).map_or("", |before| self.text[before].trim());
            match attribute.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
                Some(file) => found.push(format!("{folder}/{file}")),
                None => found.extend([format!("{below}/{module}.rs"), format!("{below}/{module}/")]),
            }
        }
        found
    }

    /// The code as one text, lines of test code empty, and the same number of lines.
    pub fn code_outside_tests(&self) -> String {
        let lines = self.code.iter().zip(&self.test);
        lines.map(|(line, test)| if *test { "\n".to_owned() } else { format!("{line}\n") }).collect()
    }
}

/// Whether the file is test code as a whole: in a `tests/` folder of a crate, or in a module declared for tests only.
pub fn is_test_file(path: &str, tests: &BTreeSet<String>) -> bool {
    let integration = path.split('/').nth(2) == Some("tests");
    integration || tests.iter().any(|test| path == test || (test.ends_with('/') && path.starts_with(test.as_str())))
}

/// The line, counted from 1, of a byte.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The first and last lines, counted from 0, of the items under `#[cfg(test)]`.
fn test_items(code: &[String]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (first, line) in code.iter().enumerate() {
        let line = line.trim();
        if line.starts_with("#![cfg(test)]") {
            return vec![(0, code.len() - 1)];
        }
        if line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test,") {
            found.push((first, item_end(code, first)));
        }
    }
    found
}

/// The last line of the item whose attributes begin at line `first`: where its braces close, or its semicolon.
fn item_end(code: &[String], first: usize) -> usize {
    let mut depth = 0_usize;
    for (number, line) in code.iter().enumerate().skip(first) {
        for byte in line.bytes() {
            match byte {
                b'{' | b'(' | b'[' => depth += 1,
                b'}' | b')' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && byte == b'}' {
                        return number;
                    }
                }
                // A field or a variant ends with a comma.
                b';' | b',' if depth == 0 => return number,
                _ => {}
            }
        }
    }
    code.len() - 1
}

/// What the splitter is inside of.
enum Inside {
    Code,
    LineComment,
    /// With how many are open: they nest.
    BlockComment(usize),
    Text,
    /// With how many `#` close it.
    RawText(usize),
}

/// The code and the comments of a text.
fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::with_capacity(text.len()), String::new());
    let mut inside = Inside::Code;
    let mut at = 0;
    // Each turn takes `take` characters, all of one sort.
    while at < chars.len() {
        let next = chars.get(at + 1).copied().unwrap_or(' ');
        let (sort, take, then) = match (inside, chars[at]) {
            (Inside::Code, '/') if next == '/' => (Sort::Comment, 2, Inside::LineComment),
            (Inside::Code, '/') if next == '*' => (Sort::Comment, 2, Inside::BlockComment(1)),
            (Inside::Code, '"') => (Sort::Code, 1, Inside::Text),
            (Inside::Code, 'r') if raw_hashes(&chars, at).is_some() => {
                let hashes = raw_hashes(&chars, at).unwrap();
                (Sort::Code, 2 + hashes, Inside::RawText(hashes))
            }
            (Inside::Code, '\'') if next == '\\' => {
                let end = (at + 3..chars.len()).find(|end| chars[*end] == '\'').unwrap_or(at);
                (Sort::Literal, end + 1 - at, Inside::Code)
            }
            (Inside::Code, '\'') if chars.get(at + 2) == Some(&'\'') => (Sort::Literal, 3, Inside::Code),
            (Inside::Code, _) => (Sort::Code, 1, Inside::Code),
            (Inside::LineComment, '\n') => (Sort::Comment, 1, Inside::Code),
            (Inside::LineComment, _) => (Sort::Comment, 1, Inside::LineComment),
            (Inside::BlockComment(1), '*') if next == '/' => (Sort::Comment, 2, Inside::Code),
            (Inside::BlockComment(open), '*') if next == '/' => (Sort::Comment, 2, Inside::BlockComment(open - 1)),
            (Inside::BlockComment(open), '/') if next == '*' => (Sort::Comment, 2, Inside::BlockComment(open + 1)),
            (Inside::BlockComment(open), _) => (Sort::Comment, 1, Inside::BlockComment(open)),
            (Inside::Text, '\\') => (Sort::Literal, 2, Inside::Text),
            (Inside::Text, '"') => (Sort::Code, 1, Inside::Code),
            (Inside::Text, _) => (Sort::Literal, 1, Inside::Text),
            (Inside::RawText(hashes), '"') if chars[at + 1..].iter().take(hashes).all(|hash| *hash == '#') => {
                (Sort::Code, 1 + hashes, Inside::Code)
            }
            (Inside::RawText(hashes), _) => (Sort::Literal, 1, Inside::RawText(hashes)),
        };
        for character in &chars[at..(at + take).min(chars.len())] {
            let blank = if *character == '\n' { '\n' } else { ' ' };
            code.push(if matches!(sort, Sort::Code) { *character } else { blank });
            comments.push(if matches!(sort, Sort::Comment) { *character } else { blank });
        }
        inside = then;
        at += take;
    }
    (code, comments)
}

enum Sort {
    Code,
    Comment,
    Literal,
}

/// If a raw string begins at this `r`: how many `#` it has.
fn raw_hashes(chars: &[char], at: usize) -> Option<usize> {
    let within_word = at.checked_sub(1).is_some_and(|before| {
        let before = chars[before];
        (before.is_alphanumeric() || before == '_') && before != 'b'
    });
    let hashes = chars[at + 1..].iter().take_while(|character| **character == '#').count();
    (!within_word && chars.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}
