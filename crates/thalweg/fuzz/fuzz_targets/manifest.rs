//! A manifest: any bytes are read and applied without a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg::fuzzing::manifest(bytes));
