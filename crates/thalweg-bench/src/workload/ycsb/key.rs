//! [`Keys`]: the keys of YCSB's user table, in hashed order.

use crate::distribution::fnv_hash;
use crate::error::{Error, Result};

/// The length of the longest key of the published form, `user` and 19 digits. As `key_bytes` it selects this form.
pub(super) const PUBLISHED_BYTES: u32 = 23;

const PREFIX: &[u8; 4] = b"user";
const HASH_BYTES: usize = 8;

/// How a record's number becomes its key.
///
/// The published form is `user` and the number's hash in decimal without leading zeros: 23 bytes for nine keys in ten,
/// fewer for the rest. For any other size the key is compact: the hash in 8 bytes, highest first, padded with `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// `user6284781860667377211`.
    Published,
    /// The hash in 8 bytes, padded; holds the bytes of a key.
    Compact(usize),
}

impl Keys {
    /// Keys of `bytes` bytes.
    ///
    /// # Errors
    /// `Usage` for fewer than the 8 bytes of a hash.
    pub fn new(bytes: u32) -> Result<Keys> {
        match bytes {
            PUBLISHED_BYTES => Ok(Keys::Published),
            _ if bytes as usize >= HASH_BYTES => Ok(Keys::Compact(bytes as usize)),
            _ => Err(Error::Usage(format!("YCSB keys need {HASH_BYTES} bytes for the hash, not {bytes}"))),
        }
    }

    /// Writes the key of a record to `key`.
    pub fn write(self, number: u64, key: &mut Vec<u8>) {
        let hash = fnv_hash(number);
        match self {
            Keys::Published => {
                let (mut text, digits) = decimal(hash);
                // No hash has more than 19 digits: there is room before them.
                let first = text.len() - digits - PREFIX.len();
                text[first..first + PREFIX.len()].copy_from_slice(PREFIX);
                key.clear();
                key.extend_from_slice(&text[first..]);
            }
            Keys::Compact(bytes) => {
                key.clear();
                key.extend_from_slice(&hash.to_be_bytes());
                key.resize(bytes, b'0');
            }
        }
    }
}

/// Writes a number in decimal at the end of 24 bytes, and returns the number of its digits. `write!` does the same, but
/// a client makes a key for each operation, and eight digits at once cost no more than one.
fn decimal(number: u64) -> ([u8; 24], usize) {
    const PART: u64 = 100_000_000;
    let high = number / PART;
    let mut text = [0; 24];
    text[..8].copy_from_slice(&eight_digits(high / PART));
    text[8..16].copy_from_slice(&eight_digits(high % PART));
    text[16..].copy_from_slice(&eight_digits(number % PART));
    (text, number.checked_ilog10().map_or(1, |log| log as usize + 1))
}

/// The digits of a number below 10^8. The number is halved into four digits, then two, then one; all halves lie side by
/// side in one word, the first of each pair in the lower bits. `x / 100` is `x * 5243 >> 19` below 10^4, and `x / 10`
/// is `x * 103 >> 10` below 100.
fn eight_digits(number: u64) -> [u8; 8] {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 5243) >> 19) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - tens * 10) << 8);
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: u32, number: u64) -> Vec<u8> {
        let mut key = b"what was there before, whatever its length".to_vec();
        Keys::new(bytes).unwrap().write(number, &mut key);
        key
    }

    #[test]
    fn keys_are_those_that_every_ycsb_load_begins_with() {
        assert_eq!(key(PUBLISHED_BYTES, 0), b"user6284781860667377211");
        assert_eq!(key(PUBLISHED_BYTES, 1), b"user8517097267634966620");
        assert_eq!(key(PUBLISHED_BYTES, 2), b"user1820151046732198393");
    }

    #[test]
    fn other_sizes_hold_the_hash_and_are_filled_up() {
        let hash = 6_284_781_860_667_377_211u64.to_be_bytes();
        assert_eq!(key(8, 0), hash);
        assert_eq!(key(12, 0), [&hash[..], b"0000"].concat());
        assert!(Keys::new(7).is_err());
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        for number in [0, 9, 10, 99, 100, 12_345, 99_999_999, 100_000_000, i64::MAX.unsigned_abs(), u64::MAX] {
            let (text, digits) = decimal(number);
            assert_eq!(text[24 - digits..], *number.to_string().as_bytes());
        }
        for number in 0..10_000u64 {
            assert_eq!(eight_digits(number * 10_001), *format!("{number:04}{number:04}").as_bytes());
        }
    }
}
