//! [`BlockBuilder`]: lays out the content of one data block.

use crate::format::codec::Encode;
use crate::format::{EntryKind, SeqNo, key};

/// Every so many entries the whole user key is stored, for binary search.
const RESTART_INTERVAL: usize = 16;

/// Takes entries in internal-key order, then gives the block; can be used again after `clear`.
#[derive(Default)]
pub(in crate::table) struct BlockBuilder {
    buffer: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub(in crate::table) fn add(&mut self, key: &[u8], seq: SeqNo, kind: EntryKind, value: &[u8]) {
        let mut shared = 0;
        if self.since_restart == RESTART_INTERVAL || self.restarts.is_empty() {
            // The writer closes a block at BLOCK_BYTES_MAX, far below 4 GiB.
            assert!(u32::try_from(self.buffer.len()).is_ok(), "a block of {} bytes", self.buffer.len());
            self.restarts.push(self.buffer.len() as u32);
            self.since_restart = 0;
        } else {
            shared = key.iter().zip(&self.last_key).take_while(|(a, b)| a == b).count();
        }
        let unshared = key.get(shared..).unwrap_or_default();
        self.buffer.put_varint(shared as u64);
        self.buffer.put_varint(unshared.len() as u64);
        self.buffer.put_varint(value.len() as u64);
        self.buffer.extend_from_slice(unshared);
        self.buffer.put_u64(key::pack_trailer(seq, kind));
        self.buffer.extend_from_slice(value);
        self.since_restart += 1;
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(unshared);
    }

    pub(in crate::table) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Bytes of the entries so far.
    pub(in crate::table) fn entry_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes of the block as it would be now.
    pub(in crate::table) fn bytes(&self) -> usize {
        self.buffer.len() + 4 * self.restarts.len() + 4
    }

    /// The whole block. Requires an entry, and `clear` before the next one.
    pub(in crate::table) fn finish(&mut self) -> &[u8] {
        assert!(!self.is_empty(), "a block has at least one entry");
        for restart in &self.restarts {
            self.buffer.extend_from_slice(&restart.to_le_bytes());
        }
        self.buffer.put_u32(self.restarts.len() as u32);
        &self.buffer
    }

    pub(in crate::table) fn clear(&mut self) {
        self.buffer.clear();
        self.restarts.clear();
        self.since_restart = 0;
        self.last_key.clear();
    }
}
