//! The entries of a directory, in parts: each a range of hashes, so that a listing of any length takes little memory.

use super::index::DirectoryIndex;
use crate::error::Result;
use crate::format::{Cursor, EntryKey, EntryKind, NameHash, SeqNo, Slice, name_hash};
use crate::memtable::Memtable;
use crate::planted::{Bug, planted};
use crate::table::{PackSpan, PackValue, Table};
use std::cmp::Reverse;
use std::sync::Arc;

/// A part has about this number of entries of each memtable, unless its reader wants fewer.
pub(crate) const ENTRIES_OF_A_PART: usize = 2048;
/// A block has about this number of entries. A simulation has small directories, and so small parts.
const ENTRIES_OF_A_BLOCK: usize = if cfg!(feature = "simulation") { 512 } else { 32 };

/// An entry that a listing has found.
#[derive(Clone)]
pub(crate) struct ListedEntry {
    pub(crate) hash: NameHash,
    pub(crate) name: Slice,
    seq: SeqNo,
    kind: EntryKind,
    value: PackValue,
    /// The pack, if the value is in an extent of it. Otherwise the entry holds no pack, and so no file.
    pack: Option<Arc<Table>>,
}

impl ListedEntry {
    /// The value of the entry. Reads it if it is long.
    pub(crate) fn value(&self) -> Result<Slice> {
        match (&self.pack, &self.value) {
            (_, PackValue::Here(value)) => Ok(value.clone()),
            (Some(pack), value) => pack.pack_value(value.clone()),
            (None, PackValue::Extent(..)) => unreachable!("an entry with an extent has its pack"),
        }
    }
}

/// Entries of a directory in the order of their hashes.
pub(crate) struct Part {
    pub(crate) entries: Vec<ListedEntry>,
    /// The first hash after the part; `None`: this part is the last one.
    pub(crate) next: Option<NameHash>,
}

impl DirectoryIndex {
    /// About `wanted` entries of a directory from the hash `from` on, as of the pinned number `visible`. `memtables`
    /// were loaded before the call.
    pub(crate) fn part<'a>(
        &self,
        memtables: impl Iterator<Item = &'a Arc<Memtable>>,
        directory: u64,
        (from, wanted): (NameHash, usize),
        visible: SeqNo,
    ) -> Result<Part> {
        let mut found = Vec::new();
        let mut next: Option<NameHash> = None;
        let mut end_at = |hash: NameHash| next = Some(next.map_or(hash, |next| next.min(hash)));
        for memtable in memtables {
            if let Some(hash) = in_memtable(memtable, directory, (from, wanted), visible, &mut found)? {
                end_at(hash);
            }
        }
        let spans = self.spans_of(directory)?;
        if let Some(end) = end_of_blocks(&spans, from, wanted.div_ceil(ENTRIES_OF_A_BLOCK).max(1))? {
            end_at(end);
        }
        let read_to = next.map(|next| if planted(Bug::PartEndsTooLate) { NameHash(next.0 / 2) } else { next });
        for (pack, span) in &spans {
            pack.visit_entries(*span, directory, (from, read_to), &mut |name, version| {
                let hash = self.hash_key.hash(&name);
                if hash >= from && version.seq <= visible {
                    let (seq, kind, value) = (version.seq, version.kind, version.value);
                    let pack = matches!(value, PackValue::Extent(..)).then(|| Arc::clone(pack));
                    found.push(ListedEntry { hash, name, seq, kind, value, pack });
                }
            })?;
        }
        found.retain(|entry| next.is_none_or(|next| entry.hash < next));
        found.sort_by(|a, b| {
            let key = |entry: &ListedEntry| (entry.hash, Reverse(entry.seq));
            a.hash.cmp(&b.hash).then_with(|| a.name.cmp(&b.name)).then_with(|| key(a).cmp(&key(b)))
        });
        found.dedup_by(|later, newest| {
            later.hash == newest.hash && (later.name == newest.name || planted(Bug::NameHashTrusted))
        });
        found.retain(|entry| entry.kind == EntryKind::Put);
        Ok(Part { entries: found, next })
    }
}

/// The hash at which a part ends, so that about `blocks` blocks are read for it, of all spans together; `None`: fewer
/// are left. Packs may have the same range of hashes, or ranges one after the other.
fn end_of_blocks(spans: &[(Arc<Table>, PackSpan)], from: NameHash, blocks: usize) -> Result<Option<NameHash>> {
    let mut fences = Vec::new();
    for (pack, span) in spans {
        fences.extend(pack.fences_above(*span, from, blocks)?);
    }
    fences.sort_unstable();
    Ok(fences.get(blocks - 1).map(|fence| NameHash(u64::from(*fence) << 32)))
}

/// Adds about `wanted` entries of a directory that a memtable has from `from` on, each in its newest visible version.
/// Returns the hash where it stopped.
fn in_memtable(
    memtable: &Arc<Memtable>,
    directory: u64,
    (from, wanted): (NameHash, usize),
    visible: SeqNo,
    found: &mut Vec<ListedEntry>,
) -> Result<Option<NameHash>> {
    let mut cursor = memtable.cursor();
    cursor.seek(&name_hash::prefix(directory, from), SeqNo::MAX)?;
    let (mut count, mut last, mut before) = (0, from, Vec::new());
    while cursor.valid() {
        let Some(key) = EntryKey::decode(cursor.key()) else { unreachable!("a directory keyspace has entry keys") };
        if key.directory != directory {
            break;
        }
        if count >= wanted && key.hash > last {
            return Ok(Some(key.hash));
        }
        last = key.hash;
        key.write(&mut before);
        if cursor.seq() > visible {
            cursor.seek(&before, visible)?;
            continue;
        }
        count += 1;
        found.push(ListedEntry {
            hash: key.hash,
            name: Slice::from_long(key.name),
            seq: cursor.seq(),
            kind: cursor.kind(),
            value: PackValue::Here(cursor.value()),
            pack: None,
        });
        cursor.next()?;
        // An entry may have many versions, as the row of a directory in which files are created.
        if cursor.valid() && cursor.key() == before {
            cursor.seek(&before, SeqNo(0))?;
            while cursor.valid() && cursor.key() == before {
                cursor.next()?;
            }
        }
    }
    Ok(None)
}
