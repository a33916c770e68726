//! [`Seen`], [`SeenDirectory`]: what a check keeps of each inode until it compares all.
//!
//! A check of ten million files has ten million of these, so they have only what is compared.

use crate::row::{Attributes, Ino, Kind};

/// The facts known of an inode.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub size: u64,
    /// The bytes that its attributes count, less those in its rows.
    pub bytes_left: i64,
    pub nlink: u32,
    /// How many entries lead to it.
    pub names: u32,
    pub kind: Kind,
    flags: u8,
    /// Whether it has a row of its own, where it must have one.
    pub is_whole: bool,
    /// Whether it has rows of bytes.
    pub has_rows: bool,
    /// Whether one of them is beyond its size.
    pub is_beyond: bool,
    /// Whether a debt says that the inode is to be removed.
    pub is_owed: bool,
}

impl Seen {
    /// An inode of which only an entry is known.
    pub fn pointed_at(kind: Kind) -> Self {
        let (size, bytes_left, nlink, names, flags) = (0, 0, 0, 0, 0);
        let (is_whole, has_rows, is_beyond, is_owed) = (false, false, false, false);
        Seen { size, bytes_left, nlink, names, kind, flags, is_whole, has_rows, is_beyond, is_owed }
    }

    /// Takes the facts of the inode's own row.
    pub fn take(&mut self, attributes: &Attributes) {
        (self.size, self.nlink, self.kind, self.flags) =
            (attributes.size, attributes.nlink, attributes.kind, attributes.flags);
        self.bytes_left = i64::try_from(attributes.bytes).unwrap_or(i64::MAX);
        self.is_whole = true;
    }

    /// Takes a row of its bytes.
    pub fn take_row(&mut self, end: u64, bytes: u64) {
        self.bytes_left = self.bytes_left.saturating_sub_unsigned(bytes);
        self.has_rows = true;
        self.is_beyond |= end > self.size;
    }

    /// Whether the inode has a flag.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The further facts known of a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenDirectory {
    /// The directory that enters it; 0 if none does.
    pub entered_by: Ino,
    /// The directory that its row names.
    pub parent: Ino,
    /// The entries that its row counts.
    pub entries: u64,
    /// The entries that it has.
    pub entries_found: u64,
    /// The entries of directories that it has.
    pub directories_found: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_an_inode_is_small() {
        assert_eq!(size_of::<Seen>(), 32);
        assert_eq!(size_of::<SeenDirectory>(), 40);
    }
}
