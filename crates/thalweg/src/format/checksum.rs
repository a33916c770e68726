//! CRC-32C, the checksum of every file format.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// Returns the CRC-32C of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// Returns the CRC-32C of the bytes whose CRC-32C is `crc`, followed by `bytes`.
pub(crate) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_those_of_another_implementation() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for len in (0..300).chain([511, 512, 513, 1024, 4095, 4096, 5000]) {
            let bytes = &bytes[..len];
            assert_eq!(crc32c(bytes), crc32c::crc32c(bytes), "{len} bytes");
            for cut in [0, len / 3, len] {
                let (head, tail) = bytes.split_at(cut);
                assert_eq!(crc32c_append(crc32c(head), tail), crc32c(bytes), "{len} bytes, cut at {cut}");
            }
        }
    }
}
