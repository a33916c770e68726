//! Contents and extents: what goes in comes out, and damage is found.

use super::place;
use crate::error::ErrorKind;
use crate::format::HashKey;
use crate::table::pack::contents::{Blocks, ContentsBuilder, PackSpan, decode};
use crate::table::pack::extent::{extent_bytes, verify_extent, write_extent};

const KEY: HashKey = HashKey([9; 16]);

/// Where the blocks end.
const DATA_END: u64 = 12_464;

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

/// The offset, the most bytes and the fence of a block.
type Found = (u64, usize, u32);

/// Directories with their blocks.
fn decoded(bytes: &[u8]) -> Vec<(u64, Vec<Found>)> {
    let mut found = Vec::new();
    let decoded = decode(bytes, DATA_END, &mut |directory, span| found.push((directory, span))).unwrap();
    assert_eq!(decoded.hash_key, KEY);
    let blocks = |span: PackSpan| span.blocks(&decoded.fences, DATA_END);
    let of_span = |blocks: Blocks<'_>| {
        let block = |number| blocks.block(number).map(|at| (at.offset, at.bytes_max, at.fence)).unwrap();
        (0..blocks.len()).map(block).collect()
    };
    found.into_iter().map(|(directory, span)| (directory, of_span(blocks(span)))).collect()
}

#[test]
fn directories_and_blocks_come_back() {
    let three = vec![(64, 4096, 0), (4160, 4096, 8), (8336, 4096, 8)];
    let expected = [(0, vec![(0, 64, 0)]), (3, three), (u64::MAX, vec![(12_432, 32, 0)])];
    assert_eq!(decoded(&encoded()), expected);
}

/// The fence of a pair is cut to twenty bits: a hash with these bits may be in either block.
#[test]
fn two_blocks_on_two_pages_need_no_fences_in_memory() {
    let fence = 0xabcd_e123;
    let mut builder = ContentsBuilder::default();
    builder.add_block(1000, 3000, 0);
    builder.add_block(4096, 64, fence);
    builder.end_directory(1);
    builder.add_block(4160, 64, 0);
    builder.add_block(4224, 64, fence);
    builder.end_directory(2);
    let mut out = Vec::new();
    builder.encode(&KEY, &mut out);
    let pair = vec![(1000, 3096, 0), (4096, 64, 0xabcd_e000)];
    assert_eq!(decoded(&out), [(1, pair), (2, vec![(4160, 64, 0), (4224, 4096, fence)])]);
    let mut spans = Vec::new();
    let listed = decode(&out, DATA_END, &mut |_, span| spans.push(span)).unwrap().fences;
    assert_eq!(listed.len(), 2, "of the second directory");
    let first_for = |fence| spans[0].blocks(&listed, DATA_END).first_for(fence);
    let fences = [0, 0xabcd_dfff, 0xabcd_e000, fence - 1, fence, 0xabcd_efff, 0xabcd_f000, u32::MAX];
    assert_eq!(fences.map(first_for), [0, 0, 0, 0, 0, 0, 1, 1]);
    let first_for = |fence| spans[1].blocks(&listed, DATA_END).first_for(fence);
    assert_eq!(fences.map(first_for), [0, 0, 0, 0, 0, 1, 1, 1]);
}

#[test]
fn damaged_contents_are_refused_or_stay_within_the_blocks() {
    let bytes = encoded();
    let check = |bytes: &[u8]| {
        let mut spans = Vec::new();
        let Ok(decoded) = decode(bytes, DATA_END, &mut |_, span| spans.push(span)) else { return };
        for blocks in spans.iter().map(|span| span.blocks(&decoded.fences, DATA_END)) {
            assert!(blocks.len() > 0);
            for at in (0..blocks.len()).filter_map(|number| blocks.block(number)) {
                assert!(at.offset + at.bytes_max as u64 <= DATA_END);
            }
        }
    };
    for at in 0..bytes.len() {
        check(&bytes[..at]);
        for mask in [1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            check(&damaged);
        }
    }
    assert!(decode(&bytes, DATA_END - 1, &mut |_, _| ()).is_err(), "a block behind the end");
    assert!(decode(&bytes[..bytes.len() - 1], DATA_END, &mut |_, _| ()).is_err(), "a byte too few");
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
