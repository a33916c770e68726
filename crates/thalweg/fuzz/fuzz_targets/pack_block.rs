//! A block of a pack: any bytes are decoded without a panic, as they are and with the right checksum.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| thalweg::fuzzing::pack_block(bytes));
