//! Contents and extents: what goes in comes out, and damage is found.

use super::place;
use crate::error::ErrorKind;
use crate::format::HashKey;
use crate::table::pack::contents::{Blocks, ContentsBuilder, Fence, decode};
use crate::table::pack::extent::{extent_bytes, verify_extent, write_extent};

const KEY: HashKey = HashKey([9; 16]);

fn encoded() -> Vec<u8> {
    let mut builder = ContentsBuilder::default();
    builder.add_block(0, 64, 0x1234);
    builder.end_directory(0);
    for (offset, fence) in [(64, 7), (4160, 8), (8256 + 80, 8)] {
        builder.add_block(offset, 4096, fence);
    }
    builder.end_directory(3);
    builder.add_block(12_432, 32, u32::MAX);
    builder.end_directory(u64::MAX);
    let mut out = Vec::new();
    builder.encode(&KEY, &mut out);
    out
}

#[test]
fn directories_and_blocks_come_back() {
    let mut found = Vec::new();
    let decoded = decode(&encoded(), 12_464, &mut |directory, span| found.push((directory, span))).unwrap();
    assert_eq!((decoded.hash_key, decoded.blocks), (KEY, 5));
    let found: Vec<(u64, Blocks)> = found.into_iter().map(|(directory, span)| (directory, span.blocks())).collect();
    let expected = [(0, Blocks::One(0, 64)), (3, Blocks::Several(0, 3)), (u64::MAX, Blocks::One(12_432, 32))];
    assert_eq!(found, expected);
    let fence = |at, hash| Fence { at, hash };
    assert_eq!(*decoded.fences, [fence(8, 0), fence(520, 8), fence(1042, 8)]);
}

#[test]
fn damaged_contents_are_refused_or_stay_within_the_blocks() {
    let bytes = encoded();
    let check = |bytes: &[u8]| {
        let _ = decode(bytes, 12_464, &mut |_, span| match span.blocks() {
            Blocks::One(offset, bytes) => assert!(offset + bytes as u64 <= 12_464),
            Blocks::Several(from, to) => assert!(from < to),
        });
    };
    for at in 0..bytes.len() {
        check(&bytes[..at]);
        for mask in [1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            check(&damaged);
        }
    }
    assert!(decode(&bytes, 12_463, &mut |_, _| ()).is_err(), "a block behind the end");
    assert!(decode(&bytes[..bytes.len() - 1], 12_464, &mut |_, _| ()).is_err(), "a byte too few");
}

#[test]
fn extents_hold_any_value_and_show_any_damage() {
    for bytes in [1, 7, 8, 65_536, 65_537, 200_000] {
        let value: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let mut out = vec![1; 16];
        write_extent(&value, place(16), &mut out);
        assert_eq!(out.len() - 16, extent_bytes(bytes));
        assert_eq!(verify_extent(&out[16..], bytes, place(16)).unwrap(), value);
        assert!(verify_extent(&out[16..], bytes, place(24)).is_err(), "another place");
        for at in [0, bytes / 2, bytes - 1, bytes] {
            let mut damaged = out.clone();
            damaged[16 + at] ^= 1;
            let error = verify_extent(&damaged[16..], bytes, place(16)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{bytes} bytes, damaged at {at}");
        }
    }
}
