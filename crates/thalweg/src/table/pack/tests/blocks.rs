//! Blocks: what goes in comes out, and damage is found.

use super::place;
use crate::error::ErrorKind;
use crate::format::name_hash::NAME_BYTES_MAX;
use crate::format::{Fingerprint, HashKey, NameHash, SeqNo};
use crate::table::pack::INLINE_VALUE_BYTES_MAX;
use crate::table::pack::block::{BLOCK_BYTES_MAX, Block, BlockBuilder, Content, Item};

const KEY: HashKey = HashKey([3; 16]);

fn put<'a>(name: &'a [u8], seq: u64, value: &'a [u8]) -> Item<'a> {
    Item { name, seq: SeqNo(seq), content: Content::Inline(value) }
}

fn sealed(items: &[Item<'_>]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    assert!(items.iter().all(|item| builder.push(KEY.hash(item.name), item, BLOCK_BYTES_MAX)));
    let mut out = Vec::new();
    builder.seal(5, place(64), &mut out);
    out
}

#[test]
fn items_come_back_as_they_were_put_in() {
    let items = [
        put(b"main.rs", 107, b"mode 644"),
        Item { name: b"old", seq: SeqNo(100), content: Content::Remove },
        Item { name: &[0xff; NAME_BYTES_MAX], seq: SeqNo::MAX, content: Content::Extent(64 << 20) },
        put(b"\0", 0, b""),
    ];
    let bytes = sealed(&items);
    assert_eq!(bytes.len() % 8, 0);
    let block = Block::decode(&bytes, place(64)).unwrap();
    assert_eq!((block.directory(), block.len()), (5, 4));
    let found: Vec<Item<'_>> = (0..4).map(|number| block.item(number).unwrap()).collect();
    assert_eq!(found, items);
    let fingerprints: Vec<Fingerprint> = items.iter().map(|item| KEY.hash(item.name).fingerprint()).collect();
    assert_eq!(block.fingerprints().collect::<Vec<_>>(), fingerprints);
}

#[test]
fn the_largest_item_fits_in_an_empty_block_and_the_next_one_does_not() {
    let (name, value) = (vec![b'n'; NAME_BYTES_MAX], vec![b'v'; INLINE_VALUE_BYTES_MAX]);
    let mut builder = BlockBuilder::default();
    let item = put(&name, SeqNo::MAX.0, &value);
    assert!(builder.push(KEY.hash(&name), &item, BLOCK_BYTES_MAX));
    assert!(!builder.push(KEY.hash(&name), &item, BLOCK_BYTES_MAX));
    assert_eq!(builder.len(), 1);
    let mut out = Vec::new();
    builder.seal(u64::MAX, place(0), &mut out);
    assert_eq!(Block::decode(&out, place(0)).unwrap().item(0).unwrap(), item);
}

#[test]
fn a_block_holds_hundreds_of_small_items() {
    let mut builder = BlockBuilder::default();
    let mut count = 0_u32;
    while builder.push(NameHash(u64::from(count)), &put(&count.to_le_bytes()[..2], 0, b""), BLOCK_BYTES_MAX) {
        count += 1;
    }
    assert_eq!(count, 651);
    let mut out = Vec::new();
    builder.seal(1, place(0), &mut out);
    assert_eq!((Block::decode(&out, place(0)).unwrap().len(), builder.len()), (651, 0));
}

#[test]
fn every_flipped_byte_and_every_wrong_place_is_found() {
    let bytes = sealed(&[put(b"main.rs", 107, b"mode 644"), put(b"lib.rs", 108, b"mode 600")]);
    for at in 0..bytes.len() {
        for mask in [1, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            let error = Block::decode(&damaged, place(64)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}");
        }
    }
    for length in 0..bytes.len() {
        assert!(Block::decode(&bytes[..length], place(64)).is_err(), "cut at {length}");
    }
    assert!(Block::decode(&bytes, place(72)).is_err(), "another offset");
}

#[test]
fn any_bytes_with_a_right_checksum_are_items_or_errors() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..5000 {
        let mut bytes: Vec<u8> = (0..random.usize(24..400)).map(|_| random.u8(..)).collect();
        let length = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&length.to_le_bytes());
        bytes[6..8].copy_from_slice(&random.u16(1..20).to_le_bytes());
        let crc = place(0).checksum(&bytes);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        let Ok(block) = Block::decode(&bytes, place(0)) else { continue };
        for number in 0..block.len() {
            if let Err(error) = block.item(number) {
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
}
