//! A fast table: any bytes are opened and read in every way without a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg::fuzzing::fast_table(bytes));
