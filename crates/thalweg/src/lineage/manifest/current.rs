//! [`Current`]: the file that names the manifest in force (`docs/format/manifest.md`, CURRENT).
//!
//! Replaced in one step, by rename. The steps are separate, so that a coroutine can give way between them; each must
//! have succeeded before the next: [`Current::write_new`], [`Current::put_in_force`], a sync of the root directory.

use crate::error::{Error, Result};
use crate::format::codec::{Decoder, Encode};
use crate::storage::{OpenMode, Storage};
use std::path::{Path, PathBuf};

/// Names the manifest in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Current {
    pub(in crate::lineage) number: u64,
    pub(in crate::lineage) generation: u64,
    /// Its length when it was made current: all of that was durable.
    pub(in crate::lineage) bytes: u64,
}

/// Name of the file.
pub(in crate::lineage) const NAME: &str = "CURRENT";
/// Name of a successor that is not in force yet.
pub(in crate::lineage) const NEW_NAME: &str = "CURRENT.new";

const MAGIC: &[u8; 8] = b"THALWGCU";
const VERSION: u32 = 1;
const BYTES: usize = 40;

impl Current {
    pub(in crate::lineage) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u32(VERSION);
        out.put_u64(self.number);
        out.put_u64(self.generation);
        out.put_u64(self.bytes);
        let crc = crc32c::crc32c(&out);
        out.put_u32(crc);
        debug_assert_eq!(out.len(), BYTES);
        out
    }

    pub(in crate::lineage) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let corrupt = |expected: &str, found: String| Err(Error::corruption(path, 0, expected, found));
        let Some(content) = bytes.get(..BYTES - 4) else {
            return corrupt("40 bytes", format!("{} bytes", bytes.len()));
        };
        let mut decoder = Decoder::new(bytes);
        let mut fields = || {
            let magic = decoder.take(MAGIC.len())?;
            let version = decoder.u32()?;
            let current = Current { number: decoder.u64()?, generation: decoder.u64()?, bytes: decoder.u64()? };
            Some((magic, version, current, decoder.u32()?))
        };
        let Some((magic, version, current, crc)) = fields() else { return corrupt("40 bytes", "fewer".into()) };
        if magic != MAGIC {
            return corrupt("magic THALWGCU", format!("\"{}\"", magic.escape_ascii()));
        }
        let expected = crc32c::crc32c(content);
        if crc != expected {
            return corrupt(&format!("checksum {expected:#010x}"), format!("{crc:#010x}"));
        }
        if version > VERSION {
            return Err(Error::newer_version(path, version, VERSION));
        }
        if version != VERSION {
            return corrupt(&format!("format {VERSION}"), format!("format {version}"));
        }
        if bytes.len() != BYTES {
            return corrupt("40 bytes", format!("{} bytes", bytes.len()));
        }
        Ok(current)
    }

    /// Writes the successor and makes its bytes durable.
    pub(in crate::lineage) fn write_new(&self, storage: &dyn Storage, root: &Path) -> Result<()> {
        let path = root.join(NEW_NAME);
        if storage.file_bytes(&path)?.is_some() {
            storage.remove(&path)?;
        }
        let file = storage.create(&path)?;
        file.write_all_at(0, &self.encode())?;
        file.sync()
    }

    /// Puts the successor in the place of CURRENT. Durable once the root directory is synced.
    pub(in crate::lineage) fn put_in_force(storage: &dyn Storage, root: &Path) -> Result<()> {
        storage.rename(&root.join(NEW_NAME), &root.join(NAME))
    }
}

/// `manifest-{number:08}` in `root`.
pub(in crate::lineage) fn manifest_path(root: &Path, number: u64) -> PathBuf {
    root.join(format!("manifest-{number:08}"))
}

/// The number in the name of a manifest.
pub(in crate::lineage) fn manifest_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("manifest-")?;
    let number: u64 = digits.parse().ok()?;
    (format!("{number:08}") == digits).then_some(number)
}

/// The id in the name of a table file, as [`crate::table::TableStore::path`] gives it.
pub(in crate::lineage) fn table_id(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".table")?;
    let id: u64 = digits.parse().ok()?;
    (format!("{id:010}") == digits).then_some(id)
}

/// The name of a table file.
pub(in crate::lineage) fn table_name(id: crate::format::TableId) -> String {
    format!("{:010}.table", id.0)
}

/// All bytes of a file: from the medium where `past_cache` and the file system allow it, else through the cache. Says
/// which it was: `true` for the medium.
pub(in crate::lineage) fn read_whole(storage: &dyn Storage, path: &Path, past_cache: bool) -> Result<(Vec<u8>, bool)> {
    let medium = if past_cache { storage.open(path, OpenMode::ReadMedium)? } else { None };
    let from_medium = medium.is_some();
    let file = match medium {
        Some(file) => file,
        None => open(storage, path, OpenMode::Read)?,
    };
    let len = usize::try_from(file.bytes()?)
        .map_err(|_| Error::corruption(path, 0, "a file that fits into memory", "a larger one"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(0, &mut bytes)?;
    Ok((bytes, from_medium))
}

/// Opens a file with a mode that is never refused.
pub(in crate::lineage) fn open(
    storage: &dyn Storage,
    path: &Path,
    mode: OpenMode,
) -> Result<std::sync::Arc<dyn crate::storage::File>> {
    let file = storage.open(path, mode)?;
    file.ok_or_else(|| Error::io("open", path, std::io::ErrorKind::Unsupported.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_survives_its_encoding_and_refuses_every_flipped_byte_and_length() {
        let current = Current { number: 3, generation: u64::MAX, bytes: 123 };
        let (path, bytes) = (Path::new("CURRENT"), current.encode());
        assert_eq!(Current::decode(path, &bytes).unwrap(), current);
        for at in 0..bytes.len() {
            let mut rotten = bytes.clone();
            rotten[at] ^= 0x40;
            assert!(Current::decode(path, &rotten).is_err(), "{at}");
            assert!(Current::decode(path, &bytes[..at]).is_err(), "{at}");
        }
        assert!(Current::decode(path, &[bytes, vec![0]].concat()).is_err());
    }

    #[test]
    fn only_names_we_give_are_ours() {
        assert_eq!(manifest_number("manifest-00000012"), Some(12));
        assert_eq!(manifest_number("manifest-123456789"), Some(123_456_789));
        for name in ["manifest-12", "manifest-000000012", "manifest-+0000012", "manifest-00000012~", "manifests"] {
            assert_eq!(manifest_number(name), None, "{name}");
        }
        assert_eq!(table_id("0000000012.table"), Some(12));
        for name in ["12.table", "0000000012.table.bak", "x.table"] {
            assert_eq!(table_id(name), None, "{name}");
        }
    }
}
