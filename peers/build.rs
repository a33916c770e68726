//! Exports the counted system calls of `src/syncs.rs`, so that libraries that are loaded later bind to them.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for symbol in ["fsync", "fdatasync", "msync", "sync_file_range"] {
        for target in ["bins", "tests"] {
            println!("cargo:rustc-link-arg-{target}=-Wl,--export-dynamic-symbol={symbol}");
        }
    }
}
