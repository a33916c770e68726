//! [`Slice`]: bytes that are shared, not copied.

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
pub struct Slice {
    buffer: Arc<[u8]>,
    start: usize,
    end: usize,
}

impl Slice {
    /// The part of this slice at `range`, sharing the same buffer.
    ///
    /// # Panics
    /// When the range does not lie within the slice, as for a `[u8]`.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.len(), "range out of bounds");
        Slice { buffer: Arc::clone(&self.buffer), start: self.start + range.start, end: self.start + range.end }
    }

    /// As [`Slice::slice`], or `None` when the range does not lie within.
    pub(crate) fn get_slice(&self, start: usize, len: usize) -> Option<Slice> {
        let end = start.checked_add(len)?;
        (end <= self.len()).then(|| self.slice(start..end))
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
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
    fn from(bytes: &[u8]) -> Self {
        Slice { buffer: Arc::from(bytes), start: 0, end: bytes.len() }
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Self {
        let end = bytes.len();
        Slice { buffer: Arc::from(bytes), start: 0, end }
    }
}

impl From<Arc<[u8]>> for Slice {
    fn from(buffer: Arc<[u8]>) -> Self {
        let end = buffer.len();
        Slice { buffer, start: 0, end }
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
