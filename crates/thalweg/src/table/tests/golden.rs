//! A tiny table, byte for byte: a change of these bytes is a change of the format.

use super::bench::{Bench, options};
use super::entries::{put, tombstone};
use crate::table::{Compression, dump};
use expect_test::expect;

fn tiny() -> Bench {
    let bench = Bench::new(options(40, Compression::None, 10), 0);
    bench.write(&[
        put(b"bank", 3, b"left"),
        put(b"bank", 1, b"right"),
        tombstone(b"bed", 4),
        put(b"thalweg", 2, b"deep"),
    ]);
    bench
}

#[test]
fn the_bytes_of_a_tiny_table() {
    let bench = tiny();
    let bytes = bench.disk.contents(&bench.disk.names()[0]);
    let lines: Vec<String> = bytes
        .chunks(16)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    expect![[r#"
        00 04 04 62 61 6e 6b 01 03 00 00 00 00 00 00 6c
        65 66 74 04 00 05 01 01 00 00 00 00 00 00 72 69
        67 68 74 01 02 00 65 64 00 04 00 00 00 00 00 00
        00 00 00 00 01 00 00 00 00 89 00 e3 66 00 07 04
        74 68 61 6c 77 65 67 01 02 00 00 00 00 00 00 64
        65 65 70 00 00 00 00 01 00 00 00 00 e0 3b 47 8b
        00 00 00 00 00 00 00 08 00 00 00 00 20 00 00 00
        10 01 00 00 00 00 00 00 00 00 00 00 00 00 00 01
        08 00 00 00 80 20 20 00 00 40 04 10 00 00 00 00
        44 20 20 00 00 00 00 00 00 00 00 08 00 02 00 00
        06 00 a1 87 1e 6c 03 62 65 64 00 04 00 00 00 00
        00 00 00 38 38 07 74 68 61 6c 77 65 67 01 02 00
        00 00 00 00 00 3d 1e 1e 00 d4 51 a7 c4 01 07 04
        01 03 12 0d 01 04 02 60 01 0a 04 62 61 6e 6b 07
        74 68 61 6c 77 65 67 00 ab f0 5e 22 07 00 00 00
        00 00 00 00 a6 00 00 00 00 00 00 00 22 00 00 00
        00 00 00 00 60 00 00 00 00 00 00 00 41 00 00 00
        00 00 00 00 cd 00 00 00 00 00 00 00 1a 00 00 00
        00 00 00 00 44 9e 89 a6 01 00 00 00 74 68 61 6c
        77 65 67 54"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn the_dump_of_a_tiny_table() {
    let bench = tiny();
    let mut text = String::new();
    let path = bench.disk.names()[0].clone();
    dump(&*bench.environment.storage, &path, &mut |line| {
        text.push_str(&format!("{line}\n"));
        Ok(())
    })
    .unwrap();
    expect![[r#"
        table 7: 308 bytes
        filter at 96: 65 bytes, 10 bits a key
        index at 166: 34 bytes
        properties at 205: 26 bytes
        4 entries, 1 of them tombstones, of 3 keys; 18 key bytes, 13 value bytes
        2 data blocks in 96 bytes
        sequence numbers 1..=4
        keys "bank"..="thalweg"
        block 0 at 0: 56 bytes, 56 uncompressed, up to "bed" @4
          "bank" @3 = "left"
          "bank" @1 = "right"
          "bed" @4 removed
        block 1 at 61: 30 bytes, 30 uncompressed, up to "thalweg" @2
          "thalweg" @2 = "deep"
    "#]]
    .assert_eq(&text);
}
