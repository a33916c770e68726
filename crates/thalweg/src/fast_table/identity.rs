//! [`Identity`]: which table a part belongs to. Every checksum covers it.
//!
//! An arena reuses its space, so the bytes of an older table may lie where a newer one was to be written. The number of
//! the table, its random generation and the offset of the part are in each checksum. So a part of another table, of an
//! earlier try at the same table or from another place is found as surely as a flipped bit.

use crate::format::TableId;
use crate::format::checksum::{crc32c, crc32c_append};

/// The number and the generation of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) table: TableId,
    /// 64 random bits, drawn for each table.
    pub(super) generation: u64,
}

impl Identity {
    /// Returns the checksum of the part that begins at byte `offset` of the table.
    #[inline]
    pub(super) fn checksum(&self, part: &[u8], offset: u64) -> u32 {
        let words = [self.table.0, self.generation, offset];
        let mut end = [0; 24];
        for (to, word) in end.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        crc32c_append(crc32c(part), &end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_generation_and_offset_each_change_the_checksum() {
        let identity = Identity { table: TableId(1), generation: 2 };
        let sum = identity.checksum(b"part", 3);
        assert_ne!(sum, Identity { table: TableId(2), ..identity }.checksum(b"part", 3));
        assert_ne!(sum, Identity { generation: 3, ..identity }.checksum(b"part", 3));
        assert_ne!(sum, identity.checksum(b"part", 4));
        assert_ne!(sum, identity.checksum(b"parT", 3));
        assert_eq!(sum, identity.checksum(b"part", 3));
    }
}
