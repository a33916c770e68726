//! Every number of a paper that the tree cites has its line in `docs/papers.md`, and every line is cited or marked.
//!
//! A citation is a prefix, a dash and a number (`NOB-A2`), or `X` and a number in a comment or a page. A range
//! (`VLSM-1 to VLSM-10`, `NOB-1…9`) cites all of its numbers, a list (`NOB-3, 4, 7; A1`) each of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const PAPERS: &str = "docs/papers.md";

/// Folders that hold text of the project.
const FOLDERS: [&str; 4] = ["crates", "docs", "peers", "tests"];

/// The prefixes of the papers' numbers.
const PREFIXES: [&str; 4] = ["NOB-", "VLSM-", "PMB-", "PHAT-"];

/// A number with its prefix, without a dash: `NOB` and `A2`.
type Number = (String, String);

/// Where each number is cited first: `path:line`.
type Citations = BTreeMap<Number, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The texts of the tree, with their paths relative to the root.
fn texts() -> Vec<(String, String)> {
    let root = root();
    let mut paths: Vec<PathBuf> = FOLDERS.iter().flat_map(|folder| files_below(&root.join(folder))).collect();
    let top = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(top.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        // Golden files and such are no text.
        Some((name, std::fs::read_to_string(&path).ok()?))
    };
    paths.into_iter().filter_map(read).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "golden" && !name.starts_with('.') {
                found.extend(files_below(&path));
            }
        } else if !name.ends_with(".lock") && !name.ends_with(".json") {
            found.push(path);
        }
    }
    found
}

/// A number at the beginning of a text, with its length: `A2`, `10`.
fn number(text: &str) -> Option<(String, usize)> {
    let letter = usize::from(text.starts_with(['A', 'E']));
    let digits = text[letter..].bytes().take_while(u8::is_ascii_digit).count();
    let end = letter + digits;
    let goes_on = text[end..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    (digits > 0 && !goes_on).then(|| (text[..end].to_owned(), end))
}

/// What may stand between two numbers, and whether it makes a range.
const BETWEEN: [(&str, bool); 8] = [
    (" to ", true),
    ("…", true),
    ("–", true),
    (", and ", false),
    (", ", false),
    ("; ", false),
    (" and ", false),
    (" or ", false),
];

/// The numbers that a text cites right after `prefix`: those written in full, and those of ranges and lists.
fn cited(text: &str, prefix: &str) -> (Vec<String>, Vec<String>) {
    let Some((first, mut at)) = number(text) else { return (Vec::new(), Vec::new()) };
    let (full, mut more, mut last) = (vec![first.clone()], Vec::new(), first);
    while let Some((between, range)) = BETWEEN.iter().find(|(between, _)| text[at..].starts_with(between)) {
        let mut from = at + between.len();
        if text[from..].starts_with(prefix) {
            from += prefix.len();
        }
        let Some((next, length)) = number(&text[from..]) else { break };
        at = from + length;
        if *range {
            more.extend(through(&last, &next));
        }
        more.push(next.clone());
        last = next;
    }
    (full, more)
}

/// The numbers from one to another, of the same sort: `A1` to `A3`.
fn through(from: &str, to: &str) -> Vec<String> {
    let split = |number: &str| {
        let letter: String = number.chars().take_while(char::is_ascii_alphabetic).collect();
        let value: u32 = number[letter.len()..].parse().unwrap();
        (letter, value)
    };
    let ((letter, from), (other, to)) = (split(from), split(to));
    if letter != other {
        return Vec::new();
    }
    (from..to).map(|value| format!("{letter}{value}")).collect()
}

/// What a text cites: in full, and besides by ranges and lists.
fn citations(path: &str, text: &str) -> (Citations, BTreeSet<Number>) {
    let (mut full, mut more) = (Citations::new(), BTreeSet::new());
    let code = path.ends_with(".rs");
    for (index, line) in text.lines().enumerate() {
        let place = || format!("{path}:{}", index + 1);
        for prefix in PREFIXES {
            for (offset, _) in line.match_indices(prefix) {
                let (exact, others) = cited(&line[offset + prefix.len()..], prefix);
                let named = |number: String| (prefix.trim_end_matches('-').to_owned(), number);
                for number in exact {
                    full.entry(named(number)).or_insert_with(place);
                }
                more.extend(others.into_iter().map(named));
            }
        }
        let comment = line.find("//").unwrap_or(if code { line.len() } else { 0 });
        for (offset, _) in line.match_indices('X').filter(|(offset, _)| *offset >= comment) {
            let begins = !line[..offset].ends_with(|before: char| before.is_alphanumeric() || before == '_');
            let digits = number(&line[offset + 1..]).filter(|(number, _)| !number.starts_with(['A', 'E']));
            if let (true, Some((number, _))) = (begins, digits) {
                full.entry(("X".to_owned(), number)).or_insert_with(place);
            }
        }
    }
    (full, more)
}

/// The numbers that have a line in the page on the papers, and whether they are marked as not cited.
fn lines(page: &str) -> BTreeMap<Number, bool> {
    let mut lines = BTreeMap::new();
    for line in page.lines() {
        let Some(cell) = line.strip_prefix("| ").and_then(|line| line.split(" |").next()) else { continue };
        let (name, marked) = match cell.strip_suffix(" †") {
            Some(name) => (name, true),
            None => (cell, false),
        };
        let split = name.split_once('-').or_else(|| name.strip_prefix('X').map(|number| ("X", number)));
        let Some((prefix, rest)) = split else { continue };
        if number(rest).is_some_and(|(_, length)| length == rest.len()) {
            let twice = lines.insert((prefix.to_owned(), rest.to_owned()), marked).is_some();
            assert!(!twice, "{PAPERS} has two lines for {name}");
        }
    }
    lines
}

fn name((prefix, number): &Number) -> String {
    if prefix == "X" { format!("X{number}") } else { format!("{prefix}-{number}") }
}

#[test]
fn every_cited_number_has_its_line_and_every_line_is_cited_or_marked() {
    let texts = texts();
    let (mut full, mut more) = (Citations::new(), BTreeSet::new());
    for (path, text) in texts.iter().filter(|(path, _)| path != PAPERS && !path.ends_with("tests/citations.rs")) {
        let (exact, others) = citations(path, text);
        for (number, place) in exact {
            full.entry(number).or_insert(place);
        }
        more.extend(others);
    }
    assert!(full.len() > 40, "only {} numbers were found: the walk is broken", full.len());
    let page = &texts.iter().find(|(path, _)| path == PAPERS).unwrap().1;
    let lines = lines(page);
    let mut wrong: Vec<String> = full
        .iter()
        .filter(|(number, _)| !lines.contains_key(*number))
        .map(|(number, place)| format!("{place}: {} has no line in {PAPERS}", name(number)))
        .collect();
    let cited = |number: &Number| full.contains_key(number) || more.contains(number);
    let idle = lines.iter().filter(|(number, marked)| !**marked && !cited(number));
    wrong.extend(idle.map(|(number, _)| format!("{PAPERS}: {} is not cited, and not marked with †", name(number))));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn nothing_cites_a_design_that_is_not_in_the_tree() {
    let cites = |text: &str| {
        let after = text.match_indices("DESIGN").map(|(offset, word)| &text[offset + word.len()..]);
        after
            .filter(|rest| rest.trim_start_matches([' ', '.', 'm', 'd', ',']).starts_with(|c: char| c.is_ascii_digit()))
            .count()
    };
    let wrong: Vec<String> = texts()
        .iter()
        .filter(|(path, text)| !path.ends_with("tests/citations.rs") && cites(text) > 0)
        .map(|(path, _)| path.clone())
        .collect();
    assert!(wrong.is_empty(), "these files cite sections of a design that is not in the tree: {}", wrong.join(", "));
}

#[test]
fn numbers_are_read_from_text() {
    let find = |text: &str| {
        let (full, more) = citations("a.md", text);
        let all: BTreeSet<Number> = full.into_keys().chain(more).collect();
        all.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(find("as NOB-A2 says (X3; VLSM-12's)"), "NOB-A2 VLSM-12 X3");
    assert_eq!(find("NOB-1…3 and NOB-A1…A2"), "NOB-1 NOB-2 NOB-3 NOB-A1 NOB-A2");
    assert_eq!(find("PMB-13 to 16, PMB-A6"), "PMB-13 PMB-14 PMB-15 PMB-16 PMB-A6");
    assert_eq!(find("VLSM-1 to VLSM-3; NOB-3, 4; A1"), "NOB-3 NOB-4 NOB-A1 VLSM-1 VLSM-2 VLSM-3");
    assert_eq!(find("NOB-E, PAX3, X86_64, `nob-e2`"), "");
    assert_eq!(citations("a.rs", "let X1 = 1; // X2").0.into_keys().map(|n| name(&n)).collect::<Vec<_>>(), ["X2"]);
    let page = "| NOB-A2 | says |\n| PMB-1 † | says |\n| X3 | says |\n| NOB | title |\n";
    assert_eq!(
        lines(page).iter().map(|(n, marked)| (name(n), *marked)).collect::<Vec<_>>(),
        [("NOB-A2".to_owned(), false), ("PMB-1".to_owned(), true), ("X3".to_owned(), false)]
    );
}
