//! Every rule fails on a small text that breaks it, and passes on one that only looks as if it did.

use crate::source::{Source, is_test_file};
use crate::{floors, layout, rules};
use std::collections::BTreeSet;

const ROOM: &str = "crates/thalweg/src/log/room.rs";
const DECODER: &str = "crates/thalweg/src/log/scan.rs";

fn check(path: &str, body: &str) -> Vec<(usize, String)> {
    let source = Source::new(path, &format!("//! A head.\n{body}"));
    let mut violations = rules::check(&source);
    violations.extend(floors::check(&source));
    violations.extend(rules::lines_in_file(&source));
    violations.extend(rules::arguments(&source));
    violations.extend(layout::heads(&source));
    violations.sort();
    violations
}

#[track_caller]
fn refused(path: &str, body: &str, line: usize, part: &str) {
    let violations = check(path, body);
    assert!(
        violations.len() == 1 && violations[0].0 == line && violations[0].1.contains(part),
        "{body:?}: {violations:?} is not one of line {line} with {part:?}"
    );
}

#[track_caller]
fn passes(path: &str, body: &str) {
    assert_eq!(check(path, body), [], "{body:?}");
}

#[test]
fn a_module_imports_only_from_below() {
    refused(ROOM, "use crate::lineage::Edit;\n", 2, "`log` (floor 3) imports `lineage` (floor 4)");
    refused(ROOM, "use crate::{\n    format::SeqNo,\n    database::{Builder, error},\n};\n", 4, "`database`");
    refused(ROOM, "fn f() {\n    let x = crate::ordered::view();\n}\n", 3, "`ordered`");
    refused(ROOM, "use super::super::lineage::Edit;\n", 2, "`lineage`");
    refused(ROOM, "use crate::table::Reader;\n", 2, "`table`");
    refused(ROOM, "use crate::Database;\n", 2, "on no floor");
    refused("crates/thalweg/src/cache/mod.rs", "use super::table::Reader;\n", 2, "`table`");
    refused("crates/thalweg/src/attic.rs", "", 1, "`attic` is on no floor");

    passes("crates/thalweg/src/table/reader.rs", "use crate::cache::Cache;\n");
    passes(ROOM, "use crate::{format::{SeqNo, log}, error::Error};\nuse crate::log::walk;\nuse super::lineage;\n");
    passes(ROOM, "// use crate::lineage::Edit;\nconst A: &str = \"crate::lineage::Edit\";\n");
    passes(ROOM, "#[cfg(test)]\nmod tests {\n    use crate::database::Database;\n}\n");
    passes("crates/thalweg/src/lib.rs", "pub use crate::database::Database;\n");
}

#[test]
fn the_world_is_reached_through_the_seams() {
    for world in ["std::fs::read(a)", "Instant::now()", "SystemTime::now()", "thread::spawn(f)", "rand::random()"] {
        refused(ROOM, &format!("fn f() {{\n    {world};\n}}\n"), 3, "outside the seams");
        passes("crates/thalweg/src/clock.rs", &format!("fn f() {{\n    {world};\n}}\n"));
        passes("crates/thalweg-cli/src/import.rs", &format!("fn f() {{\n    {world};\n}}\n"));
    }
    passes(ROOM, "fn operand(now: Instant) -> Brand {\n    f(\"std::fs\")\n}\n");
    passes(ROOM, "#[cfg(test)]\nuse std::fs;\n#[cfg(all(test, not(loom)))]\nfn f() {\n    Instant::now();\n}\n");
    refused(ROOM, "#[cfg(test)]\nfn f() {}\nuse std::fs;\n", 4, "`fs`");
    refused(ROOM, "use std::{\n    fs,\n    io,\n};\n", 3, "`fs`");
    refused(ROOM, "#[cfg(not(test))]\nuse std::fs;\n", 3, "`fs`");
}

#[test]
fn unsafe_code_is_named_and_reasoned() {
    let arena = "crates/thalweg/src/memtable/arena.rs";
    refused(arena, "fn f() {\n    unsafe { g() }\n}\n", 3, "SAFETY");
    refused(arena, "unsafe impl Send for A {}\n", 2, "SAFETY");
    refused(ROOM, "fn f() {\n    // SAFETY: it is fine.\n    unsafe { g() }\n}\n", 4, "not named");
    let far = format!("// SAFETY: far away.\n{}unsafe impl Send for A {{}}\n", "const A: u8 = 0;\n".repeat(8));
    refused(arena, &far, 11, "SAFETY");
    refused("peers/src/main.rs", "fn f() {\n    // SAFETY: it is fine.\n    unsafe { g() }\n}\n", 4, "not named");
    refused("peers/src/syncs.rs", "fn f() {\n    unsafe { g() }\n}\n", 3, "SAFETY");
    passes(arena, "// SAFETY: nothing is shared.\nunsafe impl Send for A {}\nunsafe fn f() {}\n");
    passes(ROOM, "// unsafe { }\nconst A: &str = \"unsafe {\";\nconst unsafe_code: u8 = 0;\n");
}

#[test]
fn a_file_has_a_head_and_an_end() {
    assert_eq!(rules::check(&Source::new(ROOM, "use std::io;\n")), [(1, "no `//!` head".to_owned())]);
    assert_eq!(rules::check(&Source::new(ROOM, "//!\nuse std::io;\n")), [(1, "no `//!` head".to_owned())]);
    refused(ROOM, &"\n".repeat(500), 501, "501 lines in a file");
    passes(ROOM, &"\n".repeat(499));
    refused(ROOM, &format!("// {}\n", "é".repeat(118)), 2, "121 characters");
    passes(ROOM, &format!("// {}\n", "é".repeat(117)));
}

#[test]
fn a_function_is_seen_at_once() {
    let long = |lines: usize| format!("fn long(a: [u8; 4]) {{\n{}}}\n", "    f('{', \"{\");\n".repeat(lines - 2));
    refused(ROOM, &long(71), 2, "function `long` has 71 lines");
    passes(ROOM, &long(70));
    passes(ROOM, &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long(80)));
    passes(ROOM, &format!("trait A {{\n    fn a();\n{}}}\ntype F = fn(u8);\n", "    const A: u8;\n".repeat(80)));
}

#[test]
fn a_function_takes_few_arguments() {
    let of = |count: usize| format!("fn many<F: Fn(u8, u8) -> u8>({}) {{}}\n", "a: (u8, [u8; 2]),\n".repeat(count));
    refused(ROOM, &of(8), 2, "function `many` takes 8 arguments");
    passes(ROOM, &of(7));
    refused(ROOM, "fn f(&self, a: A, b: A, c: A, d: A, e: A, f: A, g: A) {}\n", 2, "takes 8 arguments");
    passes(ROOM, "fn f(&self, a: B<u8, u8>, b: fn(u8, u8), c: A, d: A, e: A, f: A) {}\n");
    passes(ROOM, "fn f() {\n    g(1, 2, 3, 4, 5, 6, 7, 8);\n}\n");
    refused(ROOM, "#[expect(clippy::too_many_arguments, reason = \"so\")]\nfn f() {}\n", 2, "is lifted");
}

#[test]
fn tests_lie_apart_from_production_code() {
    let found = |path: &str, test_only| layout::tests(&Source::new(path, ""), test_only).pop().map(|(_, what)| what);
    let among_tests = "crates/thalweg/src/log/tests/replay.rs";
    assert!(found(among_tests, false).unwrap().contains("production code"));
    assert_eq!(found(among_tests, true), None);
    for outside in ["crates/thalweg/src/log/room_tests.rs", "crates/thalweg/src/log/tests.rs"] {
        assert!(found(outside, true).unwrap().contains("outside"));
    }
    assert_eq!(found(ROOM, false), None);
    assert_eq!(found("crates/thalweg/tests/model.rs", true), None);
}

#[test]
fn the_head_of_a_module_names_its_files() {
    let parent = "crates/thalweg/src/log/mod.rs";
    refused(parent, "//! `room.rs`: a room.\nmod room;\nmod walk;\n", 4, "does not name `walk`");
    passes(parent, "//! `room` and `walk/`.\nmod room;\npub(crate) mod walk;\n#[cfg(test)]\nmod tests;\n");
    passes(ROOM, "mod walk;\n");
}

#[test]
fn half_of_the_files_of_a_crate_are_short() {
    let of = |lines: usize| Source::new(ROOM, &"\n".repeat(lines));
    let (short, long, longer) = (of(170), of(171), of(400));
    assert!(layout::median(&[&long, &short, &longer]).unwrap().contains("the median of 3 files is 171 lines"));
    assert_eq!(layout::median(&[&long, &short]), None);
    assert_eq!(layout::median(&[&long, &short, &short]), None);
}

#[test]
fn the_lines_of_a_page_are_short() {
    let long = "word ".repeat(25);
    assert_eq!(rules::page_lines(&format!("# Title\n\n{long}\n")).len(), 1);
    for exempt in [format!("| {long} |\n"), format!("    {long}\n"), format!("```text\n{long}\n```\n")] {
        assert_eq!(rules::page_lines(&exempt), [], "{exempt}");
    }
    assert_eq!(rules::page_lines(&format!("```\na\n```\n{long}\n")).len(), 1);
}

#[test]
fn a_decoder_does_not_panic() {
    refused(DECODER, "fn f() {\n    a.unwrap();\n}\n", 3, "unwrap");
    refused(DECODER, "fn f() {\n    a.expect(\"b\");\n}\n", 3, "expect");
    for indexed in ["a[0]", "a()[1..]", "a[0..][..4]", "a?[b]"] {
        refused(DECODER, &format!("fn f() {{\n    {indexed};\n}}\n"), 3, "indexing");
        passes(ROOM, &format!("fn f() {{\n    {indexed};\n}}\n"));
        passes(DECODER, &format!("fn f() {{\n    {indexed}; // in bounds: b < a.len()\n}}\n"));
        passes(DECODER, &format!("fn f() {{\n    // The length was checked: in bounds.\n    {indexed};\n}}\n"));
        passes(DECODER, &format!("#[cfg(test)]\nmod tests {{\n    const A: u8 = {indexed};\n}}\n"));
    }
    refused("crates/thalweg/src/table/block/cursor.rs", "const A: u8 = B[0];\n", 2, "indexing");
    passes(
        DECODER,
        "#[inline]\nfn f<'a>(a: &'a [u8], b: [[u8; 2]; 2]) -> Box<[u8]> {\n    vec![a[..].unwrap_or(b)]\n}\n",
    );
}

#[test]
fn nothing_is_left_over() {
    for macro_name in ["todo", "unimplemented", "dbg"] {
        refused(ROOM, &format!("fn f() {{\n    {macro_name}!()\n}}\n"), 3, macro_name);
    }
    refused(ROOM, "#[ignore = \"slow\"]\nfn f() {}\n", 2, "#[ignore");
    for word in ["TODO", "FIXME"] {
        refused(ROOM, &format!("// {word}: later\n"), 2, word);
    }
    passes(ROOM, "// A METODO is none.\nconst A: &str = \"todo!\";\n");
}

#[test]
fn no_machine_is_named() {
    for folder in ["home", "root", "work"] {
        refused(ROOM, &format!("// see /{folder}/somebody\n"), 2, "a path of a machine");
        refused(ROOM, &format!("const A: &str = \"/{folder}/somebody\";\n"), 2, "a path of a machine");
        passes(ROOM, &format!("// see docs/{folder}/page\n"));
    }
}

#[test]
fn modules_declared_for_tests_are_test_code() {
    let source = Source::new(
        "crates/thalweg/src/log/mod.rs",
        "#[cfg(test)]\nmod fakes;\n#[cfg(test)]\n#[path = \"other_tests.rs\"]\nmod more;\nmod walk;\n",
    );
    let tests = BTreeSet::from_iter(source.test_modules());
    for (path, expected) in [
        ("crates/thalweg/src/log/fakes.rs", true),
        ("crates/thalweg/src/log/fakes/disk.rs", true),
        ("crates/thalweg/src/log/other_tests.rs", true),
        ("crates/thalweg/src/log/walk.rs", false),
        ("crates/thalweg/src/fakes.rs", false),
        ("crates/thalweg/tests/model.rs", true),
    ] {
        assert_eq!(is_test_file(path, &tests), expected, "{path}");
    }
}

#[test]
fn literals_and_comments_are_not_code() {
    let text =
        "let a = '\"'; /* b /* c */ d */ let e = r#\"f\"g\"#; let h: &'i str = \"j\\\"k\"; // l\nlet m = b'\\'';\n";
    let source = Source::new(ROOM, text);
    let squeezed: Vec<String> = source.code.iter().map(|line| line.replace(' ', "")).collect();
    assert_eq!(squeezed, ["leta=;lete=r#\"\"#;leth:&'istr=\"\";", "letm=b;"]);
    assert_eq!(source.comments[0].split_whitespace().collect::<String>(), "/*b/*c*/d*///l");
    assert_eq!(source.code[0].len(), source.text[0].len());
}
