//! [`ManifestHeader`]: the first bytes of a manifest (`docs/format/manifest.md`, Manifest header).

use crate::error::{Error, Result};
use crate::format::checksum;
use crate::format::codec::{Decoder, Encode};
use std::path::Path;

/// The bytes of the header of a manifest.
pub(in crate::lineage) const HEADER_BYTES: u64 = 32;

const MAGIC: &[u8; 8] = b"THALWGMF";
/// The newest version of the manifest that is read, and the one that is written.
///
/// Version 2 has the records of version 1. It may name packs of format 2, which an older program cannot read.
pub(in crate::lineage) const VERSION: u32 = 2;

/// The identity of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lineage) struct ManifestHeader {
    pub(in crate::lineage) number: u64,
    pub(in crate::lineage) generation: u64,
}

impl ManifestHeader {
    /// Returns the bytes of the header.
    pub(in crate::lineage) fn encode(self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u32(VERSION);
        out.put_u64(self.number);
        out.put_u64(self.generation);
        let crc = checksum::crc32c(&out);
        out.put_u32(crc);
        out
    }

    /// Decodes the header at the start of `bytes`, the content of the manifest at `path`.
    pub(in crate::lineage) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |expected: String, found: String| Err(Error::corruption(path, 0, expected, found));
        let fields = || {
            let mut decoder = Decoder::new(bytes);
            let content = Decoder::new(bytes).take(HEADER_BYTES as usize - 4)?;
            let magic = decoder.take(MAGIC.len())?;
            let version = decoder.u32()?;
            let header = ManifestHeader { number: decoder.u64()?, generation: decoder.u64()? };
            Some((magic, version, header, decoder.u32()? == checksum::crc32c(content)))
        };
        let Some((magic, version, header, intact)) = fields() else {
            return damaged("a manifest header of 32 bytes".into(), format!("{} bytes", bytes.len()));
        };
        if magic != MAGIC {
            return damaged("magic THALWGMF".into(), format!("\"{}\"", magic.escape_ascii()));
        }
        if !intact {
            return damaged("a manifest header that has its checksum".into(), "another checksum".into());
        }
        if version > VERSION {
            return Err(Error::newer_version(path, version, VERSION));
        }
        if version == 0 {
            return damaged(format!("manifest format 1 to {VERSION}"), format!("format {version}"));
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_refused_when_any_byte_is_flipped() {
        let header = ManifestHeader { number: 7, generation: 9 };
        assert_eq!(ManifestHeader::decode(Path::new("m"), &header.encode()).unwrap(), header);
        for at in 0..HEADER_BYTES as usize {
            let mut bytes = header.encode();
            bytes[at] ^= 1;
            assert!(ManifestHeader::decode(Path::new("m"), &bytes).is_err(), "{at}");
        }
    }
}
