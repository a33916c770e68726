//! A data block: any bytes are walked both ways without a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg::fuzzing::block(bytes));
