//! A tiny pack, byte for byte: a change of these bytes is a change of the format.

use crate::error::ErrorKind;
use crate::format::{EntryKey, EntryKind, HashKey, SeqNo, TableId, key};
use crate::table::pack::check::check_pack;
use crate::table::pack::{Format, Place};
use crate::table::tests::bench::{Bench, options};
use crate::table::{Compression, PackWriters, TableMeta, TableOptions, dump};
use expect_test::expect;

const KEY: HashKey = HashKey(*b"a golden hashkey");

/// A directory, a name, a sequence number, and a value or a tombstone.
pub(super) type Given<'a> = (u64, &'a [u8], u64, Option<&'a [u8]>);

/// Writes entries of directories, given in any order.
pub(super) fn write(bench: &Bench, entries: &[Given]) -> TableMeta {
    let mut keyed: Vec<_> = entries
        .iter()
        .map(|(directory, name, seq, value)| (EntryKey::new(*directory, name, &KEY).to_bytes(), *seq, *value))
        .collect();
    keyed.sort_by(|a, b| key::compare((&a.0, SeqNo(a.1)), (&b.0, SeqNo(b.1))));
    bench.write_with(async |writers| {
        let writers = PackWriters { writers: &writers, hash_key: KEY };
        let mut writer = writers.create(0).await.unwrap();
        let mut before: &[u8] = &[];
        for (key, seq, value) in &keyed {
            let kind = if value.is_some() { EntryKind::Put } else { EntryKind::Remove };
            let shared = key::shared_bytes(before, key);
            if writer.add(key, shared, SeqNo(*seq), kind, value.unwrap_or_default()) {
                writer.write().await.unwrap();
            }
            before = key;
        }
        writer.finish().await.unwrap()
    })
}

/// Three directories: one with a block, one with two blocks, one with an extent.
fn tiny() -> Bench {
    let options = TableOptions { pack_block_bytes: 40, ..options(4096, Compression::None, 10) };
    let bench = Bench::new(options, 0);
    write(
        &bench,
        &[
            (1, b"lib.rs", 12, Some(b"mode 644")),
            (1, b"main.rs", 11, None),
            (1, b"main.rs", 10, Some(b"mode 600")),
            (300, b"a", 20, Some(b"1")),
            (300, b"b", 21, Some(b"2")),
            (300, b"c", 22, Some(b"")),
            (300, b"d", 5, Some(b"a value that has some bytes")),
            (u64::MAX, b"long", 30, Some(&[b'e'; 2080])),
        ],
    );
    bench
}

/// Lines of 16 bytes; `*` for lines like the one before.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in bytes.chunks(16) {
        let line = line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let is_again = lines.iter().rev().find(|before| *before != "*") == Some(&line);
        match lines.last() {
            Some(before) if is_again && before == "*" => {}
            _ => lines.push(if is_again { "*".into() } else { line }),
        }
    }
    lines.join("\n")
}

#[test]
fn the_bytes_of_a_tiny_pack() {
    let bench = tiny();
    let bytes = bench.disk.contents(&bench.disk.names()[0]);
    expect![[r#"
        07 f5 eb eb 38 00 09 0a 03 8a 8a 28 01 00 02 1c
        6d 61 69 6e 2e 72 73 1d 6d 61 69 6e 2e 72 73 08
        6d 6f 64 65 20 36 30 30 19 6c 69 62 2e 72 73 08
        6d 6f 64 65 20 36 34 34 24 f8 35 e3 30 00 09 05
        02 49 ad 00 0f 05 64 1b 61 20 76 61 6c 75 65 20
        74 68 61 74 20 68 61 73 20 73 6f 6d 65 20 62 79
        74 65 73 05 61 01 31 00 26 d4 98 a8 18 00 09 15
        02 9d 42 01 00 05 63 00 05 62 01 32 00 00 00 00
        fc cf 0f 56 18 00 01 1e 01 37 12 6c 6f 6e 67 a0
        10 00 00 00 00 00 00 00 65 65 65 65 65 65 65 65
        65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65
        *
        65 65 65 65 65 65 65 65 8a 7c 7d 6a 00 00 00 00
        02 80 00 00 00 20 40 20 00 00 00 00 00 00 00 26
        00 00 40 31 01 00 80 00 40 40 00 00 00 06 00 00
        00 04 22 00 80 01 00 00 00 01 00 00 00 01 00 41
        85 30 42 80 00 00 00 40 40 40 00 00 00 10 10 00
        06 00 8f 11 4b fb 61 20 67 6f 6c 64 65 6e 20 68
        61 73 68 6b 65 79 03 01 01 00 07 ab 02 02 00 06
        00 03 70 9f 50 77 d3 fd ff ff ff ff ff ff ff 01
        01 00 03 00 d4 28 8d c9 01 07 08 01 07 9c 01 cd
        10 05 1e 04 c0 11 01 0a 17 00 00 00 00 00 00 00
        01 0e dc 75 66 e4 9a 0e 8a 6d 61 69 6e 2e 72 73
        14 ff ff ff ff ff ff ff ff 4b 87 31 c8 ec 70 03
        37 6c 6f 6e 67 00 1d 36 45 18 07 00 00 00 00 00
        00 00 06 09 00 00 00 00 00 00 2d 00 00 00 00 00
        00 00 c0 08 00 00 00 00 00 00 41 00 00 00 00 00
        00 00 38 09 00 00 00 00 00 00 3d 00 00 00 00 00
        00 00 fd c0 cc c2 02 00 00 00 74 68 61 6c 77 65
        67 50"#]]
    .assert_eq(&hexadecimal(&bytes));
}

#[test]
fn the_dump_of_a_tiny_pack() {
    let bench = tiny();
    let mut text = String::new();
    let path = bench.disk.names()[0].clone();
    dump(&*bench.environment.storage, &path, &mut |line| {
        let line = line.to_string();
        text.push_str(&format!("{}\n", line.get(..100).unwrap_or(&line)));
        Ok(())
    })
    .unwrap();
    expect![[r#"
        pack 7 (a table of a directory keyspace): 2498 bytes
        filter at 2240: 65 bytes, 10 bits an entry
        contents at 2310: 45 bytes
        properties at 2360: 61 bytes
        directories: 3; different names in them: 7
        versions of entries: 8; of them removals: 1
        bytes of values: 2125
        blocks: 4, in 2240 bytes with their long values
        sequence numbers: 5 to 30
        below each block its versions: "name" @sequence number = value
        block at 0: directory 1
          "main.rs" @11 removed
          "main.rs" @10 = "mode 600"
          "lib.rs" @12 = "mode 644"
        block at 56: directory 300
          "d" @5 = "a value that has some bytes"
          "a" @20 = "1"
        block at 104: directory 300
          "c" @22 = ""
          "b" @21 = "2"
        block at 128: directory 18446744073709551615
          "long" @30 = a value of 2080 bytes at 152
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_check_refuses_an_extent_beyond_the_blocks_before_it_is_read() {
    let bench = Bench::new(options(4096, Compression::None, 0), 0);
    let meta = write(&bench, &[(1, b"long", 7, Some(&[b'e'; 20_000]))]);
    let path = bench.disk.names()[0].clone();
    check_pack(&*bench.environment.storage, &path, &meta).unwrap();
    // The block says that the extent has 2 097 151 bytes.
    let mut bytes = bench.disk.contents(&path);
    let block = &mut bytes[..48];
    let length = usize::from(u16::from_le_bytes([block[4], block[5]]));
    let block = &mut block[..length];
    let at = block.windows(3).position(|bytes| *bytes == [0xa0, 0x9c, 0x01]).unwrap();
    block[at..at + 3].copy_from_slice(&[0xff, 0xff, 0x7f]);
    let place = Place { path: &path, pack: TableId(7), offset: 0, format: Format::Two };
    let checksum = place.block_checksum(block, 1);
    block[..4].copy_from_slice(&checksum.to_le_bytes());
    bench.disk.put(&path, &bytes);
    let error = check_pack(&*bench.environment.storage, &path, &meta).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("expected an extent of 2097280 bytes before 20032"), "{error}");
}
