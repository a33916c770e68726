//! Blocks: what goes in comes out, and damage is found.

use super::{DIRECTORY, place};
use crate::error::ErrorKind;
use crate::format::name_hash::NAME_BYTES_MAX;
use crate::format::{Fingerprint, HashKey, NameHash, SeqNo};
use crate::table::pack::block::{BLOCK_BYTES_MAX, Block, Content, Item};
use crate::table::pack::block_builder::BlockBuilder;
use crate::table::pack::{Format, INLINE_VALUE_BYTES_MAX, Place};

const KEY: HashKey = HashKey([3; 16]);

fn put<'a>(name: &'a [u8], seq: u64, value: &'a [u8]) -> Item<'a> {
    Item { name, seq: SeqNo(seq), content: Content::Inline(value) }
}

fn sealed(items: &[Item<'_>]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    assert!(items.iter().all(|item| builder.push(KEY.hash(item.name), item, BLOCK_BYTES_MAX)));
    let mut out = Vec::new();
    builder.seal(DIRECTORY, place(64), &mut out);
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
    let block = Block::decode(&bytes, place(64), DIRECTORY).unwrap();
    assert_eq!((block.directory(), block.head().len()), (5, 4));
    let found: Vec<Item<'_>> = (0..4).map(|number| block.item(number).unwrap()).collect();
    assert_eq!(found, items);
    let fingerprints: Vec<Fingerprint> = items.iter().map(|item| KEY.hash(item.name).fingerprint()).collect();
    assert_eq!(block.fingerprints().collect::<Vec<_>>(), fingerprints);
}

/// The items of a sealed block, found one by one and all together.
fn reread(bytes: &[u8]) -> Vec<(Vec<u8>, u64, Option<Vec<u8>>)> {
    let block = Block::decode(bytes, place(64), DIRECTORY).unwrap();
    let owned = |item: Item<'_>| {
        let value = if let Content::Inline(value) = item.content { Some(value.to_vec()) } else { None };
        (item.name.to_vec(), item.seq.0, value)
    };
    let all: Vec<_> = block.items().map(|item| owned(item.unwrap())).collect();
    let each: Vec<_> = (0..block.head().len()).map(|number| owned(block.item(number).unwrap())).collect();
    assert_eq!(all, each);
    all
}

#[test]
fn equal_items_have_no_lengths_and_no_offsets() {
    let names: Vec<[u8; 8]> = (0..20_u64).map(u64::to_be_bytes).collect();
    let items: Vec<Item<'_>> = names.iter().map(|name| put(name, 0, &[7; 128])).collect();
    let bytes = sealed(&items);
    // The head; the length of a name, and of a value; a fingerprint, a name and a value for each.
    assert_eq!(bytes.len(), (7_usize + 1 + 2 + 20 * (1 + 8 + 128)).next_multiple_of(8));
    let expected: Vec<_> = names.iter().map(|name| (name.to_vec(), 0, Some(vec![7; 128]))).collect();
    assert_eq!(reread(&bytes), expected);
}

#[test]
fn one_other_item_makes_a_block_of_items_with_lengths() {
    let names: Vec<[u8; 8]> = (0..20_u64).map(u64::to_be_bytes).collect();
    let longer = put(b"a longer name", 9, &[7; 128]);
    let others = [longer, put(&[9; 8], 9, &[7; 127]), Item { content: Content::Remove, ..put(&[9; 8], 9, b"") }];
    for other in others {
        for at in [0, 1, 10, 20] {
            let mut items: Vec<Item<'_>> = names.iter().map(|name| put(name, 9, &[7; 128])).collect();
            items.insert(at, other);
            let found = reread(&sealed(&items));
            assert_eq!(found.len(), 21);
            for (item, (name, seq, value)) in items.iter().zip(found) {
                assert_eq!((item.name, item.seq.0), (&name[..], seq));
                assert_eq!(item.content, value.as_deref().map_or(Content::Remove, Content::Inline));
            }
        }
    }
}

#[test]
fn numbers_take_the_bytes_that_their_differences_have() {
    let bytes_with = |numbers: [u64; 3]| {
        let bytes = sealed(&numbers.map(|seq| put(b"name", seq, b"value")));
        assert_eq!(reread(&bytes).iter().map(|(_, seq, _)| *seq).collect::<Vec<_>>(), numbers);
        // The base, and the numbers: b and d of the form.
        (usize::from(bytes[6] & 7), usize::from(bytes[6] >> 3 & 7))
    };
    assert_eq!(bytes_with([0, 0, 0]), (0, 0));
    assert_eq!(bytes_with([255, 255, 255]), (1, 0));
    assert_eq!(bytes_with([256, 256, 1]), (1, 1));
    assert_eq!(bytes_with([300, 299, 256]), (2, 1));
    assert_eq!(bytes_with([10_000_000, 9_000_000, 70_000]), (3, 3));
    assert_eq!(bytes_with([SeqNo::MAX.0, 1, 0]), (0, 7));
    assert_eq!(bytes_with([SeqNo::MAX.0, SeqNo::MAX.0, SeqNo::MAX.0 - 1]), (7, 1));
}

#[test]
fn numbers_beyond_the_greatest_and_unknown_forms_are_damage() {
    let sealed_again = |mut bytes: Vec<u8>| {
        let crc = place(64).block_checksum(&bytes, DIRECTORY);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    let whole = sealed(&[put(b"name", SeqNo::MAX.0, b"value"), put(b"name", SeqNo::MAX.0 - 1, b"value")]);
    let mut beyond = whole.clone();
    beyond[7..14].fill(0xff);
    let beyond = sealed_again(beyond);
    let error = Block::decode(&beyond, place(64), DIRECTORY).unwrap().item(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let mut unknown = whole;
    unknown[6] |= 0x80;
    assert_eq!(Block::decode(&sealed_again(unknown), place(64), DIRECTORY).unwrap_err().kind(), ErrorKind::Corruption);
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
    builder.seal(DIRECTORY, place(0), &mut out);
    assert_eq!(Block::decode(&out, place(0), DIRECTORY).unwrap().item(0).unwrap(), item);
}

#[test]
fn a_block_holds_hundreds_of_small_items() {
    let mut builder = BlockBuilder::default();
    let mut count = 0_u32;
    while builder.push(NameHash(u64::from(count)), &put(&count.to_le_bytes()[..2], 0, b""), BLOCK_BYTES_MAX) {
        count += 1;
    }
    assert_eq!(count, 1361);
    let mut out = Vec::new();
    builder.seal(DIRECTORY, place(0), &mut out);
    assert_eq!((Block::decode(&out, place(0), DIRECTORY).unwrap().head().len(), builder.len()), (1361, 0));
}

#[test]
fn every_flipped_byte_and_every_wrong_place_is_found() {
    let equal = [put(b"main.rs", 107, b"mode 644"), put(b"core.rs", 108, b"mode 600")];
    let with_lengths = [put(b"main.rs", 107, b"mode 644"), put(b"lib.rs", 108, b"mode 600")];
    for items in [equal, with_lengths] {
        every_damage_is_found(&sealed(&items));
    }
}

fn every_damage_is_found(bytes: &[u8]) {
    for at in 0..bytes.len() {
        for mask in [1, 0x80] {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= mask;
            let error = Block::decode(&damaged, place(64), DIRECTORY).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}");
        }
    }
    for length in 0..bytes.len() {
        assert!(Block::decode(&bytes[..length], place(64), DIRECTORY).is_err(), "cut at {length}");
    }
    assert!(Block::decode(bytes, place(72), DIRECTORY).is_err(), "another offset");
    assert!(Block::decode(bytes, place(64), DIRECTORY + 1).is_err(), "another directory");
}

#[test]
fn any_bytes_with_a_right_checksum_are_items_or_errors() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..5000 {
        let mut bytes: Vec<u8> = (0..random.usize(24..400)).map(|_| random.u8(..)).collect();
        let length = bytes.len() as u16;
        bytes[4..6].copy_from_slice(&length.to_le_bytes());
        bytes[6] &= 0x7f;
        let count_at = 7 + usize::from(bytes[6] & 7);
        bytes[count_at] = random.u8(1..20);
        let crc = place(0).block_checksum(&bytes, DIRECTORY);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        let Ok(block) = Block::decode(&bytes, place(0), DIRECTORY) else { continue };
        for number in 0..block.head().len() {
            if let Err(error) = block.item(number) {
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
}

/// The first block of a pack that a program of format 1 wrote.
const OF_FORMAT_1: [u8; 72] =
    *b"\xca\xc7\x00\x8c\x48\x00\x03\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x0a\x8a\x8a\x28\x01\
    \x00\x02\x1c\x6d\x61\x69\x6e\x2e\x72\x73\x1d\x6d\x61\x69\x6e\x2e\x72\x73\x08\x6d\x6f\x64\x65\x20\x36\x30\x30\x19\
    \x6c\x69\x62\x2e\x72\x73\x08\x6d\x6f\x64\x65\x20\x36\x34\x34\x00\x00\x00\x00\x00\x00\x00";

#[test]
fn a_block_of_format_1_is_read_and_its_damage_is_found() {
    let place = Place { format: Format::One, ..place(0) };
    let block = Block::decode(&OF_FORMAT_1, place, 1).unwrap();
    assert_eq!((block.directory(), block.head().len()), (1, 3));
    let removed = Item { content: Content::Remove, ..put(b"main.rs", 11, b"") };
    let expected = [removed, put(b"main.rs", 10, b"mode 600"), put(b"lib.rs", 12, b"mode 644")];
    assert!(block.items().map(Result::unwrap).eq(expected));
    // It says the directory itself, and whoever reads it compares.
    assert_eq!(Block::decode(&OF_FORMAT_1, place, 2).unwrap().directory(), 1);
    for at in 0..OF_FORMAT_1.len() {
        let mut damaged = OF_FORMAT_1;
        damaged[at] ^= 0x80;
        assert!(Block::decode(&damaged, place, 1).is_err(), "byte {at}");
    }
    assert!(Block::decode(&OF_FORMAT_1, Place { format: Format::Two, ..place }, 1).is_err(), "as one of format 2");
}
