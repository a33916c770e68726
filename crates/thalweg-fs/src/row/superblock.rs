//! [`Superblock`]: the row that makes a database a volume, and the small rows beside it.

use super::checked::{Fields, damaged, open, seal};
use crate::error::Result;

/// The version of the schema that this program writes, and the newest that it reads.
pub(crate) const FORMAT_VERSION: u32 = 2;

/// The row that makes a database a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub version: u32,
    /// Properties that a program must know to mount the volume: none so far.
    pub features: u32,
    pub uuid: [u8; 16],
    /// How often the volume was mounted.
    pub epoch: u32,
    /// Whether it was unmounted, and not just left.
    pub is_clean: bool,
}

impl Superblock {
    pub(crate) const KEY: &'static [u8] = b"superblock";
    const MAGIC: &'static [u8; 8] = b"THALWGFS";

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = Self::MAGIC.to_vec();
        row.extend_from_slice(&self.version.to_le_bytes());
        row.extend_from_slice(&self.features.to_le_bytes());
        row.extend_from_slice(&self.uuid);
        row.extend_from_slice(&self.epoch.to_le_bytes());
        row.push(u8::from(self.is_clean));
        seal(&[Self::KEY], row)
    }

    /// # Errors
    /// `EIO` for a row that is damaged.
    pub(crate) fn decode(row: &[u8]) -> Result<Self> {
        let mut fields = Fields(open(&[Self::KEY], row)?);
        let mut read = || {
            let (magic, rest) = fields.0.split_first_chunk::<8>()?;
            fields.0 = rest;
            let (version, features) = (fields.u32()?, fields.u32()?);
            let (uuid, rest) = fields.0.split_first_chunk::<16>()?;
            fields.0 = rest;
            let (epoch, is_clean) = (fields.u32()?, fields.u8()?);
            let is_sound = magic == Self::MAGIC && is_clean <= 1;
            is_sound.then_some(Superblock { version, features, uuid: *uuid, epoch, is_clean: is_clean == 1 })
        };
        read().ok_or_else(|| damaged(&[Self::KEY], "it is no superblock"))
    }
}

/// How much a volume has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub inodes: u64,
}

impl Totals {
    pub(crate) const KEY: &'static [u8] = b"totals";
    /// The key of the high water: no inode has this number or a higher one.
    pub(crate) const HIGH_WATER: &'static [u8] = b"high water";
}

/// The row of a number.
pub(crate) fn encode_number(key: &[u8], number: u64) -> Vec<u8> {
    seal(&[key], number.to_le_bytes().to_vec())
}

/// # Errors
/// `EIO` that names the row.
pub(crate) fn decode_number(key: &[u8], row: &[u8]) -> Result<u64> {
    let mut fields = Fields(open(&[key], row)?);
    let number = fields.u64().filter(|_| fields.0.is_empty());
    number.ok_or_else(|| damaged(&[key], "it is no number"))
}

/// The work left for an inode that has no name: a row of `reclaim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    /// A file that was open when its last name went: all its rows go with its last close, or at the next mount.
    Orphan,
    /// An object whose file is to be removed once the removal of its rows is durable.
    Object,
}

impl Debt {
    pub(crate) fn encode(self, ino: &[u8; 8]) -> Vec<u8> {
        seal(&[ino], vec![self as u8])
    }

    /// # Errors
    /// `EIO` that names the row.
    pub(crate) fn decode(ino: &[u8; 8], row: &[u8]) -> Result<Self> {
        match open(&[ino], row)? {
            [0] => Ok(Debt::Orphan),
            [1] => Ok(Debt::Object),
            _ => Err(damaged(&[ino], "it is no debt")),
        }
    }
}
