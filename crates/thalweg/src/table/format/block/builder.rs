//! [`BlockBuilder`]: lays out one data block after the other at the end of the buffer that is written to the file. So
//! the bytes of an entry are copied once.
//!
//! Invariant: from a block's first entry to [`BlockBuilder::finish`] the buffer ends with the block so far. Meanwhile
//! nothing else is appended to it, and nothing is removed from it.

use crate::format::codec::Encode;
use crate::format::{EntryKind, SeqNo, key};

/// One in this many entries stores its whole user key, for binary search.
const RESTART_INTERVAL: usize = 16;

/// A data block is closed at this many bytes whatever the options say, so that offsets in it fit 32 bits.
pub(in crate::table) const BLOCK_BYTES_MAX: usize = 16 << 20;

/// The three lengths of an entry have at most 30 bytes, and its trailer has 8.
const HEADER_BYTES_MAX: usize = 30 + 8;

/// Suffixes up to this many bytes are copied as exactly this many.
const SHORT: usize = 16;

/// See the module.
#[derive(Default)]
pub(in crate::table) struct BlockBuilder {
    /// The offset of the open block in the buffer.
    start: usize,
    /// The offsets of the restarts in the block. Empty: no block is open.
    restarts: Vec<u32>,
    since_restart: usize,
}

impl BlockBuilder {
    /// Appends an entry to the block at the end of `out`, or begins a block with it. Entries come in internal-key
    /// order. `shared`: the bytes that its key shares with the beginning of the previous key, in this block or the one
    /// before.
    #[inline]
    pub(in crate::table) fn add(
        &mut self,
        out: &mut Vec<u8>,
        key: &[u8],
        shared: usize,
        seq: SeqNo,
        kind: EntryKind,
        value: &[u8],
    ) {
        let mut shared = shared;
        if self.since_restart == RESTART_INTERVAL || self.restarts.is_empty() {
            self.restart(out.len());
            shared = 0;
        }
        self.since_restart += 1;
        let unshared = key.get(shared..).unwrap_or_default();
        out.reserve(HEADER_BYTES_MAX + SHORT + unshared.len() + value.len());
        if shared | unshared.len() < 0x80 && value.len() < 0x4000 {
            let header = [shared as u8, unshared.len() as u8, value.len() as u8 | 0x80, (value.len() >> 7) as u8];
            if value.len() < 0x80 {
                out.extend_from_slice(&[shared as u8, unshared.len() as u8, value.len() as u8]);
            } else {
                out.extend_from_slice(&header);
            }
        } else {
            out.put_varint(shared as u64);
            out.put_varint(unshared.len() as u64);
            out.put_varint(value.len() as u64);
        }
        put_end(out, key, unshared);
        out.put_u64(key::pack_trailer(seq, kind));
        out.extend_from_slice(value);
    }

    fn restart(&mut self, out_bytes: usize) {
        if self.restarts.is_empty() {
            self.start = out_bytes;
        }
        let offset = out_bytes - self.start;
        // The writer closes a block at BLOCK_BYTES_MAX, far below 4 GiB.
        assert!(u32::try_from(offset).is_ok(), "a block of {offset} bytes");
        self.restarts.push(offset as u32);
        self.since_restart = 0;
    }

    /// Whether no block is open.
    pub(in crate::table) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// The bytes of the entries so far of the block at the end of `out`.
    pub(in crate::table) fn entry_bytes(&self, out: &[u8]) -> usize {
        if self.is_empty() { 0 } else { out.len() - self.start }
    }

    /// The bytes that [`BlockBuilder::finish`] would append now.
    pub(in crate::table) fn end_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { 4 * self.restarts.len() + 4 }
    }

    /// Ends the block at the end of `out`. Returns its offset there. Requires an entry.
    pub(in crate::table) fn finish(&mut self, out: &mut Vec<u8>) -> usize {
        assert!(!self.is_empty(), "a block has at least one entry");
        for restart in &self.restarts {
            out.put_u32(*restart);
        }
        out.put_u32(self.restarts.len() as u32);
        self.restarts.clear();
        self.since_restart = 0;
        self.start
    }
}

/// Appends `end`, the end of `key`. The length differs from entry to entry, so a copy of that length would mispredict
/// its branches. A short end is copied as [`SHORT`] bytes, and the surplus is removed.
#[inline]
fn put_end(out: &mut Vec<u8>, key: &[u8], end: &[u8]) {
    match key.last_chunk::<SHORT>() {
        Some(last) if end.len() <= SHORT => {
            let surplus = SHORT - end.len();
            let first = u128::from_be_bytes(*last).checked_shl(8 * surplus as u32).unwrap_or(0);
            out.extend_from_slice(&first.to_be_bytes());
            out.truncate(out.len() - surplus);
        }
        _ => out.extend_from_slice(end),
    }
}

#[cfg(test)]
mod tests {
    use super::put_end;

    #[test]
    fn the_end_of_a_key_is_appended_whatever_the_lengths() {
        for len in 0..40 {
            let key: Vec<u8> = (1..=len).collect();
            for start in 0..=key.len() {
                let mut out = b"before".to_vec();
                put_end(&mut out, &key, &key[start..]);
                assert_eq!(out, [b"before", &key[start..]].concat(), "{len} {start}");
            }
        }
    }
}
