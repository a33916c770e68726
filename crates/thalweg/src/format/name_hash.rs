//! [`EntryKey`]: the key of an entry of a directory. [`NameHash`]: the keyed hash that orders the entries of a
//! directory.
//!
//! The hash key is random and secret to its keyspace, so nobody can choose names whose hashes collide (PHAT-A2).
//! Different names can still have equal hashes, so code that finds an entry by its hash compares the name.

use siphasher::sip::SipHasher13;

/// The key of the hashes of one keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashKey(pub(crate) [u8; 16]);

impl HashKey {
    /// Returns the hash of a name: SipHash-1-3.
    #[inline]
    pub(crate) fn hash(&self, name: &[u8]) -> NameHash {
        let hash = SipHasher13::new_with_key(&self.0).hash(name);
        #[cfg(feature = "simulation")]
        let hash = hash & self.mask();
        NameHash(hash)
    }

    /// Returns a variant of this key whose hashes keep only their `highest` bits (1 to 32) and their `lowest` bits (0
    /// to 31). All other bits are zeros. So many names have equal hashes, and with `lowest` bits many different hashes
    /// have equal fences. The key itself contains both numbers, so its hashes stay the same wherever it is stored.
    #[cfg(feature = "simulation")]
    pub(crate) fn with_bits(mut self, (highest, lowest): (u32, u32)) -> Self {
        assert!((1..=32).contains(&highest) && lowest < 32, "1 to 32 and 0 to 31 bits");
        (self.0[7], self.0[8]) = (lowest as u8, highest as u8);
        self.0[9..].copy_from_slice(CUT_MARK);
        self
    }

    /// Returns the mask of the bits that the hashes keep.
    #[cfg(feature = "simulation")]
    #[inline]
    fn mask(&self) -> u64 {
        let (lowest, highest) = (u32::from(self.0[7]), u32::from(self.0[8]));
        let is_cut = self.0.ends_with(CUT_MARK) && (1..=32).contains(&highest) && lowest < 32;
        if is_cut { u64::MAX << (64 - highest) | ((1 << lowest) - 1) } else { u64::MAX }
    }
}

/// The last bytes of a key whose hashes are cut. The two bytes before them are the numbers of lowest and highest bits.
/// A random key ends with these bytes once in 2⁵⁶.
#[cfg(feature = "simulation")]
const CUT_MARK: &[u8; 7] = b"CUTHASH";

/// The keyed hash of the name of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NameHash(pub(crate) u64);

/// Eight bits of a hash: equal for equal names, and for one in 256 pairs of different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) u8);

impl NameHash {
    /// Returns the lowest bits, because entries that lie together have the highest bits in common.
    #[inline]
    pub(crate) fn fingerprint(self) -> Fingerprint {
        Fingerprint(self.0 as u8)
    }

    /// Returns the highest bits.
    #[inline]
    pub(crate) fn fence(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The kind of a keyspace, given at its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeyspaceKind {
    /// A sorted map.
    #[default]
    Ordered,
    /// Entries by directory and name, with the key of their hashes.
    Directory(HashKey),
}

/// The bytes of directory and hash, with which every entry key begins.
pub(crate) const ENTRY_PREFIX_BYTES: usize = 16;

/// The longest name of an entry, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 1 << 10;

/// A key of a directory keyspace: directory and hash, big-endian, then the name. So keys are sorted by directory, and
/// within a directory by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryKey<'a> {
    pub(crate) directory: u64,
    pub(crate) hash: NameHash,
    pub(crate) name: &'a [u8],
}

impl<'a> EntryKey<'a> {
    /// Returns the key of a name in a directory.
    #[inline]
    pub(crate) fn new(directory: u64, name: &'a [u8], key: &HashKey) -> Self {
        EntryKey { directory, hash: key.hash(name), name }
    }

    /// Returns the first bytes of the key: directory and hash.
    #[inline]
    pub(crate) fn prefix(&self) -> [u8; ENTRY_PREFIX_BYTES] {
        prefix(self.directory, self.hash)
    }

    /// Replaces the contents of `out` by the bytes of the key.
    #[inline]
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.prefix());
        out.extend_from_slice(self.name);
    }

    /// Returns the bytes of the key.
    #[inline]
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ENTRY_PREFIX_BYTES + self.name.len());
        self.write(&mut out);
        out
    }

    /// Returns the key with these bytes, or `None` if they are too few for a key.
    #[inline]
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (directory, rest) = bytes.split_first_chunk()?;
        let (hash, name) = rest.split_first_chunk()?;
        Some(EntryKey { directory: u64::from_be_bytes(*directory), hash: NameHash(u64::from_be_bytes(*hash)), name })
    }
}

/// Returns the first bytes of all keys of a directory with this hash.
#[inline]
pub(crate) fn prefix(directory: u64, hash: NameHash) -> [u8; ENTRY_PREFIX_BYTES] {
    let mut prefix = [0; ENTRY_PREFIX_BYTES];
    prefix[..8].copy_from_slice(&directory.to_be_bytes());
    prefix[8..].copy_from_slice(&hash.0.to_be_bytes());
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_name_never_changes() {
        // The hashes are in files. The first is of the test vectors of SipHash-1-3.
        let key = HashKey(std::array::from_fn(|i| i as u8));
        assert_eq!(key.hash(b"").0, 0xabac_0158_050f_c4dc);
        assert_ne!(key.hash(b"src"), HashKey([1; 16]).hash(b"src"));
    }

    #[cfg(feature = "simulation")]
    #[test]
    fn a_key_may_cut_its_hashes_to_their_highest_bits() {
        let hashes = |key: HashKey| -> std::collections::BTreeSet<u64> {
            (0..1000_u32).map(|n| key.hash(&n.to_le_bytes()).0).collect()
        };
        let key = HashKey([7; 16]).with_bits((4, 0));
        assert_eq!(hashes(key), (0..16).map(|highest| highest << 60).collect());
        let both = (0..4).flat_map(|highest| (0..8).map(move |lowest| highest << 62 | lowest));
        assert_eq!(hashes(HashKey([7; 16]).with_bits((2, 3))), both.collect());
        assert_eq!(HashKey(key.0).hash(b"src"), key.hash(b"src"));
        assert_eq!(HashKey([7; 16]).mask(), u64::MAX);
    }

    #[test]
    fn keys_come_back_and_are_sorted_by_directory_and_hash() {
        let key = HashKey([7; 16]);
        let entries = [(0, &b"a"[..]), (1, b""), (1, b"name"), (u64::MAX, b"\xff\xff")];
        let mut keys: Vec<EntryKey<'_>> = entries.iter().map(|(dir, name)| EntryKey::new(*dir, name, &key)).collect();
        keys.sort_by_key(|key| (key.directory, key.hash));
        let bytes: Vec<Vec<u8>> = keys.iter().map(|key| key.to_bytes()).collect();
        assert!(bytes.is_sorted());
        assert!(bytes.iter().zip(&keys).all(|(bytes, key)| EntryKey::decode(bytes) == Some(*key)));
        assert_eq!(EntryKey::decode(&[0; 15]), None);
    }
}
