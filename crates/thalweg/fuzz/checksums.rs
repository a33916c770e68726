//! Puts right every checksum of a damaged file, so that what lies behind checksums is fuzzed too. Best effort: it walks
//! the fragments as `docs/format/log.md` and `docs/format/manifest.md` lay them out, and stops where that ends.
//!
//! The fuzz targets and `tests/fuzz_corpus.rs` use it.

use xxhash_rust::xxh3::xxh3_64;

const BLOCK_BYTES: usize = 32 << 10;

/// A log segment: its header, every fragment, every record body that is in one segment.
pub fn of_log_segment(bytes: &mut [u8]) {
    const HEADER_BYTES: usize = 64;
    const FRAGMENT_BYTES: usize = 8;
    const RECORD_HEADER_BYTES: usize = 28;
    const LEFT_MIN: usize = 40;
    let Some(header) = bytes.get(..HEADER_BYTES) else { return };
    let generation: Vec<u8> = header[16..24].to_vec();
    let index: Vec<u8> = header[12..16].to_vec();
    let header_crc = crc32c::crc32c(&header[..60]);
    bytes[60..64].copy_from_slice(&header_crc.to_le_bytes());
    let seal = |bytes: &mut [u8], at: usize, covered: usize| {
        let mut crc = crc32c::crc32c(&generation);
        crc = crc32c::crc32c_append(crc, &index);
        crc = crc32c::crc32c_append(crc, &(at as u32).to_le_bytes());
        crc = crc32c::crc32c_append(crc, &bytes[at + 4..at + FRAGMENT_BYTES + covered]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    };
    // The record at hand: where its first fragment begins, and its body so far.
    let mut record: Option<(usize, Vec<u8>)> = None;
    let mut at = HEADER_BYTES;
    while let Some(&[_, _, _, _, l0, l1, kind @ 1..=6, _]) = bytes.get(at..at + FRAGMENT_BYTES) {
        let payload_at = at + FRAGMENT_BYTES;
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        let Some(payload) = bytes.get(payload_at..payload_at + length) else { return };
        let covered = match kind {
            1 | 2 => RECORD_HEADER_BYTES.min(length),
            3 | 4 => 0,
            _ => length,
        };
        match kind {
            1 | 2 => record = (covered == RECORD_HEADER_BYTES).then(|| (at, payload[covered..].to_vec())),
            3 | 4 => record.iter_mut().for_each(|(_, body)| body.extend_from_slice(payload)),
            _ => {}
        }
        seal(bytes, at, covered);
        if let Some((first, body)) = record.take_if(|_| matches!(kind, 1 | 4)) {
            let sum_at = first + FRAGMENT_BYTES + RECORD_HEADER_BYTES - 4;
            bytes[sum_at..sum_at + 4].copy_from_slice(&(xxh3_64(&body) as u32).to_le_bytes());
            seal(bytes, first, RECORD_HEADER_BYTES);
        }
        at = next(payload_at + length, LEFT_MIN);
    }
}

/// A manifest: its header and every fragment.
pub fn of_manifest(bytes: &mut [u8]) {
    const HEADER_BYTES: usize = 32;
    const FRAGMENT_BYTES: usize = 7;
    const LEFT_MIN: usize = 16;
    let Some(header) = bytes.get(..HEADER_BYTES) else { return };
    let generation: Vec<u8> = header[20..28].to_vec();
    let header_crc = crc32c::crc32c(&header[..28]);
    bytes[28..32].copy_from_slice(&header_crc.to_le_bytes());
    let mut at = HEADER_BYTES;
    while let Some(&[_, _, _, _, l0, l1, 1..=4]) = bytes.get(at..at + FRAGMENT_BYTES) {
        let end = at + FRAGMENT_BYTES + usize::from(u16::from_le_bytes([l0, l1]));
        let Some(covered) = bytes.get(at + 4..end) else { return };
        let mut crc = crc32c::crc32c(&generation);
        crc = crc32c::crc32c_append(crc, &(at as u64).to_le_bytes());
        crc = crc32c::crc32c_append(crc, covered);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at = next(end, LEFT_MIN);
    }
}

/// A pack: every block, filter, contents, properties and footer.
pub fn of_pack(bytes: &mut [u8]) {
    const FOOTER_BYTES: usize = 72;
    let Some(start) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let number = |bytes: &[u8], at: usize| {
        let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
        field.map_or(usize::MAX, |field| usize::try_from(u64::from_le_bytes(*field)).unwrap_or(usize::MAX))
    };
    let id: Vec<u8> = bytes[start..start + 8].to_vec();
    let seal = |covered: &[u8], offset: usize| {
        let crc = crc32c::crc32c_append(crc32c::crc32c(covered), &id);
        crc32c::crc32c_append(crc, &(offset as u64).to_le_bytes()).to_le_bytes()
    };
    let regions = [8, 24, 40].map(|at| (number(bytes, start + at), number(bytes, start + at + 8)));
    let (contents_at, contents_bytes) = regions[0];
    let contents = contents_at.checked_add(contents_bytes).and_then(|end| bytes.get(contents_at..end));
    let is_format_1 = bytes[start + 60..start + 64] == 1_u32.to_le_bytes();
    for (directory, offset) in contents.map(blocks_of_contents).unwrap_or_default() {
        let Some(&[_, _, _, _, l0, l1]) = bytes.get(offset..).and_then(|rest| rest.first_chunk::<6>()) else { break };
        let end = offset + usize::from(u16::from_le_bytes([l0, l1]));
        let Some(covered) = bytes.get(offset + 4..end) else { continue };
        let of_format_1 = seal(covered, offset);
        let crc = if is_format_1 {
            of_format_1
        } else {
            crc32c::crc32c_append(u32::from_le_bytes(of_format_1), &directory.to_le_bytes()).to_le_bytes()
        };
        bytes[offset..offset + 4].copy_from_slice(&crc);
    }
    for (offset, length) in regions.into_iter().filter(|region| region.1 > 0) {
        let end = offset.checked_add(length).filter(|end| end.checked_add(5).is_some_and(|end| end <= start));
        let Some(end) = end else { continue };
        let crc = seal(&bytes[offset..end + 1], offset);
        bytes[end + 1..end + 5].copy_from_slice(&crc);
    }
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[start..start + 56]), &bytes[start + 60..]);
    bytes[start + 56..start + 60].copy_from_slice(&crc.to_le_bytes());
}

/// The directories and the offsets of the blocks that the contents of a pack name.
fn blocks_of_contents(contents: &[u8]) -> Vec<(u64, usize)> {
    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
    fn walk(mut rest: &[u8], blocks: &mut Vec<(u64, usize)>) -> Option<()> {
        let (mut end, mut directory) = (0_u64, 0_u64);
        for _ in 0..varint(&mut rest)? {
            directory = directory.checked_add(varint(&mut rest)?)?;
            for number in 0..varint(&mut rest)? {
                let begin = end.checked_add(varint(&mut rest)?.checked_mul(8)?)?;
                end = begin.checked_add(varint(&mut rest)?.checked_mul(8)?)?;
                if number > 0 {
                    rest = rest.get(4..)?;
                }
                blocks.push((directory, usize::try_from(begin).ok()?));
            }
        }
        Some(())
    }
    let mut blocks = Vec::new();
    let _ = walk(contents.get(16..).unwrap_or_default(), &mut blocks);
    blocks
}

/// Where the next fragment begins: at `end`, or with the next block when fewer than `left_min` bytes are left.
fn next(end: usize, left_min: usize) -> usize {
    let block_end = (end / BLOCK_BYTES + 1) * BLOCK_BYTES;
    if block_end - end < left_min { block_end } else { end }
}
