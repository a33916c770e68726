//! [`KeyBounds`]: the ways to write a range of keys.
//!
//! The standard library's `RangeBounds<T>` is implemented for `Range<T>` and for `Range<&T>`, so a call that only asks
//! for `T: AsRef<[u8]>` leaves open which of the two is meant, and `range(..)` names no type at all. This trait has
//! exactly one implementation for each way to write a range.

use crate::format::Slice;
use crate::ordered::cursor::Bounds;
use crate::table::KeyRange;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: any of Rust's ranges over a type that gives bytes, or a pair of [`Bound`]s.
///
/// ```
/// use std::ops::Bound;
/// # fn main() -> thalweg::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("thalweg-doc-bounds-{}", std::process::id()));
/// # let db = thalweg::Database::open(&dir)?;
/// let rivers = db.keyspace("rivers")?;
/// for name in ["Aare", "Elbe", "Inn", "Rhine"] {
///     rivers.insert(name, "")?;
/// }
/// let from = b"B".to_vec();
/// assert_eq!(rivers.range(..).try_count()?, 4);
/// assert_eq!(rivers.range(&from..).try_count()?, 3);
/// assert_eq!(rivers.range("B".."Inn").try_count()?, 1);
/// assert_eq!(rivers.range(..=b"Inn").try_count()?, 3);
/// assert_eq!(rivers.range((Bound::Excluded("Aare"), Bound::Unbounded)).try_count()?, 3);
/// # db.close()?; let _ = std::fs::remove_dir_all(dir);
/// # Ok(())
/// # }
/// ```
///
/// Both ends have one type. Byte strings of different lengths have different types, so write `&b"A"[..]..&b"Inn"[..]`
/// or `"A".."Inn"` for them. A pair of two [`Bound::Unbounded`] names no type: write `..` for it.
pub trait KeyBounds {
    /// Where the range begins.
    fn from(&self) -> Bound<&[u8]>;

    /// Where the range ends. A range that ends before it begins is empty.
    fn to(&self) -> Bound<&[u8]>;
}

/// The bounds as cursors keep them.
pub(super) fn owned(range: &(impl KeyBounds + ?Sized)) -> Bounds {
    Bounds { from: range.from().map(Slice::from), to: range.to().map(Slice::from) }
}

/// The same keys as a range that includes its first key and excludes its end. `None`: no key is in it.
pub(super) fn key_range(range: &(impl KeyBounds + ?Sized)) -> Option<KeyRange> {
    // The next key after one is that key with a zero byte.
    let next = |key: &[u8]| -> Box<[u8]> { [key, &[0]].concat().into() };
    let from: Option<Box<[u8]>> = match range.from() {
        Bound::Included(key) => Some(Box::from(key)),
        Bound::Excluded(key) => Some(next(key)),
        Bound::Unbounded => None,
    };
    let to: Option<Box<[u8]>> = match range.to() {
        Bound::Included(key) => Some(next(key)),
        Bound::Excluded(key) => Some(Box::from(key)),
        Bound::Unbounded => None,
    };
    let is_empty = from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from >= to);
    (!is_empty).then_some(KeyRange { from, to })
}

impl KeyBounds for RangeFull {
    fn from(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn to(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<K: AsRef<[u8]>> KeyBounds for Range<K> {
    fn from(&self) -> Bound<&[u8]> {
        Bound::Included(self.start.as_ref())
    }

    fn to(&self) -> Bound<&[u8]> {
        Bound::Excluded(self.end.as_ref())
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeInclusive<K> {
    fn from(&self) -> Bound<&[u8]> {
        Bound::Included(self.start().as_ref())
    }

    fn to(&self) -> Bound<&[u8]> {
        Bound::Included(self.end().as_ref())
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeFrom<K> {
    fn from(&self) -> Bound<&[u8]> {
        Bound::Included(self.start.as_ref())
    }

    fn to(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeTo<K> {
    fn from(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn to(&self) -> Bound<&[u8]> {
        Bound::Excluded(self.end.as_ref())
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeToInclusive<K> {
    fn from(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn to(&self) -> Bound<&[u8]> {
        Bound::Included(self.end.as_ref())
    }
}

impl<K: AsRef<[u8]>> KeyBounds for (Bound<K>, Bound<K>) {
    fn from(&self) -> Bound<&[u8]> {
        self.0.as_ref().map(|key| key.as_ref())
    }

    fn to(&self) -> Bound<&[u8]> {
        self.1.as_ref().map(|key| key.as_ref())
    }
}
