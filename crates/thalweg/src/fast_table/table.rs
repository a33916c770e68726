//! [`FastTable`]: an open fast table.
//!
//! The header and all that lies before the entry layer are verified when the table is opened. A group in place is
//! verified when it is first touched, and a bit records the success: in memory, a byte that was right once stays right.
//! A group of a paged table is verified at each read, in the copy that is read. Locks: none.

use super::buffer::GroupBuffer;
use super::distinct::Distinct;
use super::extent::Extent;
use super::group::{Fence, Items};
use super::header::{HEADER_BYTES, Header, Known, PLACE_BYTES, Sections};
use super::identity::Identity;
use super::meta::FastTableMeta;
use super::packed::unpack;
use super::spaces::Spaces;
use crate::error::{Error, Result};
use crate::format::TableId;
use crate::planted::{Bug, planted};
use crate::table::{FilterLines, TableMeta};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
pub(crate) struct FastTable {
    extent: Extent,
    meta: FastTableMeta,
    pub(super) header: Header,
    sections: Sections,
    pub(super) spaces: Spaces,
    /// A bit for each group, set once its checksum was found right. Empty for a paged table.
    verified: Box<[AtomicU64]>,
    verify: bool,
}

impl FastTable {
    /// Opens the table in `extent`, which its owner knows by `id` and `generation`.
    pub(crate) fn open(extent: Extent, id: TableId, generation: u64) -> Result<Arc<FastTable>> {
        Self::open_with(extent, Known::Identity(Identity { table: id, generation }), true)
    }

    /// Opens the table in `extent`, whose owner has the description that [`super::FastTableWriter::finish`] returned.
    /// The generation is taken from the header.
    pub(crate) fn open_known(extent: Extent, meta: &TableMeta) -> Result<Arc<FastTable>> {
        Self::open_with(extent, Known::Meta(meta), true)
    }

    /// As [`FastTable::open`] or [`FastTable::open_known`]. `verify` is off in fuzzing only.
    pub(super) fn open_with(mut extent: Extent, known: Known<'_>, verify: bool) -> Result<Arc<FastTable>> {
        extent.load_head(HEADER_BYTES)?;
        let header = Header::decode(&extent, known, verify)?;
        let Some(sections) = header.sections() else {
            return Err(extent.damaged(12, "sections within the table", "sections beyond its end"));
        };
        // The table is longer than its head, and the extent is at least as long as the table.
        extent.load_head(sections.entries.start)?;
        let bytes = extent.head();
        let header_bytes = bytes.get(..HEADER_BYTES).unwrap_or_default();
        let head = bytes.get(HEADER_BYTES..sections.entries.start).unwrap_or_default();
        let found = header.identity.checksum(head, HEADER_BYTES as u64);
        if found != header.head_checksum && verify && !planted(Bug::ChecksumNotVerified) {
            let expected = format!("checksum {:#010x} of the layers before the entries", header.head_checksum);
            return Err(extent.damaged(HEADER_BYTES as u64, expected, format!("{found:#010x}")));
        }
        let layer = bytes.get(sections.meta.clone()).unwrap_or_default();
        let Some(spaces) = Spaces::decode(layer, &header) else {
            return Err(extent.damaged(HEADER_BYTES as u64, "a meta layer", "malformed bytes"));
        };
        let (key_min, key_max) = (Box::from(spaces.key_min(layer)), Box::from(spaces.key_max(layer)));
        let meta = FastTableMeta::new(&header, header_bytes, key_min, key_max);
        let remembered = if extent.is_paged() { 0 } else { header.groups as usize };
        let verified = (0..remembered.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(FastTable { extent, meta, header, sections, spaces, verified, verify }))
    }

    /// The description of the table.
    pub(crate) fn meta(&self) -> &TableMeta {
        &self.meta.table
    }

    #[cfg(test)]
    pub(crate) fn generation(&self) -> u64 {
        self.meta.generation
    }

    /// The length of the table.
    pub(crate) fn bytes(&self) -> u64 {
        self.header.bytes
    }

    /// The estimate of its distinct user keys.
    pub(crate) fn distinct(&self) -> Distinct {
        Distinct::from_registers(self.section(&self.sections.distinct))
    }

    /// Verifies every group, whether it was verified before or not.
    pub(crate) fn verify_all(&self) -> Result<()> {
        let mut copied = Vec::new();
        (0..self.groups()).try_for_each(|group| self.verify_group(group, &mut copied).map(drop))
    }

    #[inline]
    pub(super) fn groups(&self) -> usize {
        self.header.groups as usize
    }

    /// The entries of a group.
    #[inline]
    pub(super) fn entries_of(&self, group: usize) -> usize {
        let a_group = u64::from(self.header.group_entries);
        self.header.entries.saturating_sub(group as u64 * a_group).min(a_group) as usize
    }

    #[inline]
    pub(super) fn filter(&self) -> Option<FilterLines<'_>> {
        let probes = self.header.probes;
        (probes > 0).then(|| FilterLines::new(self.section(&self.sections.filter), probes))
    }

    #[inline]
    pub(super) fn meta_layer(&self) -> &[u8] {
        self.section(&self.sections.meta)
    }

    /// The prefixes of some groups.
    #[inline]
    pub(super) fn prefixes(&self, groups: Range<usize>) -> &[u8] {
        let bytes = usize::from(self.header.prefix_bytes);
        let layer = self.section(&self.sections.prefixes);
        layer.get(groups.start * bytes..groups.end * bytes).unwrap_or_default()
    }

    /// Returns the fence of a group of `space`.
    #[inline]
    pub(super) fn fence(&self, space: usize, group: usize) -> Fence<'_> {
        let common = self.spaces.get(space).map_or(&[][..], |space| space.common(self.meta_layer()));
        Fence { common, prefix: self.prefixes(group..group + 1) }
    }

    /// Whether groups are read where they lie, without a buffer.
    #[inline]
    pub(super) fn is_read_in_place(&self) -> bool {
        !self.header.layout.is_compressed() && !self.extent.is_paged()
    }

    /// Returns the content of a group: where it lies, or in `buffer`.
    #[inline]
    pub(super) fn content<'a>(&'a self, group: usize, buffer: &'a mut GroupBuffer) -> Result<&'a [u8]> {
        let stored = self.stored(group, &mut buffer.copied)?;
        if !self.header.layout.is_compressed() {
            return Ok(stored);
        }
        unpack(stored, &mut buffer.unpacked).ok_or_else(|| self.group_damaged(group))
    }

    /// Returns the entries of a group in its content.
    #[inline]
    pub(super) fn items<'a>(&self, group: usize, content: &'a [u8]) -> Result<Items<'a>> {
        Items::new(content, self.entries_of(group)).ok_or_else(|| self.group_damaged(group))
    }

    /// Returns the error for a group whose checksum is right but whose entries are not.
    #[cold]
    pub(super) fn group_damaged(&self, group: usize) -> Error {
        let at = self.place(group).map_or(0, |(place, _)| place.start);
        let expected = format!("{} entries in order in group {group}", self.entries_of(group));
        self.extent.damaged(at as u64, expected, "malformed bytes")
    }

    #[inline]
    fn section(&self, section: &Range<usize>) -> &[u8] {
        self.extent.head().get(section.clone()).unwrap_or_default()
    }

    /// Returns where a group lies in the table, and its checksum.
    #[inline]
    pub(super) fn place(&self, group: usize) -> Result<(Range<usize>, u32)> {
        let directory = self.section(&self.sections.directory).as_chunks::<PLACE_BYTES>().0;
        let offset = |[a, b, c, d, ..]: &[u8; PLACE_BYTES]| u32::from_le_bytes([*a, *b, *c, *d]) as usize * 8;
        let entries = &self.sections.entries;
        let Some(own @ [.., a, b, c, d]) = directory.get(group) else {
            return Err(self.extent.damaged(entries.start as u64, format!("a group {group}"), "none"));
        };
        let place = offset(own)..directory.get(group + 1).map_or(entries.end, offset);
        if place.start < entries.start || place.start >= place.end || place.end > entries.end {
            let at = self.sections.directory.start + group * PLACE_BYTES;
            let expected = format!("a place within {}..{}", entries.start, entries.end);
            return Err(self.extent.damaged(at as u64, expected, format!("{place:?}")));
        }
        Ok((place, u32::from_le_bytes([*a, *b, *c, *d])))
    }

    /// Returns the bytes of a group, verified by this call or an earlier one. For a paged table, returns a copy in
    /// `copied`, verified by this call.
    #[inline]
    fn stored<'a>(&'a self, group: usize, copied: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let bit = 1 << (group % 64);
        let word = self.verified.get(group / 64);
        if word.is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0) {
            return Ok(self.section(&self.place(group)?.0));
        }
        let stored = self.verify_group(group, copied)?;
        if let Some(word) = word {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(stored)
    }

    fn verify_group<'a>(&'a self, group: usize, copied: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let (place, checksum) = self.place(group)?;
        let stored = self.extent.read(&place, copied)?;
        let found = self.header.identity.checksum(stored, place.start as u64);
        if found != checksum && self.verify && !planted(Bug::ChecksumNotVerified) {
            let expected = format!("checksum {checksum:#010x} of group {group}");
            return Err(self.extent.damaged(place.start as u64, expected, format!("{found:#010x}")));
        }
        Ok(stored)
    }

    /// The offset of the entry layer.
    pub(super) fn entries_at(&self) -> usize {
        self.sections.entries.start
    }

    /// The bytes at a place of a table in place.
    #[inline]
    pub(super) fn bytes_at(&self, place: Range<usize>) -> &[u8] {
        self.section(&place)
    }
}
