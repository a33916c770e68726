//! Every row of a volume, a line each.

use crate::error::Result;
use crate::object::ObjectStore;
use crate::row::{
    Attributes, DirectoryRow, EntryRow, IS_OBJECT, data_offset, decode_number, inode_key, inode_of, xattr_name,
};
use crate::store::{MetaStore, RowReader, Space};
use crate::volume::Volume;
use std::path::Path;

const END: [u8; 17] = [0xff; 17];

impl Volume {
    /// Calls `line` with every row, as text, of a volume that is not open. The directories with their entries come
    /// first, in the order of their numbers, then the other keyspaces in the order of their keys. Ends early when
    /// `line` returns `false`. A damaged row is a line, too. The size of an object is that of its file, which no row
    /// repeats.
    ///
    /// # Errors
    /// As for [`Volume::check_at`].
    pub fn dump_at(path: impl AsRef<Path>, line: &mut dyn FnMut(String) -> bool) -> Result<()> {
        let (store, objects) = Self::stores_at(path.as_ref(), |builder| builder)?;
        let dumped = dump(&store, &objects, line);
        store.close()?;
        dumped.map(drop)
    }
}

/// Calls `line` with every row. Returns `false` if `line` ended it early.
fn dump(rows: &dyn RowReader, objects: &dyn ObjectStore, line: &mut dyn FnMut(String) -> bool) -> Result<bool> {
    for directory in rows.directories() {
        let directory = directory?;
        for listed in rows.list(directory, 0, usize::MAX) {
            let listed = listed?;
            let shown = match &*listed.name {
                DirectoryRow::NAME => DirectoryRow::decode(directory, &listed.row).map(|row| {
                    let (parent, entries) = (row.parent, row.entries);
                    format!("{} parent={parent} entries={entries}", attributes(&row.attributes, objects))
                }),
                name => EntryRow::decode(directory, name, &listed.row).map(|row| match row {
                    EntryRow::Whole(of, target) if target.is_empty() => attributes(&of, objects),
                    EntryRow::Whole(of, target) => format!("{} -> {}", attributes(&of, objects), target.escape_ascii()),
                    EntryRow::Pointer(ino, kind) => format!("pointer ino={ino} kind={kind:?}"),
                }),
            };
            let shown = shown.unwrap_or_else(|error| error.to_string());
            if !line(format!("names {directory}/{} {shown}", listed.name.escape_ascii())) {
                return Ok(false);
            }
        }
    }
    for space in Space::ALL {
        for row in rows.rows(space, &[], &END) {
            let (key, row) = row?;
            if !line(format!("{} {}", space.name(), shown((space, &key, &row), objects))) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn shown((space, key, row): (Space, &[u8], &[u8]), objects: &dyn ObjectStore) -> String {
    let ino = inode_of(key).unwrap_or(0);
    match space {
        Space::Inodes => match EntryRow::decode_inode(ino, row) {
            Ok((of, _)) => attributes(&of, objects),
            Err(error) => error.to_string(),
        },
        Space::Data => format!("ino={ino} offset={} bytes={}", data_offset(key).unwrap_or(0), row.len()),
        Space::Xattrs => {
            format!("ino={ino} {} bytes={}", xattr_name(key).unwrap_or_default().escape_ascii(), row.len())
        }
        Space::Objects => match decode_number(&inode_key(ino), row) {
            Ok(epoch) => format!("ino={ino} epoch={epoch}"),
            Err(error) => error.to_string(),
        },
        Space::Reclaim => format!("ino={ino} {}", row.escape_ascii()),
        Space::Volume => format!("{} {}", key.escape_ascii(), row.escape_ascii()),
    }
}

fn attributes(of: &Attributes, objects: &dyn ObjectStore) -> String {
    let Attributes { ino, kind, mode, nlink, uid, gid, mut size, mut bytes, flags, .. } = *of;
    if of.has(IS_OBJECT) {
        let object = objects.attributes(ino).ok().flatten().unwrap_or_default();
        (size, bytes) = (object.size, object.bytes);
    }
    let owner = format!("mode={mode:o} nlink={nlink} uid={uid} gid={gid}");
    format!("ino={ino} kind={kind:?} {owner} size={size} bytes={bytes} flags={flags}")
}
