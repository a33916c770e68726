//! The rules that look at one file at a time. Each is a function from a source to its violations.

use crate::Violation;
use crate::source::{Source, line_of};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const ARGUMENTS_MAX: usize = 7;
const LINE_CHARS_MAX: usize = 120;
/// How far above an `unsafe` its reason may stand.
const SAFETY_LINES_MAX: usize = 8;

/// The only files of the engine that reach the world, in `crates/thalweg/src/`; a name that ends in `/` is a folder.
const SEAMS: [&str; 3] = ["storage/linux/", "clock.rs", "runtime/threads.rs"];

/// What reaches the world: files, time, threads, chance.
const WORLD: [&str; 8] =
    ["fs", "Instant::now", "SystemTime", "thread::spawn", "thread::Builder", "thread::scope", "getrandom", "rand"];

/// The only files that may be unsafe: a prefetch; the memory of lists of spans; the memtable's memory and its list; the
/// rings; mapped files, the signal of a page that cannot be read, what the page cache has, and the allocator's free
/// memory; of the peers, what calls other engines' C interfaces, maps a file, or takes the place of the C library's
/// syncs; of the yardsticks, what calls for file handles.
const UNSAFE: [&str; 30] = [
    "crates/thalweg/src/directory/mapped_vec.rs",
    "crates/thalweg/src/format/prefetch.rs",
    "crates/thalweg/src/memtable/arena.rs",
    "crates/thalweg/src/memtable/entry.rs",
    "crates/thalweg/src/memtable/filter.rs",
    "crates/thalweg/src/memtable/leaf.rs",
    "crates/thalweg/src/memtable/list.rs",
    "crates/thalweg/src/memory/buffer.rs",
    "crates/thalweg/src/memory/pages.rs",
    "crates/thalweg/src/memory/region.rs",
    "crates/thalweg/src/memory/runs.rs",
    "crates/thalweg/src/memory/spans.rs",
    "crates/thalweg/src/memtable/position.rs",
    "crates/thalweg/src/memtable/slots.rs",
    "crates/thalweg/src/runtime/read_ring.rs",
    "crates/thalweg/src/runtime/ring.rs",
    "crates/thalweg/src/storage/linux/page_cache.rs",
    "crates/thalweg/src/storage/linux/extents.rs",
    "crates/thalweg/src/storage/linux/heap.rs",
    "crates/thalweg/src/storage/linux/mapping.rs",
    "crates/thalweg/src/storage/linux/read_mapping.rs",
    "crates/thalweg/src/storage/linux/sigbus.rs",
    "peers/src/leveldb/native/mod.rs",
    "peers/src/leveldb/native/rows.rs",
    "peers/src/library.rs",
    "peers/src/lmdb.rs",
    "peers/src/rocksdb/native/mod.rs",
    "peers/src/rocksdb/native/rows.rs",
    "peers/src/syncs.rs",
    "tests/fs/loopback/src/handle.rs",
];

/// The files whose functions have the signatures that a trait of another crate demands: fuser's `Filesystem`.
const SIGNATURES_OF_OTHERS: [&str; 3] =
    ["crates/thalweg-mount/src/serve.rs", "tests/fs/loopback/src/serve.rs", "tests/fs/null/src/serve.rs"];

/// The files that read what a disk may have damaged, in `crates/thalweg/src/`; a name that ends in `/` is a folder.
const DECODERS: [&str; 14] = [
    "database/status.rs",
    "fast_table/",
    "format/codec.rs",
    "table/",
    "log/scan.rs",
    "log/walk.rs",
    "log/slots.rs",
    "log/framing.rs",
    "log/header.rs",
    "log/search.rs",
    "log/record.rs",
    "log/segment.rs",
    "lineage/manifest/",
    "lineage/recovery.rs",
];

pub fn check(source: &Source) -> Vec<Violation> {
    let rules = [head, line_lengths, functions, seams, unsafety, decoders, leftovers];
    let mut violations: Vec<Violation> = rules.iter().flat_map(|rule| rule(source)).collect();
    violations.extend(machine_paths(&source.text.join("\n")));
    violations
}

/// Every file says at its head what it means.
fn head(source: &Source) -> Vec<Violation> {
    let first = source.text.first().map_or("", String::as_str);
    let said = first.strip_prefix("//!").is_some_and(|said| !said.trim().is_empty());
    if said { Vec::new() } else { vec![(1, "no `//!` head".to_owned())] }
}

fn line_lengths(source: &Source) -> Vec<Violation> {
    let lines = source.text.iter().enumerate();
    lines.filter_map(|(number, line)| too_long(line).map(|what| (number + 1, what))).collect()
}

fn too_long(line: &str) -> Option<String> {
    let chars = line.chars().count();
    (chars > LINE_CHARS_MAX).then(|| format!("{chars} characters in a line, {LINE_CHARS_MAX} are allowed"))
}

pub fn lines_in_file(source: &Source) -> Vec<Violation> {
    let lines = source.text.len();
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    vec![(lines, format!("{lines} lines in a file, {FILE_LINES_MAX} are allowed"))]
}

/// The lines of a page are short, outside of tables and blocks of code.
pub fn page_lines(text: &str) -> Vec<Violation> {
    let mut fenced = false;
    let mut violations = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let fence = start.starts_with("```");
        fenced ^= fence;
        if !fenced && !start.starts_with('|') && !line.starts_with("    ") {
            violations.extend(too_long(line).map(|what| (number + 1, what)));
        }
    }
    violations
}

/// No function outside tests takes many arguments, `self` among them, and no lint against them is lifted.
pub fn arguments(source: &Source) -> Vec<Violation> {
    if SIGNATURES_OF_OTHERS.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let code = source.code_outside_tests();
    let mut violations = Vec::new();
    for (offset, _) in words(&code, "fn") {
        let Some((name, count)) = arguments_of(&code[offset + 2..]) else { continue };
        if count > ARGUMENTS_MAX {
            let what = format!("function `{name}` takes {count} arguments, {ARGUMENTS_MAX} are allowed");
            violations.push((line_of(&code, offset), what));
        }
    }
    for (offset, _) in words(&code, "too_many_arguments") {
        violations.push((line_of(&code, offset), "`too_many_arguments` is lifted".to_owned()));
    }
    violations
}

/// The name of the function whose signature begins here, and how many arguments it takes.
fn arguments_of(text: &str) -> Option<(&str, usize)> {
    let text = text.trim_start();
    let name = &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_')?];
    let (mut open, mut angles, mut count, mut pending) = (0_usize, 0_usize, 0_usize, false);
    let mut before = ' ';
    for character in text[name.len()..].chars() {
        match character {
            '<' => angles += 1,
            '>' if before != '-' => angles = angles.saturating_sub(1),
            // A `(` among the generics of the function, as in `<F: Fn(u8)>`, opens no list.
            '(' | '[' | '{' if open > 0 || angles == 0 => open += 1,
            ')' | ']' | '}' if open == 1 => return Some((name, count + usize::from(pending))),
            ')' | ']' | '}' => open = open.saturating_sub(1),
            ',' if open == 1 && angles == 0 => {
                count += 1;
                pending = false;
            }
            _ => pending |= open > 0 && !character.is_whitespace(),
        }
        before = character;
    }
    None
}

/// No function outside tests is too long to be seen at once.
fn functions(source: &Source) -> Vec<Violation> {
    let code = source.code_outside_tests();
    let mut violations = Vec::new();
    for (offset, _) in words(&code, "fn") {
        let rest = &code[offset + 2..];
        let name: String = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(length) = body_end(rest).filter(|_| !name.is_empty()) else { continue };
        let lines = rest[..length].matches('\n').count() + 1;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("function `{name}` has {lines} lines, {FUNCTION_LINES_MAX} are allowed");
            violations.push((line_of(&code, offset), what));
        }
    }
    violations
}

/// Where the braces of the function whose signature begins here close. `None`: it has no body.
fn body_end(text: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => braces += 1,
            b'}' if braces <= 1 => return Some(offset),
            b'}' => braces -= 1,
            _ => {}
        }
    }
    None
}

/// Whether a file, or a folder that it is in, is in the list.
fn is_listed(inner: &str, list: &[&str]) -> bool {
    list.iter().any(|name| inner == *name || (name.ends_with('/') && inner.starts_with(name)))
}

/// The engine reaches the world through its seams only, or it could not be simulated.
fn seams(source: &Source) -> Vec<Violation> {
    let Some(inner) = source.path.strip_prefix("crates/thalweg/src/") else { return Vec::new() };
    if is_listed(inner, &SEAMS) {
        return Vec::new();
    }
    let code = source.code_outside_tests();
    let mut violations = Vec::new();
    for needle in WORLD {
        for (offset, _) in words(&code, needle) {
            violations.push((line_of(&code, offset), format!("`{needle}` outside the seams")));
        }
    }
    violations
}

/// `unsafe` lives in a few named files, and says why it is sound.
fn unsafety(source: &Source) -> Vec<Violation> {
    let named = UNSAFE.contains(&source.path.as_str());
    let code = source.code.join("\n");
    let mut violations = Vec::new();
    for (offset, _) in words(&code, "unsafe") {
        let line = line_of(&code, offset);
        let rest = code[offset + "unsafe".len()..].trim_start();
        if !named {
            violations.push((line, "`unsafe` in a file that is not named for it".to_owned()));
        }
        let reasons = &source.comments[line.saturating_sub(SAFETY_LINES_MAX + 1)..line];
        let reasoned = reasons.iter().any(|comment| comment.contains("// SAFETY:"));
        if (rest.starts_with('{') || rest.starts_with("impl")) && !reasoned {
            violations.push((line, "`unsafe` without `// SAFETY:` above it".to_owned()));
        }
    }
    violations
}

/// A damaged file is an error, never a panic.
fn decoders(source: &Source) -> Vec<Violation> {
    let Some(inner) = source.path.strip_prefix("crates/thalweg/src/") else { return Vec::new() };
    if !is_listed(inner, &DECODERS) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (number, line) in source.code.iter().enumerate().filter(|(number, _)| !source.test[*number]) {
        let above = number.saturating_sub(1);
        if source.comments[above..=number].iter().any(|comment| comment.contains("in bounds")) {
            continue;
        }
        for needle in [".unwrap()", ".expect("] {
            if line.contains(needle) {
                violations.push((number + 1, format!("`{needle}` in a decoder without an `in bounds` comment")));
            }
        }
        if indexes(line) {
            violations.push((number + 1, "indexing in a decoder without an `in bounds` comment".to_owned()));
        }
    }
    violations
}

/// Whether the line of code indexes something. `x[..]` takes all of it and cannot fail.
fn indexes(line: &str) -> bool {
    line.match_indices('[').any(|(offset, _)| {
        let before = line[..offset].chars().next_back().unwrap_or(' ');
        let indexed = before.is_alphanumeric() || matches!(before, '_' | ')' | ']' | '?');
        indexed && !line[offset..].starts_with("[..]")
    })
}

/// Nothing unfinished, and nothing left from a search for a mistake.
fn leftovers(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, (code, comment)) in source.code.iter().zip(&source.comments).enumerate() {
        for needle in ["todo!", "unimplemented!", "dbg!", "#[ignore"] {
            if code.contains(needle) {
                violations.push((number + 1, format!("`{needle}`")));
            }
        }
        for needle in ["TODO", "FIXME"] {
            if words(comment, needle).next().is_some() {
                violations.push((number + 1, format!("`{needle}`")));
            }
        }
    }
    violations
}

/// No file names a folder of the machine it was written on.
pub fn machine_paths(text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for folder in ["home", "root", "work"] {
            let needle = format!("/{folder}/");
            for (offset, _) in line.match_indices(&needle) {
                // `a/work/b` is a path of the tree, not of the machine.
                let before = line[..offset].chars().next_back().unwrap_or(' ');
                if !before.is_alphanumeric() && !matches!(before, '_' | '-' | '.' | '}' | '>') {
                    violations.push((number + 1, format!("a path of a machine, below /{folder}")));
                }
            }
        }
    }
    violations
}

/// Where `needle` stands in the text as a word or a path of its own.
fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(needle).filter(move |(offset, _)| {
        let before = text[..*offset].chars().next_back().unwrap_or(' ');
        let after = text[offset + needle.len()..].chars().next().unwrap_or(' ');
        !part(before) && !part(after)
    })
}
