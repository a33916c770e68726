//! The pages name files that exist, and their links lead to files and headings that exist.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a page's paths may begin, beside the page's own folder.
const ROOTS: [&str; 9] = [
    "",
    "crates/thalweg",
    "crates/thalweg/src",
    "crates/thalweg-bench/src",
    "crates/thalweg-cli/src",
    "crates/thalweg-fs/src",
    "crates/thalweg-mount/src",
    "crates/thalweg-sim/src",
    "peers/src",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file of the tree with one of these endings.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// What stands between back-quotes and looks like a source file.
fn named_files(text: &str) -> BTreeSet<&str> {
    let is_path = |name: &&str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        name.ends_with(".rs") && name.len() > "a.rs".len() && name.chars().all(is_plain)
    };
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path).collect()
}

/// The links within the tree: the path, empty for the same page, and the name of a heading, empty for none.
fn links(text: &str) -> BTreeSet<(&str, &str)> {
    let targets = text.match_indices("](").filter_map(|(at, open)| text[at + open.len()..].split(')').next());
    let within = targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace));
    within.map(|target| target.split_once('#').unwrap_or((target, ""))).collect()
}

/// The names by which links refer to the headings of a page: lower case, blanks as hyphens, no other punctuation. No
/// page has two headings of one name.
fn headings(text: &str) -> BTreeSet<String> {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let name = |title: &str| title.to_lowercase().replace(' ', "-").chars().filter(is_kept).collect();
    let outside_code = text.split("```").step_by(2);
    outside_code
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix('#')?.split_once(' '))
        .map(|(_, title)| name(title))
        .collect()
}

/// Whether the file of a link from a page in `folder` exists, with its heading if it is a page.
fn leads_somewhere(folder: &Path, page: &Path, (path, heading): (&str, &str)) -> bool {
    let target = if path.is_empty() { page.to_owned() } else { folder.join(path) };
    let has_heading = || headings(&std::fs::read_to_string(&target).unwrap()).contains(heading);
    target.exists() && (heading.is_empty() || has_heading())
}

#[test]
fn what_a_page_names_exists() {
    let (mut pages, mut sources, root) = (Vec::new(), Vec::new(), root());
    files(&root, &[".md"], &mut pages);
    files(&root, &[".rs"], &mut sources);
    let names: BTreeSet<_> = sources.iter().map(|source| source.file_name().unwrap().to_owned()).collect();
    let mut wrong = Vec::new();
    for page in pages {
        let (text, folder) = (std::fs::read_to_string(&page).unwrap(), page.parent().unwrap());
        for name in named_files(&text) {
            let is_there = folder.join(name).exists() || ROOTS.iter().any(|from| root.join(from).join(name).exists());
            let is_known = !name.contains('/') && names.contains(std::ffi::OsStr::new(name));
            if !is_there && !is_known {
                wrong.push(format!("{}: `{name}`", page.display()));
            }
        }
        let dead = links(&text).into_iter().filter(|&link| !leads_somewhere(folder, &page, link));
        wrong.extend(dead.map(|(path, heading)| format!("{}: ]({path}#{heading})", page.display())));
    }
    assert!(wrong.is_empty(), "no such file or heading:\n{}", wrong.join("\n"));
}

#[test]
fn names_and_links_are_found_in_text() {
    let text = "`log/scan.rs`, `x.y()` and [a](b.md#c), [d](https://e.f/g.md)\n`a b.rs` `mod.rs`";
    assert_eq!(named_files(text).into_iter().collect::<Vec<_>>(), ["log/scan.rs", "mod.rs"]);
    assert_eq!(links(text).into_iter().collect::<Vec<_>>(), [("b.md", "c")]);
    let page = "# Late tables\n```sh\n# a comment\n```\n## `PMB-E3`: why 1/128?\n";
    assert_eq!(headings(page).into_iter().collect::<Vec<_>>(), ["late-tables", "pmb-e3-why-1128"]);
}
