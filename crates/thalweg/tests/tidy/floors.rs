//! The floors of the engine: a module imports only from floors below its own.

use crate::Violation;
use crate::source::{Source, line_of};

const FLOORS: [(&str, u32); 22] = [
    ("memory", 0),
    ("format", 0),
    ("error", 0),
    ("metrics", 0),
    ("planted", 0),
    ("sync", 0),
    ("trace", 0),
    ("storage", 1),
    ("clock", 0),
    ("runtime", 2),
    ("log", 3),
    ("table", 3),
    ("fast_table", 3),
    ("cache", 3),
    ("lineage", 4),
    ("memtable", 4),
    ("keyspaces", 5),
    ("compaction", 5),
    ("directory", 5),
    ("fast_tier", 5),
    ("ordered", 6),
    ("database", 7),
];

/// The neighbours on one floor that may be imported, and by whom.
/// A decoder's failure is an error, and errors need no format.
const NEIGHBOURS: [(&str, &str); 4] =
    [("format", "error"), ("format", "memory"), ("table", "cache"), ("fast_table", "table")];

pub fn check(source: &Source) -> Vec<Violation> {
    let Some(inner) = source.path.strip_prefix("crates/thalweg/src/") else { return Vec::new() };
    if inner == "lib.rs" {
        return Vec::new();
    }
    let own = inner.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    let Some(floor) = floor_of(own) else { return vec![(1, format!("module `{own}` is on no floor"))] };
    let code = source.code_outside_tests();
    let mut violations = Vec::new();
    for (offset, module) in imports(&code, depth_of(inner)) {
        let refused = match floor_of(&module) {
            _ if module == own => None,
            None => Some(format!("`{own}` imports `{module}`, which is on no floor")),
            Some(theirs) if theirs < floor || NEIGHBOURS.contains(&(own, module.as_str())) => None,
            Some(theirs) => Some(format!("`{own}` (floor {floor}) imports `{module}` (floor {theirs})")),
        };
        violations.extend(refused.map(|what| (line_of(&code, offset), what)));
    }
    violations
}

fn floor_of(module: &str) -> Option<u32> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// How many `super::` lead from the file to the root of the crate.
fn depth_of(inner: &str) -> usize {
    inner.split('/').count() - usize::from(inner.ends_with("/mod.rs"))
}

/// Where a path that starts at the root of the crate names its first module.
fn imports(code: &str, depth: usize) -> Vec<(usize, String)> {
    let climb = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", climb.as_str()] {
        for (offset, _) in code.match_indices(prefix) {
            let before = code[..offset].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || matches!(before, '_' | ':' | '$') {
                continue;
            }
            let start = offset + prefix.len();
            let rest = &code[start..];
            if rest.starts_with('{') {
                found.extend(group(rest).into_iter().map(|(inner, module)| (start + inner, module)));
            } else {
                found.push((start, word(rest)));
            }
        }
    }
    found
}

/// The first names of a `{a::b, c::{d, e}}`.
fn group(text: &str) -> Vec<(usize, String)> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (offset, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(character, '{' | ',') {
            let rest = &text[offset + 1..];
            let module = word(rest.trim_start());
            if !module.is_empty() {
                found.push((offset + 1 + rest.len() - rest.trim_start().len(), module));
            }
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}
