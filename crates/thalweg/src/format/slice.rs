//! [`Slice`]: bytes that are shared, or so few that they are kept in place.
//!
//! Up to [`INLINE_BYTES_MAX`] bytes lie in the slice itself: no allocation, no reference count. That is where most keys
//! fit (YCSB's have 23 bytes), and the size of a slice stays that of a shared one.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A cheap, shared, immutable slice of bytes: what reads return. Cloning copies no bytes.
///
/// A slice may keep alive the block of the table it came from; call `to_vec` to keep a small value for long.
///
/// ```
/// let value = thalweg::Slice::from("bed");
/// assert_eq!(value, "bed");
/// assert_eq!(value.slice(1..3), b"ed");
/// assert_eq!(Vec::from(value), b"bed");
/// ```
///
/// With the feature `bytes` a slice becomes a `bytes::Bytes` without a copy, and a `Bytes` becomes a slice by one.
#[derive(Clone)]
pub struct Slice(Bytes);

/// What is copied in place: what fits beside the tag in the room of a shared slice.
const INLINE_BYTES_MAX: usize = 23;

/// What a buffer may have behind the bytes that it is kept for: a block's trailer.
const SLACK_BYTES_MAX: usize = 16;

const _: () = assert!(size_of::<Slice>() == 32);

#[derive(Clone)]
enum Bytes {
    Shared { buffer: Arc<[u8]>, start: usize, end: usize },
    Inline { len: u8, bytes: [u8; INLINE_BYTES_MAX] },
}

/// A shared buffer in one allocation, to be filled before it is shared.
pub(crate) fn zeroed(bytes: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, bytes).collect()
}

impl Slice {
    /// A slice without bytes.
    pub(crate) const EMPTY: Slice = Slice(Bytes::Inline { len: 0, bytes: [0; INLINE_BYTES_MAX] });

    /// The bytes of `buffer` at `range`, which it has: shared, or copied where they are few.
    #[inline]
    pub(crate) fn of(buffer: &Arc<[u8]>, start: usize, end: usize) -> Slice {
        match buffer.get(start..end) {
            Some(bytes) if bytes.len() > INLINE_BYTES_MAX => {
                Slice(Bytes::Shared { buffer: Arc::clone(buffer), start, end })
            }
            bytes => Self::inline(bytes.unwrap_or_default()),
        }
    }

    /// The first `len` bytes of `buffer`, which it has, sharing it however few they are.
    pub(crate) fn start_of(buffer: Arc<[u8]>, len: usize) -> Slice {
        Slice(Bytes::Shared { buffer, start: 0, end: len })
    }

    /// A copy in a buffer of its own, however few bytes.
    pub(crate) fn from_long(bytes: &[u8]) -> Slice {
        Slice::from(Arc::from(bytes))
    }

    /// As [`Slice::of`], without another count of the buffer.
    #[inline]
    pub(crate) fn of_owned(buffer: Arc<[u8]>, start: usize, end: usize) -> Slice {
        match buffer.get(start..end) {
            Some(bytes) if bytes.len() > INLINE_BYTES_MAX => Slice(Bytes::Shared { buffer, start, end }),
            bytes => Self::inline(bytes.unwrap_or_default()),
        }
    }

    /// A buffer, and where in it these bytes are.
    pub(crate) fn into_parts(self) -> (Arc<[u8]>, usize, usize) {
        match self.0 {
            Bytes::Shared { buffer, start, end } => (buffer, start, end),
            Bytes::Inline { .. } => (Arc::from(&*self), 0, self.len()),
        }
    }

    /// A buffer that begins with these bytes and holds little else, and their number: the buffer of the slice if it is
    /// such a one, else a copy.
    pub(crate) fn into_buffer(self) -> (Arc<[u8]>, usize) {
        match self.0 {
            Bytes::Shared { buffer, start: 0, end } if buffer.len() - end <= SLACK_BYTES_MAX => (buffer, end),
            _ => (Arc::from(&*self), self.len()),
        }
    }

    /// Requires at most [`INLINE_BYTES_MAX`] bytes.
    #[inline]
    fn inline(from: &[u8]) -> Slice {
        let mut bytes = [0; INLINE_BYTES_MAX];
        let len = from.len().min(INLINE_BYTES_MAX);
        bytes[..len].copy_from_slice(&from[..len]);
        Slice(Bytes::Inline { len: len as u8, bytes })
    }

    /// The part of this slice at `range`, sharing the same buffer.
    ///
    /// # Panics
    /// When the range does not lie within the slice, as for a `[u8]`.
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

    /// As [`Slice::slice`], or `None` when the range does not lie within.
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
        Slice::from(Arc::from(bytes))
    }
}

/// Copies, as every conversion from memory that is not an `Arc<[u8]>`.
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
    () Vec<u8>, () &Vec<u8>, () Box<[u8]>, () String, () &String, () &str, (<const N: usize>) [u8; N],
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

/// Without a copy where the slice is all of its buffer.
impl From<Slice> for Arc<[u8]> {
    fn from(slice: Slice) -> Self {
        match slice.0 {
            Bytes::Shared { buffer, start: 0, end } if end == buffer.len() => buffer,
            _ => Arc::from(&*slice),
        }
    }
}

/// Without a copy of what is more than a few bytes: the `Bytes` keeps the slice.
#[cfg(feature = "bytes")]
impl From<Slice> for bytes::Bytes {
    fn from(slice: Slice) -> Self {
        match slice.0 {
            Bytes::Inline { .. } => bytes::Bytes::copy_from_slice(&slice),
            Bytes::Shared { .. } => bytes::Bytes::from_owner(slice),
        }
    }
}

/// Copies: a slice shares its own buffers only.
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

impl From<Arc<[u8]>> for Slice {
    fn from(buffer: Arc<[u8]>) -> Self {
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
    fn parts_are_the_bytes_at_their_place_whether_they_are_shared_or_kept_in_place() {
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
    fn what_holds_bytes_becomes_a_slice_and_equals_it_both_ways_round() {
        for text in ["", "bed", "a text that is too long to be kept in place"] {
            let (vec, string) = (text.as_bytes().to_vec(), text.to_string());
            let all = [
                Slice::from(text),
                Slice::from(&string),
                Slice::from(string.clone()),
                Slice::from(vec.as_slice()),
                Slice::from(&vec),
                Slice::from(vec.clone()),
                Slice::from(vec.clone().into_boxed_slice()),
                Slice::from(Arc::from(vec.as_slice())),
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
    fn bytes_share_what_a_slice_has() {
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
    fn a_range_beyond_the_end_is_told_with_its_numbers() {
        Slice::from("bed").slice(1..9);
    }

    #[test]
    #[should_panic(expected = "slice index starts at 2 but ends at 1")]
    fn a_range_that_ends_before_it_starts_is_told_with_its_numbers() {
        let (start, end) = (2, 1);
        Slice::from("bed").slice(start..end);
    }

    #[test]
    fn long_parts_share_their_buffer_and_short_ones_let_go_of_it() {
        let buffer: Arc<[u8]> = Arc::from(&[7; 100][..]);
        let long = Slice::of(&buffer, 10, 90);
        let short = Slice::of(&buffer, 10, 10 + INLINE_BYTES_MAX);
        assert_eq!(Arc::strong_count(&buffer), 2);
        assert_eq!((&*long, &*short), (&[7; 80][..], &[7; INLINE_BYTES_MAX][..]));
    }
}
