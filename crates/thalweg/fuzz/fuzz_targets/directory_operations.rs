//! Operations on a directory keyspace of real files against a `BTreeMap` (`directory_operations.rs` of this crate).

#![no_main]

#[path = "../directory_operations.rs"]
mod directory_operations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-directories-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    directory_operations::run(&path, bytes);
});
