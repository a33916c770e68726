//! [`Current`]: the content of CURRENT, the file that names the manifest in force (`docs/format/manifest.md`, CURRENT).
//!
//! CURRENT is replaced by a rename, in three steps: [`Current::write_new`], [`Current::put_in_force`], and a sync of
//! the root directory. Each step must succeed before the next one begins. They are separate functions so that a
//! coroutine can yield between them.

use crate::error::{Error, Result};
use crate::format::checksum;
use crate::format::codec::{Decoder, Encode};
use crate::storage::Storage;
use std::path::Path;

/// The content of CURRENT: which manifest is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) struct Current {
    pub(in crate::lineage) number: u64,
    pub(in crate::lineage) generation: u64,
    /// The length of the manifest when it became current. All of these bytes were durable.
    pub(in crate::lineage) bytes: u64,
}

/// The name of the file.
pub(in crate::lineage) const NAME: &str = "CURRENT";
/// The name of a successor that is not in force yet.
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
        let crc = checksum::crc32c(&out);
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
        let expected = checksum::crc32c(content);
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

    /// Writes the successor of CURRENT and makes its bytes durable.
    pub(in crate::lineage) fn write_new(&self, storage: &dyn Storage, root: &Path) -> Result<()> {
        let path = root.join(NEW_NAME);
        if storage.file_bytes(&path)?.is_some() {
            storage.remove(&path)?;
        }
        let file = storage.create(&path)?;
        file.write_all_at(0, &self.encode())?;
        file.sync()
    }

    /// Renames the successor to CURRENT. A sync of the root directory makes that durable.
    pub(in crate::lineage) fn put_in_force(storage: &dyn Storage, root: &Path) -> Result<()> {
        storage.rename(&root.join(NEW_NAME), &root.join(NAME))
    }
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
}
