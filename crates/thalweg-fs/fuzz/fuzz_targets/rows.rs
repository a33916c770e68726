//! Rows: any bytes are read as every kind of row, with the checksum put right, without a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| _ = thalweg_fs::fuzzing::rows(bytes));
