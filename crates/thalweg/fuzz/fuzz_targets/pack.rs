//! A pack: any bytes are opened, listed, looked up in, scanned and checked without a panic, as they are and with every
//! checksum put right.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thalweg::fuzzing::pack(bytes);
    let mut sealed = bytes.to_vec();
    checksums::of_pack(&mut sealed);
    thalweg::fuzzing::pack(&sealed);
});
