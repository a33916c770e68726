//! A log segment: any bytes are scanned and replayed without a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg::fuzzing::log_segment(bytes));
