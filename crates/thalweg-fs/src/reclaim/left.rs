//! [`Reclaimable`]: what is left to remove of files without a name.

use crate::error::Result;
use crate::row::{Debt, Ino, inode_key, inode_of};
use crate::store::Space;
use crate::volume::Volume;

/// The bytes and files that are left to remove of files without a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimable {
    /// Files without a name that are open, or were when an earlier mount was killed.
    pub orphans: u64,
    /// Objects of files that are gone, whose files the background removes.
    pub objects: u64,
    /// The bytes that are allocated for these objects.
    pub object_bytes: u64,
}

impl Volume {
    /// The bytes and files that [`Volume::work`] has left to remove. Looks at each of the files: about a microsecond
    /// for one.
    ///
    /// # Errors
    /// `EIO`.
    pub fn reclaimable(&self) -> Result<Reclaimable> {
        let mut left = Reclaimable::default();
        for row in self.store.rows(Space::Reclaim, &inode_key(0), &inode_key(Ino::MAX)) {
            let (key, row) = row?;
            let ino = inode_of(&key).unwrap_or(0);
            match Debt::decode(&inode_key(ino), &row)? {
                Debt::Orphan => left.orphans += 1,
                Debt::Object => {
                    left.objects += 1;
                    left.object_bytes += self.objects.attributes(ino)?.map_or(0, |object| object.bytes);
                }
            }
        }
        Ok(left)
    }
}
