//! The rules of the house, as a test: every source of every crate is read, and every violation is reported at once as
//! `path:line: what`. `CONTRIBUTING.md` says what the rules are for.
//!
//! `source` splits a file into code and comments and knows which code is test code; `floors` has the rule of who may
//! import whom; `rules` has the others; `proofs` shows that each rule can fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tidy/floors.rs"]
mod floors;
#[path = "tidy/proofs.rs"]
mod proofs;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;

use source::Source;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One broken rule: the line, counted from 1, and what is wrong there.
type Violation = (usize, String);

/// Every file below `folder`, in the order of their names; what is built or hidden is left out.
fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "golden" && !name.starts_with('.') {
                files_below(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

fn read(root: &Path) -> (Vec<Source>, Vec<(String, String)>) {
    let mut paths = Vec::new();
    files_below(root, &mut paths);
    let mut sources = Vec::new();
    let mut texts = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension {
            "rs" => sources.push(Source::new(&name, &std::fs::read_to_string(&path).unwrap())),
            "md" | "toml" => texts.push((name, std::fs::read_to_string(&path).unwrap())),
            _ => {}
        }
    }
    (sources, texts)
}

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (mut sources, texts) = read(&root);
    assert!(sources.len() > 100, "only {} sources were found: the walk is broken", sources.len());

    let tests: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
    let mut report = Vec::new();
    for source in &mut sources {
        if source::is_test_file(&source.path, &tests) {
            source.test_only();
        }
        let mut violations = rules::check(source);
        violations.extend(floors::check(source));
        violations.sort();
        report.extend(violations.into_iter().map(|(line, what)| format!("{}:{line}: {what}", source.path)));
    }
    for (path, text) in &texts {
        report.extend(rules::machine_paths(text).into_iter().map(|(line, what)| format!("{path}:{line}: {what}")));
    }
    assert!(report.is_empty(), "{} violations\n{}\n", report.len(), report.join("\n"));
}
