//! Newtypes for quantities that must not be mixed.

use std::fmt;

macro_rules! number {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number!(
    /// The number of a written entry. Every entry of the database, over all keyspaces, has its own. 0: none yet.
    /// The largest usable number is [`SeqNo::MAX`] (56 bits), so that a kind fits in the same 64 bits.
    SeqNo
);
number!(
    /// The number of a table file. Never reused.
    TableId
);
number!(
    /// The number of an edit of the set of live files: 1, 2, 3 and so on. Never reused.
    EditId
);
number!(
    /// The number of a keyspace. Never reused, so that a log record of a dropped keyspace cannot apply to a new one.
    KeyspaceId
);
number!(
    /// The number of a partition within its keyspace, in key order, from 0.
    PartitionId
);

impl SeqNo {
    /// The largest sequence number.
    pub(crate) const MAX: SeqNo = SeqNo((1 << 56) - 1);
}

/// A position in the whole log: the index of the segment in the upper 32 bits, the byte offset in the segment in the
/// lower 32 bits. Positions are in the order of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogPosition(u64);

impl LogPosition {
    pub(crate) fn new(segment: u32, offset: u32) -> Self {
        LogPosition(u64::from(segment) << 32 | u64::from(offset))
    }
    pub(crate) fn from_raw(raw: u64) -> Self {
        LogPosition(raw)
    }
    pub(crate) fn raw(self) -> u64 {
        self.0
    }
    /// The index of the segment. Never reused.
    pub(crate) fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// The offset in the file of the segment, in bytes.
    pub(crate) fn offset(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}

/// A boundary between two records of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogMark {
    /// Where the next record begins.
    pub(crate) position: LogPosition,
    /// The generation of segment `position.segment()`.
    pub(crate) generation: u64,
    /// The last sequence number before `position`.
    pub(crate) seq: SeqNo,
}
