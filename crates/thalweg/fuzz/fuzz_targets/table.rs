//! A table: any bytes are opened and walked both ways without a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg::fuzzing::table(bytes));
