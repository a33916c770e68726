//! The imports, paths and child modules of one file, read from its code without a parser of Rust.

use crate::source::line_of;

/// What one file says of other modules. Test code is left out.
#[derive(Default)]
pub struct Paths {
    pub imports: Vec<Import>,
    /// Paths of two or more names outside of `use`.
    pub uses: Vec<Use>,
    /// The modules that the file declares: `mod name;`.
    pub children: Vec<Use>,
}

/// One name that a `use` brings into the file.
pub struct Import {
    /// The line, counted from 1.
    pub line: usize,
    /// The import has a visibility, so it is a re-export.
    pub exported: bool,
    pub segments: Vec<String>,
    /// The name in this file. A glob has none.
    pub name: Option<String>,
}

/// A path in the code.
pub struct Use {
    /// The line, counted from 1.
    pub line: usize,
    pub segments: Vec<String>,
}

/// A word, `::`, or one other character, with its offset.
type Token<'a> = (usize, &'a str);

impl Paths {
    pub fn new(code: &str) -> Paths {
        let tokens = tokens(code);
        let mut paths = Paths::default();
        let mut at = 0;
        while at < tokens.len() {
            let line = line_of(code, tokens[at].0);
            let before = at.checked_sub(1).map_or("", |before| tokens[before].1);
            match tokens[at].1 {
                "use" if text(&tokens, at + 1) != "<" => {
                    let exported = matches!(before, "pub" | ")");
                    at += 1;
                    let mut tree = Vec::new();
                    import_tree(&tokens, &mut at, &[], &mut tree);
                    paths.imports.extend(tree.into_iter().map(|(segments, name)| {
                        let name = if name == "*" { None } else { Some(name) };
                        Import { line, exported, segments, name }
                    }));
                }
                "mod" if text(&tokens, at + 2) == ";" => {
                    paths.children.push(Use { line, segments: vec![text(&tokens, at + 1).to_owned()] });
                    at += 2;
                }
                word if is_word(word) && !matches!(before, "::" | ".") => {
                    let visibility = before == "in" && at >= 3 && tokens[at - 3].1 == "pub";
                    let segments = path(&tokens, &mut at);
                    if segments.len() > 1 && !visibility {
                        paths.uses.push(Use { line, segments });
                    }
                }
                _ => at += 1,
            }
        }
        paths
    }
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |(_, text)| text)
}

/// Takes `a::b::c` from the tokens.
fn path(tokens: &[Token<'_>], at: &mut usize) -> Vec<String> {
    let mut segments = vec![tokens[*at].1.to_owned()];
    *at += 1;
    while text(tokens, *at) == "::" && is_word(text(tokens, *at + 1)) {
        segments.push(tokens[*at + 1].1.to_owned());
        *at += 2;
    }
    segments
}

/// Takes one tree of a `use`, such as `a::{b, c::d as e}`, from the tokens: full paths, each with its name here.
fn import_tree(tokens: &[Token<'_>], at: &mut usize, prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut segments = prefix.to_vec();
    while *at < tokens.len() {
        let token = tokens[*at].1;
        match token {
            "::" => *at += 1,
            "{" => {
                *at += 1;
                while !matches!(text(tokens, *at), "}" | "") {
                    import_tree(tokens, at, &segments, found);
                    *at += usize::from(text(tokens, *at) == ",");
                }
                *at += 1;
                return;
            }
            "*" => {
                *at += 1;
                found.push((segments, token.to_owned()));
                return;
            }
            "as" => {
                found.push((segments, text(tokens, *at + 1).to_owned()));
                *at += 2;
                return;
            }
            "self" if !segments.is_empty() => *at += 1,
            word if is_word(word) => {
                segments.push(word.to_owned());
                *at += 1;
            }
            _ => break,
        }
    }
    if let Some(name) = segments.last().cloned().filter(|_| segments.len() > prefix.len() || !prefix.is_empty()) {
        found.push((segments, name));
    }
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if is_part(first) {
            rest.find(|character| !is_part(character)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            found.push((code.len() - rest.len(), &rest[..length]));
        }
        rest = &rest[length..];
    }
    found
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn is_word(text: &str) -> bool {
    text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
}
