//! Any bytes as a log segment: as they are, and again with every checksum put right.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thalweg::fuzzing::log_segment(bytes);
    let mut sealed = bytes.to_vec();
    checksums::of_log_segment(&mut sealed);
    thalweg::fuzzing::log_segment(&sealed);
});
