//! Every example is run by `cargo test`: it stands in the manifest with `test = true`, as a program without a harness.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

#[test]
fn every_example_is_run_by_the_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let mut examples = 0;
    for entry in std::fs::read_dir(root.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let entry = format!("[[example]]\nname = \"{name}\"\ntest = true\nharness = false\n");
        assert!(manifest.contains(&entry), "Cargo.toml lacks:\n{entry}");
        examples += 1;
    }
    assert!(examples >= 19, "{examples} examples");
}
