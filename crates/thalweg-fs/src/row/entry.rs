//! The rows of a directory keyspace: what a name stands for ([`EntryRow`]), and a directory's own row
//! ([`DirectoryRow`]), whose name is ".".

use super::attributes::{Attributes, Ino, Kind, SCHEMA_2};
use super::checked::{Fields, damaged, open, put_signed, seal};
use super::schema_1;
use crate::error::Result;

/// The first byte of a row that points to attributes, plus the number of their kind. A row that has attributes begins
/// with their first byte.
const POINTER: u8 = 8;

/// In schema 1, the first byte of a row that has attributes, and of one that points to them.
const WHOLE_1: u8 = 1;
const POINTER_1: u8 = 2;

/// The inode or attributes that a name in a directory stands for.
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
                attributes.encode(&mut row);
                put_ino(&mut row, attributes.ino, directory);
                row.extend_from_slice(target);
            }
            EntryRow::Pointer(ino, kind) => {
                row.push(POINTER + kind.number());
                put_ino(&mut row, *ino, directory);
            }
        }
        seal(&[&directory.to_be_bytes(), name], row)
    }

    /// # Errors
    /// `EIO` that names the entry.
    pub(crate) fn decode(directory: Ino, name: &[u8], row: &[u8]) -> Result<Self> {
        let number = directory.to_be_bytes();
        let key: [&[u8]; 2] = [&number, name];
        decode_body(open(&key, row)?, directory).ok_or_else(|| damaged(&key, "it is no entry"))
    }

    /// The row that `inodes` has for the attributes and target of an inode with several names, or none.
    pub(crate) fn encode_inode(attributes: &Attributes, target: &[u8]) -> Vec<u8> {
        let mut row = Vec::with_capacity(8 + Attributes::BYTES_MAX);
        attributes.encode(&mut row);
        put_ino(&mut row, attributes.ino, attributes.ino);
        row.extend_from_slice(target);
        seal(&[&attributes.ino.to_be_bytes()], row)
    }

    /// # Errors
    /// `EIO` that names the inode.
    pub(crate) fn decode_inode(ino: Ino, row: &[u8]) -> Result<(Attributes, Box<[u8]>)> {
        let key = ino.to_be_bytes();
        match decode_body(open(&[&key], row)?, ino) {
            Some(EntryRow::Whole(attributes, target)) if attributes.ino == ino => Ok((attributes, target)),
            _ => Err(damaged(&[&key], "it is no inode")),
        }
    }
}

/// Appends the number of an inode as the difference from another.
fn put_ino(row: &mut Vec<u8>, ino: Ino, from: Ino) {
    put_signed(row, (ino.wrapping_sub(from) as i64).into());
}

fn take_ino(fields: &mut Fields<'_>, from: Ino) -> Option<Ino> {
    let difference = i64::try_from(fields.signed()?).ok()?;
    Some(from.wrapping_add(difference as u64)).filter(|&ino| ino != 0)
}

/// The entry in a body whose inode is told by its difference from `from`.
fn decode_body(body: &[u8], from: Ino) -> Option<EntryRow> {
    let mut fields = Fields(body);
    let first = *body.first()?;
    if first & SCHEMA_2 != 0 {
        let attributes = Attributes::decode(&mut fields, from)?;
        let ino = take_ino(&mut fields, from)?;
        return whole(Attributes { ino, ..attributes }, fields.0);
    }
    fields.u8()?;
    let (kind, ino) = match first {
        WHOLE_1 => return whole(schema_1::decode(&mut fields)?, fields.0),
        POINTER_1 => (Kind::from_number(fields.u8()?)?, fields.u64().filter(|&ino| ino != 0)?),
        _ => (Kind::from_number(first.checked_sub(POINTER)?)?, take_ino(&mut fields, from)?),
    };
    fields.0.is_empty().then_some(EntryRow::Pointer(ino, kind))
}

fn whole(attributes: Attributes, target: &[u8]) -> Option<EntryRow> {
    let is_sound = attributes.kind != Kind::Directory && (attributes.kind == Kind::Symlink || target.is_empty());
    is_sound.then(|| EntryRow::Whole(attributes, target.into()))
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
        let ino = self.attributes.ino;
        // The size of a directory is the number of its entries.
        Attributes { size: self.entries, ..self.attributes }.encode(&mut row);
        put_ino(&mut row, self.parent, ino);
        seal(&[&ino.to_be_bytes(), Self::NAME], row)
    }

    /// # Errors
    /// `EIO` that names the directory.
    pub(crate) fn decode(directory: Ino, row: &[u8]) -> Result<Self> {
        let ino = directory.to_be_bytes();
        let key: [&[u8]; 2] = [&ino, Self::NAME];
        let mut fields = Fields(open(&key, row)?);
        let mut read = || {
            let is_schema_2 = fields.0.first()? & SCHEMA_2 != 0;
            let (attributes, parent, entries) = if is_schema_2 {
                let attributes = Attributes::decode(&mut fields, directory)?;
                (attributes, take_ino(&mut fields, directory)?, attributes.size)
            } else {
                (schema_1::decode(&mut fields)?, fields.u64()?, fields.u64()?)
            };
            // The entries are the size, in schema 2.
            let is_counted = entries <= i64::MAX as u64;
            let is_sound = attributes.is_directory() && attributes.ino == directory && parent != 0 && is_counted;
            (is_sound && fields.0.is_empty()).then_some(DirectoryRow { attributes, parent, entries })
        };
        read().ok_or_else(|| damaged(&key, "it is no directory"))
    }
}
