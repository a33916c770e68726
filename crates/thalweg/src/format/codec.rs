//! The codec of every file format: little-endian numbers, LEB128 varints, length-prefixed bytes.
//!
//! [`Decoder`] reads bytes that may be damaged. Each read is checked, and returns `None` at the end or at a malformed
//! number. The caller turns that into an error that names file and offset.

/// Appends little-endian numbers, varints and length-prefixed bytes to a buffer.
pub(crate) trait Encode {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// Appends LEB128: 7 bits a byte, low bits first, at most 10 bytes.
    fn put_varint(&mut self, value: u64);
    /// Appends the length as a varint, then the bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Encode for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads what [`Encode`] wrote, from bytes that may be damaged.
#[derive(Clone, Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Decoder { bytes, offset: 0 }
    }
    /// The bytes read so far.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
    /// The bytes not yet read.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }
    /// Reads the next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.offset.checked_add(len)?;
        let taken = self.bytes.get(self.offset..end)?;
        self.offset = end;
        Some(taken)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_le_bytes)
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// Reads a LEB128 number. Returns `None` past the end, or if it exceeds 64 bits or is not in its shortest form.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }
    /// Reads a varint that must fit in a `usize`.
    pub(crate) fn varint_usize(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
    /// Reads length-prefixed bytes.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.varint_usize()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut buffer = Vec::new();
                buffer.put_varint(value);
                let mut decoder = Decoder::new(&buffer);
                assert_eq!(decoder.varint(), Some(value));
                assert!(decoder.is_empty());
            }
        }
    }

    #[test]
    fn malformed_varints_are_refused() {
        for bytes in [&[0x80u8][..], &[0x80, 0x00], &[0xff; 10], &[]] {
            assert_eq!(Decoder::new(bytes).varint(), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        let mut buffer = Vec::new();
        buffer.put_varint(u64::MAX);
        assert_eq!(Decoder::new(&buffer).bytes(), None);
    }
}
