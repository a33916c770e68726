//! [`FastLayout`]: how a fast table arranges its entries; [`FastTableOptions`]: how a fast table is written.

/// How a fast table arranges its entries. All layouts have the same header, filter, directory and checksums, and take
/// the same path from flush to read, so that a comparison shows the arrangement alone (PMB-6). The fourth structure of
/// the paper's comparison is a [`crate::table::Table`].
///
/// The paper compresses with snappy. The licence of its Rust crate is one that this project does not accept, so these
/// layouts use LZ4, the compression of tables, instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FastLayout {
    /// Groups of 8 or 16 entries that leave out the bytes their keys share. A prefix of fixed length finds a group
    /// (PMB-4).
    #[default]
    Prefixed,
    /// An array of pairs, and an array of their offsets.
    Array,
    /// As `Array`, each pair compressed by itself.
    ArrayLz4,
    /// As `ArrayLz4`, eight pairs compressed at once.
    ArrayLz4Group,
}

impl FastLayout {
    pub(super) fn code(self) -> u8 {
        match self {
            FastLayout::Prefixed => 0,
            FastLayout::Array => 1,
            FastLayout::ArrayLz4 => 2,
            FastLayout::ArrayLz4Group => 3,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        [FastLayout::Prefixed, FastLayout::Array, FastLayout::ArrayLz4, FastLayout::ArrayLz4Group]
            .into_iter()
            .find(|layout| layout.code() == code)
    }

    /// Whether keys are stored without the bytes that they share with other keys.
    #[inline]
    pub(super) fn shares_keys(self) -> bool {
        self == FastLayout::Prefixed
    }

    /// Whether groups are compressed.
    #[inline]
    pub(super) fn is_compressed(self) -> bool {
        matches!(self, FastLayout::ArrayLz4 | FastLayout::ArrayLz4Group)
    }

    /// Whether a table of this layout may have groups of `entries`.
    pub(super) fn allows_group(self, entries: usize) -> bool {
        match self {
            FastLayout::Prefixed => matches!(entries, 8 | 16),
            FastLayout::Array | FastLayout::ArrayLz4 => entries == 1,
            FastLayout::ArrayLz4Group => entries == 8,
        }
    }

    /// Whether a table of this layout may have prefixes of `bytes`.
    pub(super) fn allows_prefix(self, bytes: usize) -> bool {
        if self.shares_keys() { matches!(bytes, 8 | 16 | 24 | 32) } else { bytes == 0 }
    }
}

/// How a fast table is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastTableOptions {
    /// How the table arranges its entries.
    pub(crate) layout: FastLayout,
    /// Entries per group of [`FastLayout::Prefixed`]: 8 or 16. The other layouts have their own number.
    pub(crate) group_entries: usize,
    /// Bits per key of the filter. 0: no filter.
    pub(crate) filter_bits_per_key: u32,
}

impl Default for FastTableOptions {
    fn default() -> Self {
        FastTableOptions { layout: FastLayout::Prefixed, group_entries: 16, filter_bits_per_key: 10 }
    }
}

impl FastTableOptions {
    /// The entries of each group but the last.
    pub(super) fn entries_a_group(&self) -> usize {
        match self.layout {
            FastLayout::Prefixed => self.group_entries,
            FastLayout::Array | FastLayout::ArrayLz4 => 1,
            FastLayout::ArrayLz4Group => 8,
        }
    }
}
