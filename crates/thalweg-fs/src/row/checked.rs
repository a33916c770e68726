//! The checksum that ends every row: CRC-32C over the row's key and its bytes, masked as LevelDB masks it.
//!
//! **Why masked.** A CRC is linear: all messages that end with their own CRC have the same CRC over the whole. Blocks
//! of tables have such a CRC. With plain CRC-32C at the end of rows, it could not tell a row from an older one of the
//! same key and length.

use crate::error::{Error, Result};
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;
/// The number added to a rotated CRC, so that it is no CRC any more.
const MASK: u32 = 0xa282_ead8;

/// Appends the checksum to a row.
pub(super) fn seal(key: &[&[u8]], mut body: Vec<u8>) -> Vec<u8> {
    let sum = checksum(key, &body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

/// Returns the bytes of a row without its checksum.
///
/// # Errors
/// `EIO` that names the row.
pub(super) fn open<'a>(key: &[&[u8]], row: &'a [u8]) -> Result<&'a [u8]> {
    let Some((body, sum)) = row.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(damaged(key, format!("{} bytes are too few", row.len())));
    };
    let (expected, found) = (checksum(key, body), u32::from_le_bytes(*sum));
    if expected == found { Ok(body) } else { Err(damaged(key, format!("checksum {found:#x}, not {expected:#x}"))) }
}

/// Returns the error for a row whose bytes are no such row.
pub(super) fn damaged(key: &[&[u8]], what: impl Into<String>) -> Error {
    let parts: Vec<String> = key.iter().map(|part| part.escape_ascii().to_string()).collect();
    Error::damaged(parts.join("/"), what)
}

fn checksum(key: &[&[u8]], body: &[u8]) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    key.iter().for_each(|part| sum.update(part));
    sum.update(body);
    (sum.finalize() as u32).rotate_right(15).wrapping_add(MASK)
}

/// Reads numbers off the front of a row. A row that is too short gives `None`.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    /// A number that [`put_varint`] has written.
    pub(super) fn varint(&mut self) -> Option<u128> {
        let mut number = 0;
        for shift in (0..VARINT_BITS_MAX).step_by(7) {
            let byte = self.u8()?;
            number |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number that [`put_signed`] has written.
    pub(super) fn signed(&mut self) -> Option<i128> {
        let number = self.varint()?;
        Some((number >> 1) as i128 ^ -((number & 1) as i128))
    }
}

/// The most bits of a varint: the difference between two times has 95.
const VARINT_BITS_MAX: u32 = 98;

/// Appends a number by 7 bits a byte, the lowest first; all bytes but the last have the highest bit set.
pub(super) fn put_varint(row: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        row.push(number as u8 | 0x80);
        number >>= 7;
    }
    row.push(number as u8);
}

/// Appends a number whose sign becomes the lowest bit of a varint.
pub(super) fn put_signed(row: &mut Vec<u8>, number: i128) {
    put_varint(row, ((number << 1) ^ (number >> 127)) as u128);
}
