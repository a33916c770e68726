//! What Thalweg depends on, and what is shipped: licences, sources, banned crates, versions and features, as
//! `cargo metadata` and `cargo tree` tell them for Linux on x86-64.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A dependency is accepted under any of these.
const LICENCES: [&str; 4] = ["MIT", "Apache-2.0", "BSL-1.0", "Unicode-3.0"];

/// The direct dependencies of the engine, optional ones included.
const DEPENDENCIES_OF_THE_ENGINE: [&str; 10] =
    ["arc-swap", "bytes", "crc-fast", "io-uring", "libc", "lz4_flex", "rustix", "siphasher", "tracing", "xxhash-rust"];

/// Crates that the workspace does not use: runtimes, and replacements for the engine's own craft.
const BANNED: [&str; 10] = [
    "anyhow",
    "async-std",
    "bincode",
    "chrono",
    "crossbeam-skiplist",
    "dashmap",
    "memmap2",
    "openssl-sys",
    "rkyv",
    "tokio",
];

/// Features for tests. Nothing that is shipped enables them.
const TEST_FEATURES: [&str; 2] = ["simulation", "planted-bugs"];

#[test]
fn every_dependency_has_a_licence_that_is_accepted() {
    let metadata = metadata();
    for package in packages(&metadata) {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(accepted(licence), "{} has the licence {licence:?}", package["name"]);
    }
}

#[test]
fn every_dependency_comes_from_the_registry_or_the_workspace() {
    let metadata = metadata();
    for package in packages(&metadata) {
        let registry = package["source"].as_str().is_none_or(|source| {
            source.starts_with("registry+https://") && source.ends_with("/rust-lang/crates.io-index")
        });
        assert!(registry, "{} comes from {}", package["name"], package["source"]);
    }
}

#[test]
fn no_banned_crate_is_used_and_the_engine_uses_few() {
    let metadata = metadata();
    let names: BTreeSet<&str> = packages(&metadata).map(|package| package["name"].as_str().unwrap()).collect();
    let banned: Vec<&&str> = BANNED.iter().filter(|name| names.contains(**name)).collect();
    assert!(banned.is_empty(), "{banned:?}");

    let engine = packages(&metadata).find(|package| package["name"] == "thalweg").unwrap();
    let direct = engine["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null());
    let direct: BTreeSet<&str> = direct.map(|dependency| dependency["name"].as_str().unwrap()).collect();
    assert_eq!(direct, BTreeSet::from(DEPENDENCIES_OF_THE_ENGINE));
}

#[test]
fn what_is_published_says_what_it_is_and_names_versions() {
    let metadata = metadata();
    let members = packages(&metadata).filter(|package| package["source"].is_null() && package["publish"].is_null());
    let mut names = Vec::new();
    for package in members {
        let name = package["name"].as_str().unwrap();
        names.push(name);
        for field in ["description", "license", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let version = dependency["req"].as_str().unwrap();
            assert!(version != "*" || dependency["kind"] == "dev", "{name}: {} has no version", dependency["name"]);
        }
    }
    names.sort_unstable();
    assert_eq!(names, ["thalweg", "thalweg-bench", "thalweg-cli", "thalweg-fs", "thalweg-mount"]);
}

#[test]
fn what_is_shipped_has_no_features_for_tests() {
    for package in ["thalweg", "thalweg-cli"] {
        let tree = cargo(&["tree", "--locked", "--edges", "features,no-dev", "--package", package]);
        assert!(tree.contains("thalweg v"), "{tree}");
        for feature in TEST_FEATURES {
            assert!(!tree.contains(&format!("feature \"{feature}\"")), "{package} enables {feature}:\n{tree}");
        }
    }
}

#[test]
fn a_licence_is_accepted_only_if_its_terms_are() {
    for licence in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "BSL-1.0 AND MIT"] {
        assert!(accepted(licence), "{licence}");
    }
    for licence in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR LGPL-3.0) AND MIT", "MIT WITH Something"] {
        assert!(!accepted(licence), "{licence}");
    }
}

/// Whether an SPDX expression can be met with the licences of the list. `AND` binds closer than `OR`.
fn accepted(licence: &str) -> bool {
    let spaced = licence.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words) && words.next().is_none()
}

type Words<'a, 'b> = &'b mut std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: Words<'_, '_>) -> bool {
    let mut met = all(words);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words);
    }
    met
}

fn all(words: Words<'_, '_>) -> bool {
    let mut met = one(words);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words);
    }
    met
}

fn one(words: Words<'_, '_>) -> bool {
    match words.next() {
        Some("(") => {
            let met = any(words);
            met && words.next() == Some(")")
        }
        name => {
            let exception = words.next_if_eq(&"WITH").and_then(|_| words.next());
            name.is_some_and(|name| LICENCES.contains(&name)) && exception.is_none_or(|name| name == "LLVM-exception")
        }
    }
}

fn metadata() -> Value {
    let text =
        cargo(&["metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    serde_json::from_str(&text).unwrap()
}

/// Returns the packages that are used on this platform.
fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeMap<&str, ()> = nodes.iter().map(|node| (node["id"].as_str().unwrap(), ())).collect();
    let all = metadata["packages"].as_array().unwrap().iter();
    all.filter(move |package| used.contains_key(package["id"].as_str().unwrap()))
}

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
