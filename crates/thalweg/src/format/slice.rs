//! [`Slice`]: shared bytes, or a few bytes inline.
//!
//! Up to [`INLINE_BYTES_MAX`] bytes are stored in the slice itself: no allocation, no reference count. Most keys fit
//! (YCSB's have 23 bytes), and an inline slice is no larger than a shared one.

use crate::memory::Buffer;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An immutable, shared slice of bytes, as reads return it. Cloning it does not copy shared bytes.
///
/// A slice may keep in memory the whole block of the table that it came from, and the 2 MiB from which the cache cut
/// that block. Call `to_vec` to keep a small value for long.
///
/// ```
/// let value = thalweg::Slice::from("bed");
/// assert_eq!(value, "bed");
/// assert_eq!(value.slice(1..3), b"ed");
/// assert_eq!(Vec::from(value), b"bed");
/// ```
///
/// With the feature `bytes` a slice converts to a `bytes::Bytes` without a copy, and a `Bytes` to a slice by one copy.
#[derive(Clone)]
pub struct Slice(Bytes);

/// The number of bytes that fit inline: with the tag they take the size of a shared slice.
const INLINE_BYTES_MAX: usize = 23;

const _: () = assert!(size_of::<Slice>() == 32);

#[derive(Clone)]
enum Bytes {
    Shared { buffer: Buffer, start: usize, end: usize },
    Inline { len: u8, bytes: [u8; INLINE_BYTES_MAX] },
}

impl Slice {
    /// A slice without bytes.
    pub(crate) const EMPTY: Slice = Slice(Bytes::Inline { len: 0, bytes: [0; INLINE_BYTES_MAX] });

    /// Returns the bytes of `buffer` from `start` to `end`: shared, or inline if they are few. The buffer must have
    /// them.
    #[inline]
    pub(crate) fn of(buffer: &Buffer, start: usize, end: usize) -> Slice {
        match buffer.get(start..end) {
            Some(bytes) if bytes.len() > INLINE_BYTES_MAX => {
                Slice(Bytes::Shared { buffer: Buffer::clone(buffer), start, end })
            }
            bytes => Self::inline(bytes.unwrap_or_default()),
        }
    }

    /// Returns the first `len` bytes of `buffer`: shared, even if they are few. The buffer must have them.
    pub(crate) fn start_of(buffer: Buffer, len: usize) -> Slice {
        Slice(Bytes::Shared { buffer, start: 0, end: len })
    }

    /// Returns a copy of `bytes` in a new buffer, even if they are few.
    pub(crate) fn from_long(bytes: &[u8]) -> Slice {
        Slice::from(Buffer::copy(bytes))
    }

    /// Returns a packed copy for a cache, as [`Slice::into_packed`] does.
    pub(crate) fn packed(bytes: &[u8]) -> Slice {
        Slice::from(Buffer::packed(bytes))
    }

    /// As [`Slice::of`], but takes the reference instead of cloning it.
    #[inline]
    pub(crate) fn of_owned(buffer: Buffer, start: usize, end: usize) -> Slice {
        match buffer.get(start..end) {
            Some(bytes) if bytes.len() > INLINE_BYTES_MAX => Slice(Bytes::Shared { buffer, start, end }),
            bytes => Self::inline(bytes.unwrap_or_default()),
        }
    }

    /// Returns a buffer, and the offsets in it of the beginning and the end of the bytes.
    pub(crate) fn into_parts(self) -> (Buffer, usize, usize) {
        match self.0 {
            Bytes::Shared { buffer, start, end } => (buffer, start, end),
            Bytes::Inline { .. } => (Buffer::copy(&self), 0, self.len()),
        }
    }

    /// Returns the bytes for a cache: the slice itself if it is all of a packed buffer, and otherwise a packed copy.
    pub(crate) fn into_packed(self) -> Slice {
        match &self.0 {
            Bytes::Shared { buffer, start: 0, end } if buffer.is_packed() && *end == buffer.len() => self,
            _ => Slice::from(Buffer::packed(&self)),
        }
    }

    /// Returns an inline copy of at most [`INLINE_BYTES_MAX`] bytes.
    #[inline]
    fn inline(from: &[u8]) -> Slice {
        let mut bytes = [0; INLINE_BYTES_MAX];
        let len = from.len().min(INLINE_BYTES_MAX);
        bytes[..len].copy_from_slice(&from[..len]);
        Slice(Bytes::Inline { len: len as u8, bytes })
    }

    /// Returns the part of this slice at `range`, which shares its buffer.
    ///
    /// # Panics
    /// Panics if the range does not lie within the slice, as for a `[u8]`.
    #[track_caller]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Slice {
        let (start, end, len) = (range.start, range.end, self.len());
        assert!(start <= end, "slice index starts at {start} but ends at {end}");
        assert!(end <= len, "range end index {end} out of range for slice of length {len}");
        match &self.0 {
            Bytes::Shared { buffer, start, .. } => Self::of(buffer, start + range.start, start + range.end),
            Bytes::Inline { .. } => Self::inline(self.get(range).unwrap_or_default()),
        }
    }

    /// As [`Slice::slice`], but returns `None` if the range does not lie within.
    pub(crate) fn get_slice(&self, start: usize, len: usize) -> Option<Slice> {
        let end = start.checked_add(len)?;
        (end <= self.len()).then(|| self.slice(start..end))
    }
}

impl Deref for Slice {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Shared { buffer, start, end } => buffer.get(*start..*end),
            Bytes::Inline { len, bytes } => bytes.get(..usize::from(*len)),
        }
        .unwrap_or_default()
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Slice {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_BYTES_MAX {
            return Self::inline(bytes);
        }
        Slice::from(Buffer::copy(bytes))
    }
}

/// Implements `From` by a copy of the bytes. Every conversion from other memory copies, because a slice shares only its
/// own buffers.
macro_rules! from_bytes {
    ($(($($generics:tt)*) $type:ty),* $(,)?) => {$(
        impl $($generics)* From<$type> for Slice {
            fn from(bytes: $type) -> Self {
                let bytes: &[u8] = bytes.as_ref();
                Slice::from(bytes)
            }
        }
    )*};
}

from_bytes!(
    () Vec<u8>, () &Vec<u8>, () Box<[u8]>, () Arc<[u8]>, () String, () &String, () &str, (<const N: usize>) [u8; N],
    (<const N: usize>) &[u8; N],
);

impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Self {
        slice.to_vec()
    }
}

impl From<Slice> for Box<[u8]> {
    fn from(slice: Slice) -> Self {
        Box::from(&*slice)
    }
}

impl From<Slice> for Arc<[u8]> {
    fn from(slice: Slice) -> Self {
        Arc::from(&*slice)
    }
}

/// Does not copy shared bytes: the `Bytes` keeps the slice.
#[cfg(feature = "bytes")]
impl From<Slice> for bytes::Bytes {
    fn from(slice: Slice) -> Self {
        match slice.0 {
            Bytes::Inline { .. } => bytes::Bytes::copy_from_slice(&slice),
            Bytes::Shared { .. } => bytes::Bytes::from_owner(slice),
        }
    }
}

#[cfg(feature = "bytes")]
impl From<bytes::Bytes> for Slice {
    fn from(bytes: bytes::Bytes) -> Self {
        Slice::from(&*bytes)
    }
}

impl Default for Slice {
    fn default() -> Self {
        Slice::EMPTY
    }
}

impl From<Buffer> for Slice {
    fn from(buffer: Buffer) -> Self {
        let end = buffer.len();
        Slice(Bytes::Shared { buffer, start: 0, end })
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Slice {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Slice {}

macro_rules! equals_slice {
    ($(($($generics:tt)*) $type:ty),* $(,)?) => {$(
        impl $($generics)* PartialEq<Slice> for $type {
            fn eq(&self, other: &Slice) -> bool {
                let bytes: &[u8] = self.as_ref();
                *bytes == **other
            }
        }
    )*};
}

equals_slice!(
    () [u8], () &[u8], () Vec<u8>, () str, () &str, () String, (<const N: usize>) [u8; N], (<const N: usize>) &[u8; N],
);

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::hash::Hash for Slice {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_bytes_of_their_range_whether_shared_or_inline() {
        let bytes: Vec<u8> = (0..60).collect();
        for whole in [Slice::from(bytes.as_slice()), Slice::from(&bytes[..INLINE_BYTES_MAX])] {
            for start in 0..=whole.len() {
                for end in start..=whole.len() {
                    let part = whole.slice(start..end);
                    assert_eq!(part, &bytes[start..end]);
                    assert_eq!(part.slice(part.len() / 2..part.len()), &bytes[start + (end - start) / 2..end]);
                    assert_eq!(whole.get_slice(start, end - start).unwrap(), part);
                }
            }
            assert!(whole.get_slice(1, whole.len()).is_none());
        }
    }

    fn both_ways_equal<T: PartialEq<Slice> + AsRef<[u8]> + ?Sized>(slice: &Slice, other: &T) {
        assert!(slice == other);
        assert!(other == slice);
    }

    #[test]
    fn types_that_hold_bytes_convert_to_slices_and_equal_them_both_ways() {
        for text in ["", "bed", "a text that is too long to be stored inline"] {
            let (vec, string) = (text.as_bytes().to_vec(), text.to_string());
            let all = [
                Slice::from(text),
                Slice::from(&string),
                Slice::from(string.clone()),
                Slice::from(vec.as_slice()),
                Slice::from(&vec),
                Slice::from(vec.clone()),
                Slice::from(vec.clone().into_boxed_slice()),
                Slice::from(Arc::<[u8]>::from(vec.as_slice())),
            ];
            for slice in all {
                both_ways_equal(&slice, text);
                both_ways_equal(&slice, &text);
                both_ways_equal(&slice, &string);
                both_ways_equal(&slice, &vec);
                both_ways_equal(&slice, vec.as_slice());
                both_ways_equal(&slice, &vec.as_slice());
                assert_eq!(Vec::from(slice.clone()), vec);
                assert_eq!(*Box::<[u8]>::from(slice.clone()), *vec);
                assert_eq!(*Arc::<[u8]>::from(slice), *vec);
            }
        }
        both_ways_equal(&Slice::from(b"bed"), b"bed");
        both_ways_equal(&Slice::from(*b"bed"), &b"bed");
        assert_eq!(Slice::default(), "");
    }

    #[cfg(feature = "bytes")]
    #[test]
    fn bytes_share_the_buffer_of_a_slice() {
        for len in [0, INLINE_BYTES_MAX, 100] {
            let slice = Slice::from(vec![7; len]);
            let bytes = bytes::Bytes::from(slice.clone());
            assert_eq!(*bytes, *slice);
            assert_eq!(bytes.as_ptr() == slice.as_ptr(), len == 100);
            assert_eq!(Slice::from(bytes), slice);
        }
    }

    #[test]
    #[should_panic(expected = "range end index 9 out of range for slice of length 3")]
    fn a_range_past_the_end_panics_with_its_numbers() {
        Slice::from("bed").slice(1..9);
    }

    #[test]
    #[should_panic(expected = "slice index starts at 2 but ends at 1")]
    fn a_range_that_ends_before_it_starts_panics_with_its_numbers() {
        let (start, end) = (2, 1);
        Slice::from("bed").slice(start..end);
    }

    #[test]
    fn long_parts_share_their_buffer_and_short_ones_do_not() {
        let mut buffer = Buffer::copy(&[7; 100]);
        let long = Slice::of(&buffer, 10, 90);
        let short = Slice::of(&buffer, 10, 10 + INLINE_BYTES_MAX);
        assert!(buffer.get_mut().is_none());
        assert_eq!((&*long, &*short), (&[7; 80][..], &[7; INLINE_BYTES_MAX][..]));
        drop(long);
        assert!(buffer.get_mut().is_some());
    }
}
