//! [`TableFile`]: which file a table is in.

use super::TableId;
use std::fmt;

/// The directory that a table's file is in. All tables of a database have different numbers, even in different
/// directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Home {
    /// `tables/` in the directory of the database.
    Disk,
    /// The directory of the fast tier.
    Fast,
}

/// The file of a table: its directory and the number of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableFile {
    pub(crate) home: Home,
    pub(crate) id: TableId,
}

impl TableFile {
    /// A table of the levels.
    pub(crate) fn on_disk(id: TableId) -> Self {
        TableFile { home: Home::Disk, id }
    }

    /// A table of the fast tier.
    pub(crate) fn fast(id: TableId) -> Self {
        TableFile { home: Home::Fast, id }
    }
}

impl fmt::Display for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.home {
            Home::Disk => write!(f, "table {}", self.id),
            Home::Fast => write!(f, "fast table {}", self.id),
        }
    }
}
