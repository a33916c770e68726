//! `docs/results.md` follows from the stored reports in `docs/results`, byte for byte; `docs/directory-results.md` from
//! those in `docs/results/directories`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use thalweg_bench::report::results::{Results, stored};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn check(directory: &str, page: &str) {
    let text = std::fs::read_to_string(docs().join(page)).unwrap();
    let claims =
        text.contains(&format!("`thalweg bench report docs/{directory} --markdown docs/{page}` makes this page"));
    let directory = docs().join(directory);
    if stored(&directory).unwrap().is_empty() {
        assert!(!claims, "docs/{page} claims to be generated, but {} holds no reports", directory.display());
        return;
    }
    // Reports of different commits are refused here.
    let generated = Results::read(&directory).unwrap().markdown().unwrap();
    assert!(text == generated, "docs/{page} is not what `thalweg bench report` makes");
}

#[test]
fn the_page_of_results_is_generated() {
    check("results", "results.md");
}

#[test]
fn the_page_of_directory_results_is_generated() {
    check("results/directories", "directory-results.md");
}
