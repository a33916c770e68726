//! The rows of a directory keyspace: what a name stands for ([`EntryRow`]), and a directory's own row
//! ([`DirectoryRow`]), whose name is ".".

use super::attributes::{Attributes, Ino, Kind};
use super::checked::{Fields, damaged, open, seal};
use crate::error::Result;

/// The first byte of a row that has attributes, and of one that points to them.
const WHOLE: u8 = 1;
const POINTER: u8 = 2;

/// What a name in a directory stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryRow {
    /// An inode with one name: its attributes, and the target of a symbolic link.
    Whole(Attributes, Box<[u8]>),
    /// A directory, whose attributes are in its own row, or a file with more names, whose attributes are in `inodes`.
    Pointer(Ino, Kind),
}

impl EntryRow {
    pub(crate) fn ino(&self) -> Ino {
        match self {
            EntryRow::Whole(attributes, _) => attributes.ino,
            EntryRow::Pointer(ino, _) => *ino,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            EntryRow::Whole(attributes, _) => attributes.kind,
            EntryRow::Pointer(_, kind) => *kind,
        }
    }

    /// The row of an inode: for the entry `name` of `directory`.
    pub(crate) fn encode(&self, directory: Ino, name: &[u8]) -> Vec<u8> {
        let mut row = Vec::with_capacity(8 + Attributes::BYTES_MAX);
        match self {
            EntryRow::Whole(attributes, target) => {
                row.push(WHOLE);
                attributes.encode(&mut row);
                row.extend_from_slice(target);
            }
            EntryRow::Pointer(ino, kind) => {
                row.extend_from_slice(&[POINTER, kind.number()]);
                row.extend_from_slice(&ino.to_le_bytes());
            }
        }
        seal(&[&directory.to_be_bytes(), name], row)
    }

    /// # Errors
    /// `EIO` that names the entry.
    pub(crate) fn decode(directory: Ino, name: &[u8], row: &[u8]) -> Result<Self> {
        let directory = directory.to_be_bytes();
        let key: [&[u8]; 2] = [&directory, name];
        decode_body(open(&key, row)?).ok_or_else(|| damaged(&key, "it is no entry"))
    }

    /// The row that `inodes` has for the attributes and target of an inode with several names, or none.
    pub(crate) fn encode_inode(attributes: &Attributes, target: &[u8]) -> Vec<u8> {
        let mut row = vec![WHOLE];
        attributes.encode(&mut row);
        row.extend_from_slice(target);
        seal(&[&attributes.ino.to_be_bytes()], row)
    }

    /// # Errors
    /// `EIO` that names the inode.
    pub(crate) fn decode_inode(ino: Ino, row: &[u8]) -> Result<(Attributes, Box<[u8]>)> {
        let key = ino.to_be_bytes();
        match decode_body(open(&[&key], row)?) {
            Some(EntryRow::Whole(attributes, target)) if attributes.ino == ino => Ok((attributes, target)),
            _ => Err(damaged(&[&key], "it is no inode")),
        }
    }
}

fn decode_body(body: &[u8]) -> Option<EntryRow> {
    let mut fields = Fields(body);
    match fields.u8()? {
        WHOLE => {
            let attributes = Attributes::decode(&mut fields)?;
            let is_sound =
                attributes.kind != Kind::Directory && (attributes.kind == Kind::Symlink || fields.0.is_empty());
            is_sound.then(|| EntryRow::Whole(attributes, fields.0.into()))
        }
        POINTER => {
            let kind = Kind::from_number(fields.u8()?)?;
            let ino = fields.u64().filter(|&ino| ino != 0)?;
            fields.0.is_empty().then_some(EntryRow::Pointer(ino, kind))
        }
        _ => None,
    }
}

/// A directory's own row: attributes, the directory it is in, and how many entries it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryRow {
    pub attributes: Attributes,
    pub parent: Ino,
    pub entries: u64,
}

impl DirectoryRow {
    /// The name of the row in its directory. No entry has it.
    pub(crate) const NAME: &'static [u8] = b".";

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(Attributes::BYTES_MAX + 20);
        self.attributes.encode(&mut row);
        row.extend_from_slice(&self.parent.to_le_bytes());
        row.extend_from_slice(&self.entries.to_le_bytes());
        seal(&[&self.attributes.ino.to_be_bytes(), Self::NAME], row)
    }

    /// # Errors
    /// `EIO` that names the directory.
    pub(crate) fn decode(directory: Ino, row: &[u8]) -> Result<Self> {
        let ino = directory.to_be_bytes();
        let key: [&[u8]; 2] = [&ino, Self::NAME];
        let mut fields = Fields(open(&key, row)?);
        let mut read = || {
            let attributes = Attributes::decode(&mut fields)?;
            let (parent, entries) = (fields.u64()?, fields.u64()?);
            let is_sound = attributes.is_directory() && attributes.ino == directory && parent != 0;
            (is_sound && fields.0.is_empty()).then_some(DirectoryRow { attributes, parent, entries })
        };
        read().ok_or_else(|| damaged(&key, "it is no directory"))
    }
}
