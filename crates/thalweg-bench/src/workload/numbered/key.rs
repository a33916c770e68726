//! [`Keys`]: the keys of `db_bench`: a number, highest byte first, padded with `0`.

use crate::error::{Error, Result};

/// The keys of records `0..records`, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    bytes: usize,
}

impl Keys {
    /// Keys of `bytes` bytes.
    ///
    /// # Errors
    /// `Usage` if a key of so few bytes cannot distinguish the records.
    pub fn new(bytes: u32, records: u64) -> Result<Keys> {
        let numbers = 1u128 << (8 * bytes.min(8));
        if bytes == 0 || u128::from(records) > numbers {
            return Err(Error::Usage(format!("keys of {bytes} bytes cannot tell {records} records apart")));
        }
        Ok(Keys { bytes: bytes as usize })
    }

    /// Bytes of a key.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// The key of a record.
    pub fn of(self, number: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.bytes);
        self.write(number, &mut key);
        key
    }

    /// Writes the key of a record to `key`.
    pub fn write(self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&number.to_be_bytes()[8 - self.bytes.min(8)..]);
        key.resize(self.bytes, b'0');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_db_bench() {
        let key = |bytes, number| {
            let mut key = b"what was there before, whatever its length".to_vec();
            Keys::new(bytes, 1000).unwrap().write(number, &mut key);
            key
        };
        assert_eq!(key(16, 0x1234), b"\0\0\0\0\0\0\x12\x3400000000");
        assert_eq!(key(8, 7), [0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(key(3, 0x1234), [0, 0x12, 0x34]);
    }

    #[test]
    fn keys_too_short_for_their_number_are_refused() {
        assert!(Keys::new(1, 256).is_ok() && Keys::new(1, 257).is_err());
        assert!(Keys::new(8, u64::MAX).is_ok() && Keys::new(0, 1).is_err());
    }
}
