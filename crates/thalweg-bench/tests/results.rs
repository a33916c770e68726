//! `docs/results.md` follows from the stored reports in `docs/results`, byte for byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use thalweg_bench::report::results::{Results, stored};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn the_page_of_results_is_generated() {
    let directory = docs().join("results");
    let page = std::fs::read_to_string(docs().join("results.md")).unwrap();
    let claims = page.contains("`thalweg bench report docs/results --markdown docs/results.md` makes this page");
    if stored(&directory).unwrap().is_empty() {
        assert!(!claims, "docs/results.md claims to be generated, but docs/results holds no reports");
        return;
    }
    // Reports of different commits are refused here.
    let generated = Results::read(&directory).unwrap().markdown().unwrap();
    assert!(page == generated, "docs/results.md is not what `thalweg bench report docs/results` makes");
}
