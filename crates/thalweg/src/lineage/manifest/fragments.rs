//! The layout of records in a manifest: fragments in 32 KiB blocks (`docs/format/manifest.md`, Fragments).
//!
//! [`scan`] reads all records before the first damage. It also finds how many bytes are known to have been durable,
//! from the synced offsets of all valid records before and after the damage. Pure; no bytes make it panic.

use crate::format::checksum;
use crate::format::codec::{Decoder, Encode};
use crate::lineage::manifest::header::HEADER_BYTES;
use crate::lineage::manifest::record::{PREFIX_BYTES, synced_of};
use std::borrow::Cow;

/// The bytes of a block. No fragment crosses the end of one.
pub(in crate::lineage) const BLOCK_BYTES: u64 = 32 << 10;

const FRAGMENT_BYTES: u64 = 7;

/// The fewest bytes left in a block in which a fragment begins; with fewer, the next fragment begins in the next block.
/// So the first fragment of a record always holds the record's kind and synced offset.
const ROOM_MIN: u64 = FRAGMENT_BYTES + PREFIX_BYTES as u64;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// Appends the fragments of a record to `out`, with the padding before them. The end of `out` is byte `at` of the file.
/// Returns the offset in the file after the fragments.
pub(in crate::lineage) fn frame(out: &mut Vec<u8>, generation: u64, mut at: u64, payload: &[u8]) -> u64 {
    assert!(payload.len() > PREFIX_BYTES && at >= HEADER_BYTES, "a record has a prefix and a body");
    let mut rest = payload;
    let mut begun = false;
    while !rest.is_empty() {
        let room = BLOCK_BYTES - at % BLOCK_BYTES;
        if room < ROOM_MIN {
            out.resize(out.len() + room as usize, 0);
            at += room;
            continue;
        }
        let (piece, after) = rest.split_at(rest.len().min((room - FRAGMENT_BYTES) as usize));
        let kind = match (begun, after.is_empty()) {
            (false, true) => FULL,
            (false, false) => FIRST,
            (true, false) => MIDDLE,
            (true, true) => LAST,
        };
        out.put_u32(checksum(generation, at, kind, piece));
        out.put_u16(piece.len() as u16);
        out.put_u8(kind);
        out.extend_from_slice(piece);
        at += FRAGMENT_BYTES + piece.len() as u64;
        (rest, begun) = (after, true);
    }
    at
}

/// Returns the checksum of a fragment. It also covers the fragment's place: the generation and the offset.
fn checksum(generation: u64, at: u64, kind: u8, payload: &[u8]) -> u32 {
    let mut head = Vec::with_capacity(19);
    head.put_u64(generation);
    head.put_u64(at);
    head.put_u16(payload.len() as u16);
    head.put_u8(kind);
    checksum::crc32c_append(checksum::crc32c(&head), payload)
}

/// The result of [`scan`].
#[derive(Debug)]
pub(in crate::lineage) struct Scanned<'a> {
    /// The complete records before the damage, with their offsets.
    pub(in crate::lineage) records: Vec<(u64, Cow<'a, [u8]>)>,
    /// Where the last of these records ends.
    pub(in crate::lineage) end: u64,
    /// The first damage, if any.
    pub(in crate::lineage) damage: Option<Damage>,
    /// The largest synced offset of any valid record.
    pub(in crate::lineage) synced: u64,
}

/// A place in a manifest that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Damage {
    pub(in crate::lineage) offset: u64,
    pub(in crate::lineage) expected: &'static str,
    pub(in crate::lineage) found: String,
}

/// A fragment whose checksum is right.
struct Fragment<'a> {
    kind: u8,
    payload: &'a [u8],
    end: u64,
}

/// Reads the fragments of a manifest after its header.
pub(in crate::lineage) fn scan(bytes: &[u8], generation: u64) -> Scanned<'_> {
    let mut scanned = Scanned { records: Vec::new(), end: HEADER_BYTES, damage: None, synced: 0 };
    let damage = walk(bytes, generation, &mut scanned);
    if let Some(damage) = damage {
        scanned.synced = scanned.synced.max(synced_after(bytes, generation, damage.offset));
        scanned.damage = Some(damage);
    }
    scanned
}

/// Collects records up to the first damage, and returns that damage.
fn walk<'a>(bytes: &'a [u8], generation: u64, scanned: &mut Scanned<'a>) -> Option<Damage> {
    let len = bytes.len() as u64;
    let mut open: Option<(u64, Vec<u8>)> = None;
    let mut at = HEADER_BYTES;
    loop {
        if at >= len {
            let start = open.map(|(start, _)| start);
            return start.map(|offset| damage(offset, "the whole of a record", "the end of the file"));
        }
        let room = BLOCK_BYTES - at % BLOCK_BYTES;
        if room < ROOM_MIN {
            let padding = slice(bytes, at, room);
            if padding.is_none_or(|padding| padding.iter().any(|&byte| byte != 0)) {
                return Some(damage(at, "zeros up to the end of the block", "other bytes, or the end of the file"));
            }
            at += room;
            continue;
        }
        let Some(fragment) = fragment(bytes, generation, at) else {
            return Some(damage(at, "a fragment that has its checksum", "none"));
        };
        if let FULL | FIRST = fragment.kind {
            scanned.synced = scanned.synced.max(synced_of(fragment.payload).unwrap_or(0));
        }
        match (fragment.kind, open.take()) {
            (FULL, None) => scanned.records.push((at, Cow::Borrowed(fragment.payload))),
            (FIRST, None) => open = Some((at, fragment.payload.to_vec())),
            (MIDDLE, Some((start, mut record))) => {
                record.extend_from_slice(fragment.payload);
                open = Some((start, record));
            }
            (LAST, Some((start, mut record))) => {
                record.extend_from_slice(fragment.payload);
                scanned.records.push((start, Cow::Owned(record)));
            }
            (kind, open) => {
                let expected = if open.is_some() { "the rest of a record" } else { "the start of a record" };
                return Some(damage(at, expected, format!("a fragment of type {kind}")));
            }
        }
        at = fragment.end;
        if open.is_none() {
            scanned.end = at;
        }
    }
}

/// Returns the largest synced offset of the valid records that begin after `from`.
fn synced_after(bytes: &[u8], generation: u64, from: u64) -> u64 {
    let len = bytes.len() as u64;
    let (mut at, mut synced) = (from + 1, 0);
    while at < len {
        match fragment(bytes, generation, at) {
            Some(fragment) => {
                if let FULL | FIRST = fragment.kind {
                    synced = synced.max(synced_of(fragment.payload).unwrap_or(0));
                }
                at = fragment.end;
            }
            None => at += 1,
        }
    }
    synced
}

/// Returns the fragment at `at`, if it is valid.
fn fragment(bytes: &[u8], generation: u64, at: u64) -> Option<Fragment<'_>> {
    let mut decoder = Decoder::new(slice(bytes, at, FRAGMENT_BYTES)?);
    let (crc, length, kind) = (decoder.u32()?, u64::from(decoder.u16()?), decoder.u8()?);
    let room = (BLOCK_BYTES - at % BLOCK_BYTES).checked_sub(FRAGMENT_BYTES)?;
    if length == 0 || length > room || !(FULL..=LAST).contains(&kind) {
        return None;
    }
    let payload = slice(bytes, at + FRAGMENT_BYTES, length)?;
    let end = at + FRAGMENT_BYTES + length;
    (crc == checksum(generation, at, kind, payload)).then_some(Fragment { kind, payload, end })
}

fn slice(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
    bytes.get(at..at.checked_add(len)?)
}

fn damage(offset: u64, expected: &'static str, found: impl Into<String>) -> Damage {
    Damage { offset, expected, found: found.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::manifest::header::ManifestHeader;

    const GENERATION: u64 = 0x5eed;

    /// Records of these lengths, each with the file's length before it as its synced offset.
    fn file(lengths: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut bytes = ManifestHeader { number: 1, generation: GENERATION }.encode();
        let mut payloads = Vec::new();
        for (number, &length) in (0u8..).zip(lengths) {
            let mut payload = vec![number];
            payload.put_u64(bytes.len() as u64);
            payload.resize(length, number);
            let at = bytes.len() as u64;
            assert_eq!(frame(&mut bytes, GENERATION, at, &payload), bytes.len() as u64);
            payloads.push(payload);
        }
        (bytes, payloads)
    }

    fn records(scanned: &Scanned<'_>) -> Vec<Vec<u8>> {
        scanned.records.iter().map(|(_, payload)| payload.to_vec()).collect()
    }

    #[test]
    fn records_of_all_lengths_around_a_block_come_back() {
        for first in (BLOCK_BYTES as usize - 80)..(BLOCK_BYTES as usize) {
            let (bytes, payloads) = file(&[first, 10, 100_000, 11]);
            let scanned = scan(&bytes, GENERATION);
            assert_eq!(scanned.damage, None);
            assert_eq!((records(&scanned), scanned.end), (payloads, bytes.len() as u64), "{first}");
        }
    }

    #[test]
    fn a_file_cut_anywhere_gives_the_records_before_the_cut() {
        let (bytes, payloads) = file(&[20, 32_700, 40, 12]);
        let ends: Vec<_> = (0..=4).map(|count| file(&[20, 32_700, 40, 12][..count]).0.len()).collect();
        for len in (HEADER_BYTES as usize..200).chain(32_600..bytes.len() + 1) {
            let scanned = scan(&bytes[..len], GENERATION);
            let whole = ends.iter().rposition(|&end| end <= len).unwrap();
            assert_eq!(records(&scanned), payloads[..whole], "{len}");
            assert!(scanned.end <= len as u64 && scanned.synced <= scanned.end.max(len as u64));
        }
    }

    #[test]
    fn a_flipped_byte_is_damage_and_later_records_tell_that_it_was_durable() {
        let (bytes, payloads) = file(&[20, 30, 32_700, 40, 12]);
        for at in (HEADER_BYTES as usize..200).chain(32_700..bytes.len()) {
            let mut rotten = bytes.clone();
            rotten[at] ^= 0x10;
            let scanned = scan(&rotten, GENERATION);
            assert!(scanned.damage.is_some(), "{at}");
            assert!(payloads.starts_with(&records(&scanned)));
            let in_last = at >= bytes.len() - 19;
            assert_eq!(scanned.end < scanned.synced, !in_last, "{at}");
        }
    }

    #[test]
    fn fragments_of_another_generation_or_place_do_not_count() {
        let (bytes, _) = file(&[20, 30]);
        assert!(scan(&bytes, GENERATION + 1).records.is_empty());
        let mut moved = bytes.clone();
        moved.insert(HEADER_BYTES as usize, 0);
        assert!(scan(&moved, GENERATION).records.is_empty());
    }
}
