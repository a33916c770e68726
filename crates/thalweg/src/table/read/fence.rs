//! [`Fence`]: the first bytes of a key. A search compares them without following a pointer to the key.

/// The first 24 bytes of a key, padded with zeros, as numbers in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::table) struct Fence([u64; 3]);

impl Fence {
    #[inline]
    pub(in crate::table) fn new(key: &[u8]) -> Fence {
        let mut bytes = [0; 24];
        let (start, _) = key.split_at(key.len().min(bytes.len()));
        for (to, from) in bytes.iter_mut().zip(start) {
            *to = *from;
        }
        let (words, _) = bytes.as_chunks::<8>();
        let mut fence = [0; 3];
        for (to, from) in fence.iter_mut().zip(words) {
            *to = u64::from_be_bytes(*from);
        }
        Fence(fence)
    }

    /// Whether `key` is less than `other`. `self` is the fence of `key`, `other_fence` that of `other`.
    #[inline]
    pub(in crate::table) fn is_less(&self, key: &[u8], other_fence: &Fence, other: &[u8]) -> bool {
        if self == other_fence { key < other } else { self < other_fence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_order_keys_as_bytes_do() {
        let long = [7; 30];
        let mut keys: Vec<&[u8]> = vec![b"", b"\0", b"\0\0", b"a", b"a\0", b"b", b"\xff"];
        keys.extend([20, 23, 24, 25, 30].map(|len| &long[..len]));
        for a in &keys {
            for b in &keys {
                assert_eq!(Fence::new(a).is_less(a, &Fence::new(b), b), a < b, "{a:?} {b:?}");
            }
        }
    }
}
