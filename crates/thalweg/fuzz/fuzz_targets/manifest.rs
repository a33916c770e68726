//! Any bytes as a manifest: as they are, and again with every checksum put right.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thalweg::fuzzing::manifest(bytes);
    let mut sealed = bytes.to_vec();
    checksums::of_manifest(&mut sealed);
    thalweg::fuzzing::manifest(&sealed);
});
