//! The rules of the house, as a test: every source of every crate is read, and every violation is reported at once as
//! `path:line: what`. `CONTRIBUTING.md` says what the rules are for.
//!
//! In reading order: `source` splits a file into code and comments and knows which code is test code; `rules` has the
//! rules on one file; `floors` the rule of who may import whom; `paths` reads imports and `circles` follows them;
//! `layout` has the rules on a crate; `not_yet` lists what is exempt; `proofs` and `circle_proofs` show that each rule
//! can fail.
//!
//! `cargo test -p thalweg --test tidy -- --nocapture what_is_left` prints what the exempt modules still break.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod circle_proofs;
mod circles;
mod floors;
mod layout;
mod not_yet;
mod paths;
mod proofs;
mod rules;
mod source;

use not_yet::NOT_YET;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
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

/// A violation, with the rule and the file.
struct Finding {
    rule: &'static str,
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn exempt(&self) -> bool {
        NOT_YET.iter().any(|(rule, prefix)| *rule == self.rule && self.path.starts_with(prefix))
    }
}

/// Applies every rule to every file of the workspace.
fn check_all() -> Vec<Finding> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (mut sources, texts) = read(&root);
    assert!(sources.len() > 100, "only {} sources were found: the walk is broken", sources.len());

    let tests: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
    let mut findings = Vec::new();
    let mut crates: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, source) in sources.iter_mut().enumerate() {
        let test_only = source::is_test_file(&source.path, &tests);
        if test_only {
            source.test_only();
        } else if let Some((name, _)) = source.path.split_once("/src/") {
            crates.entry(name.to_owned()).or_default().push(number);
        }
        let rules = [
            ("file", rules::check(source)),
            ("floors", floors::check(source)),
            ("sizes", rules::lines_in_file(source)),
            ("arguments", rules::arguments(source)),
            ("tests", layout::tests(source, test_only)),
            ("heads", layout::heads(source)),
        ];
        let path = source.path.clone();
        let all = rules.into_iter().flat_map(|(rule, found)| found.into_iter().map(move |found| (rule, found)));
        findings.extend(all.map(|(rule, (line, what))| Finding { rule, path: path.clone(), line, what }));
    }
    for (name, members) in &crates {
        let members: Vec<&Source> = members.iter().map(|member| &sources[*member]).collect();
        let circles = circles::check(&members);
        findings.extend(circles.into_iter().map(|(path, (line, what))| Finding { rule: "circles", path, line, what }));
        findings.extend(layout::median(&members).map(|what| Finding {
            rule: "median",
            path: name.clone(),
            line: 1,
            what,
        }));
    }
    for (path, text) in &texts {
        let paths = rules::machine_paths(text).into_iter().map(|found| ("file", found));
        let lines = if path.ends_with(".md") { rules::page_lines(text) } else { Vec::new() };
        let all = paths.chain(lines.into_iter().map(|found| ("pages", found)));
        findings.extend(all.map(|(rule, (line, what))| Finding { rule, path: path.clone(), line, what }));
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

#[test]
fn the_tree_is_tidy() {
    let findings = check_all();
    let report: Vec<String> = findings
        .iter()
        .filter(|finding| !finding.exempt())
        .map(|Finding { rule, path, line, what }| format!("{path}:{line}: {what} ({rule})"))
        .collect();
    assert!(report.is_empty(), "{} violations\n{}\n", report.len(), report.join("\n"));
}

/// Prints, with `--nocapture`, what the exemptions of `not_yet` hide, by module and rule, and which hide nothing.
#[test]
#[expect(clippy::print_stdout, reason = "its purpose")]
fn what_is_left() {
    let findings = check_all();
    let mut left: BTreeMap<(String, &str), Vec<&Finding>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.exempt()) {
        let module: Vec<&str> = finding.path.split('/').take(4).collect();
        left.entry((module.join("/"), finding.rule)).or_default().push(finding);
    }
    for ((module, rule), findings) in &left {
        println!("{module} ({rule}): {}", findings.len());
        for Finding { path, line, what, .. } in findings {
            println!("    {path}:{line}: {what}");
        }
    }
    for (rule, prefix) in NOT_YET {
        let used = findings.iter().any(|finding| finding.rule == rule && finding.path.starts_with(prefix));
        if !used {
            println!("nothing is left of {prefix:?} ({rule}): remove it from `not_yet.rs`");
        }
    }
}
