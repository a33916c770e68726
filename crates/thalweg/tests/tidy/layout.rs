//! The rules on a crate as a whole: where tests lie, how long its files are, and what the head of a module names.

use crate::Violation;
use crate::paths::Paths;
use crate::source::Source;

const FILE_LINES_MEDIAN_MAX: usize = 170;

/// Test code lies at the end of a production file, or in a folder `tests/`; nothing else lies there.
pub fn tests(source: &Source, test_only: bool) -> Vec<Violation> {
    let Some((_, inner)) = source.path.split_once("/src/") else { return Vec::new() };
    let among_tests = inner.split('/').rev().skip(1).any(|folder| folder == "tests");
    match (among_tests, test_only) {
        (true, false) => vec![(1, "production code in a folder of tests".to_owned())],
        (false, true) => vec![(1, "a file of tests outside of a folder `tests/`".to_owned())],
        _ => Vec::new(),
    }
}

/// The head of a `mod.rs` names each of its files.
pub fn heads(source: &Source) -> Vec<Violation> {
    if !source.path.contains("/src/") || !source.path.ends_with("/mod.rs") {
        return Vec::new();
    }
    let head: String = source.text.iter().take_while(|line| line.starts_with("//!")).map(String::as_str).collect();
    let named: Vec<&str> = head.split('`').skip(1).step_by(2).collect();
    let children = Paths::new(&source.code_outside_tests()).children;
    let missing = children.iter().filter(|child| {
        let name = &child.segments[0];
        !named.iter().any(|word| *word == name || *word == format!("{name}.rs") || *word == format!("{name}/"))
    });
    missing.map(|child| (child.line, format!("the head does not name `{}`", child.segments[0]))).collect()
}

/// Half of the production files of a crate are short.
pub fn median(sources: &[&Source]) -> Option<String> {
    let mut lines: Vec<usize> = sources.iter().map(|source| source.text.len()).collect();
    lines.sort_unstable();
    let median = *lines.get(lines.len().checked_sub(1)? / 2)?;
    let what = || format!("the median of {} files is {median} lines, {FILE_LINES_MEDIAN_MAX} are allowed", lines.len());
    (median > FILE_LINES_MEDIAN_MAX).then(what)
}
