//! A circle of files is found on small crates that have one, and not on crates that only look as if they had.

use crate::circles;
use crate::source::Source;

/// The circles of a crate of these files, each as its line and its text.
fn circles_of(files: &[(&str, &str)]) -> Vec<(usize, String)> {
    let sources: Vec<Source> =
        files.iter().map(|(path, text)| Source::new(&format!("crates/a/src/{path}"), text)).collect();
    let found = circles::check(&sources.iter().collect::<Vec<_>>());
    found.into_iter().map(|(_, (line, what))| (line, what.replace("crates/a/src/", ""))).collect()
}

#[track_caller]
fn refused(files: &[(&str, &str)], line: usize, circle: &str) {
    let found = circles_of(files);
    assert!(found.len() == 1 && found[0].0 == line && found[0].1.ends_with(circle), "{found:?} is not {circle}");
}

#[track_caller]
fn passes(files: &[(&str, &str)]) {
    assert_eq!(circles_of(files), []);
}

#[test]
fn files_that_use_each_other_are_a_circle() {
    refused(&[("a.rs", "use crate::b::B;\n"), ("b.rs", "\nuse super::a::A;\n")], 1, ": a.rs → b.rs → a.rs");
    refused(
        &[
            ("m/a.rs", "fn f() {\n    super::b::g();\n}\n"),
            ("m/b.rs", "use crate::{m::{self, c::{C, D}}, x};\n"),
            ("m/c.rs", "fn f(a: &crate::m::a::A) {}\n"),
            ("m/mod.rs", "mod a;\nmod b;\nmod c;\n"),
        ],
        2,
        "(of 3 in a knot): m/a.rs → m/b.rs → m/c.rs → m/a.rs",
    );
}

#[test]
fn one_knot_is_reported_once_by_its_shortest_circle() {
    let files = [
        ("a.rs", "use crate::b::B;\nuse crate::c::C;\n"),
        ("b.rs", "use crate::c::C;\n"),
        ("c.rs", "use crate::a::A;\n"),
        ("d.rs", "use crate::e::E;\n"),
        ("e.rs", "use crate::a::A;\n"),
    ];
    refused(&files, 2, "(of 3 in a knot): a.rs → c.rs → a.rs");
}

#[test]
fn an_item_of_mod_rs_counts_as_mod_rs() {
    let child = ("m/a.rs", "use super::Shared;\n");
    refused(&[child, ("m/mod.rs", "mod a;\nuse a::A;\nstruct Shared(A);\n")], 1, ": m/a.rs → m/mod.rs → m/a.rs");
    refused(&[child, ("m/mod.rs", "mod a;\nstruct Shared(a::A);\n")], 1, ": m/a.rs → m/mod.rs → m/a.rs");
    passes(&[("m/mod.rs", "mod a;\npub(crate) use a::A;\nstruct Shared;\n"), child]);
}

#[test]
fn a_path_leads_through_re_exports_to_the_file_that_defines_it() {
    let parent = ("m/mod.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B as C;\n");
    refused(
        &[parent, ("m/a.rs", "use super::C;\n"), ("m/b.rs", "use crate::m::A;\n")],
        1,
        ": m/a.rs → m/b.rs → m/a.rs",
    );
    passes(&[parent, ("m/a.rs", "use super::C;\n"), ("m/b.rs", "use std::io;\n")]);
    // A module imported as a whole, and used by its name.
    let user = ("n.rs", "use crate::m;\nfn f() {\n    m::A::new();\n}\n");
    refused(&[parent, ("m/a.rs", "use crate::n::N;\n"), user], 1, ": m/a.rs → n.rs → m/a.rs");
    passes(&[parent, ("m/b.rs", "use crate::n::N;\n"), ("m/a.rs", ""), user]);
}

#[test]
fn tests_and_comments_make_no_circle() {
    passes(&[("a.rs", "use crate::b::B;\n"), ("b.rs", "// use crate::a::A;\n")]);
    passes(&[("a.rs", "use crate::b::B;\n"), ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n")]);
    passes(&[("a.rs", "use crate::b::B;\n"), ("b.rs", "pub(in crate::a) struct B;\nuse a::A;\n")]);
}
