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
/// let value = thalweg::Slice::from(b"bed".as_slice());
/// assert_eq!(value, b"bed".as_slice());
/// assert_eq!(value.slice(1..3), b"ed".as_slice());
/// ```
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
    pub fn slice(&self, range: std::ops::Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.len(), "range out of bounds");
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

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Self {
        Slice::from(bytes.as_slice())
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

    #[test]
    fn long_parts_share_their_buffer_and_short_ones_let_go_of_it() {
        let buffer: Arc<[u8]> = Arc::from(&[7; 100][..]);
        let long = Slice::of(&buffer, 10, 90);
        let short = Slice::of(&buffer, 10, 10 + INLINE_BYTES_MAX);
        assert_eq!(Arc::strong_count(&buffer), 2);
        assert_eq!((&*long, &*short), (&[7; 80][..], &[7; INLINE_BYTES_MAX][..]));
    }
}
