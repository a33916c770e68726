//! [`FastTableWriter`]: makes the bytes of one fast table.

use super::cuts::{self, Links};
use super::distinct::Distinct;
use super::group::Fence;
use super::header::{HEADER_BYTES, Header, PLACE_BYTES, TABLE_BYTES_MAX};
use super::identity::Identity;
use super::layout::FastTableOptions;
use super::meta::FastTableMeta;
use super::output::TableOutput;
use super::packed::pack;
use super::prefixes::put_prefix;
use super::spaces::put_space;
use super::staged::{NewEntry, Staged};
use crate::format::codec::Encode;
use crate::format::key::{self, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::format::{EntryKind, SeqNo, TableId};
use crate::storage::BufferPool;
use crate::table::{Filter, key_hash};
use std::sync::Arc;

/// A group begins at a multiple of this many bytes.
const GROUP_ALIGNMENT: usize = 8;
const LINE_BYTES: usize = 64;
/// The size of the buffers of a writer that is given no pool.
const BUFFER_BYTES: usize = 64 << 10;
/// The most bytes of a group besides its staged keys and values: six numbers of at most 10 bytes (the length of its
/// keys, the three of its first entry, and two if it is compressed), a trailer, and zeros up to the next group.
const GROUP_OVERHEAD_MAX: usize = 6 * 10 + 8 + (GROUP_ALIGNMENT - 1);

/// Writes one fast table. Besides the output, it holds all of the table in memory; [`FastTableWriter::finish`] frees
/// that memory as it goes.
pub(crate) struct FastTableWriter {
    options: FastTableOptions,
    staged: Staged,
    /// Hashes of the distinct user keys, for the filter.
    hashes: Vec<u64>,
    distinct: Distinct,
    /// The key of the last entry.
    key_max: Vec<u8>,
    last_seq: SeqNo,
    /// The counts so far. Fields that are known only at the end are 0.
    header: Header,
}

/// A space of the table that is being finished.
struct Space {
    groups: std::ops::Range<usize>,
    common_bytes: usize,
}

impl FastTableWriter {
    /// Returns a writer of the table `id`. `generation`: 64 random bits, drawn for this table.
    pub(crate) fn new(id: TableId, generation: u64, options: FastTableOptions) -> Self {
        Self::with_buffers(id, generation, options, &BufferPool::new(BUFFER_BYTES))
    }

    /// As [`FastTableWriter::new`], with memory from a pool that others use, too.
    pub(crate) fn with_buffers(
        id: TableId,
        generation: u64,
        options: FastTableOptions,
        buffers: &Arc<BufferPool>,
    ) -> Self {
        let group_entries = options.entries_a_group();
        assert!(options.layout.allows_group(group_entries), "groups of {group_entries} entries");
        let header = Header::new(options.layout, group_entries as u8, Identity { table: id, generation });
        FastTableWriter {
            options,
            staged: Staged::new(buffers),
            hashes: Vec::new(),
            distinct: Distinct::new(),
            key_max: Vec::new(),
            last_seq: SeqNo::MAX,
            header,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.header.entries == 0
    }

    /// Appends an entry. Entries come in internal-key order, each once. `shared`: the bytes that its key shares with
    /// the beginning of the previous key; 0 for the first entry.
    pub(crate) fn add(&mut self, key: &[u8], shared: usize, seq: SeqNo, kind: EntryKind, value: &[u8]) {
        assert!(key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX && seq <= SeqNo::MAX);
        assert!(kind == EntryKind::Put || value.is_empty(), "a tombstone has no value");
        let is_first = self.is_empty();
        let is_new_key = is_first || shared < key.len() || shared < self.key_max.len();
        if !is_first {
            debug_assert_eq!(shared, key::shared_bytes(&self.key_max, key), "shared bytes were counted wrong");
            // The byte after the shared ones decides.
            let in_order = match (self.key_max.get(shared), key.get(shared)) {
                (Some(last), Some(new)) => last < new,
                (None, Some(_)) => true,
                (None, None) => seq < self.last_seq,
                (Some(_), None) => false,
            };
            assert!(in_order, "entries are not in order");
        }
        if is_new_key {
            let hash = key_hash(key);
            self.distinct.insert(hash);
            if self.options.filter_bits_per_key > 0 {
                self.hashes.push(hash);
            }
            self.key_max.truncate(shared);
            self.key_max.extend_from_slice(key.get(shared..).unwrap_or_default());
        }
        self.last_seq = seq;
        self.header.count(key.len(), is_new_key, seq, kind, value.len());
        let entry = NewEntry { key, shared, continues: !is_new_key, trailer: key::pack_trailer(seq, kind), value };
        let group_entries = usize::from(self.header.group_entries);
        self.staged.add(&entry, group_entries, self.options.layout.shares_keys());
    }

    /// Returns about how many bytes the table has so far, at most a few percent fewer than it will have.
    pub(crate) fn bytes(&self) -> u64 {
        let a_group = 8 + PLACE_BYTES + GROUP_ALIGNMENT;
        let filter = self.hashes.len() * self.options.filter_bits_per_key as usize / 8;
        let head = HEADER_BYTES + self.distinct.registers().len();
        (head + self.staged.bytes() + self.staged.groups.len() * a_group + filter) as u64
    }

    /// Writes the table, and returns it with its description. Requires an entry. `output` is called once, with a number
    /// of bytes that the table does not exceed. It returns an empty output with room for that many bytes.
    pub(crate) fn finish<O: TableOutput>(mut self, output: impl FnOnce(usize) -> O) -> (O, FastTableMeta) {
        assert!(!self.is_empty(), "a table has at least one entry");
        let links: Vec<Links> = self.staged.groups.iter().map(|group| group.links).collect();
        let shares_keys = self.options.layout.shares_keys();
        let spaces = if shares_keys { cuts::spaces(&links, self.mean_key_bytes()) } else { vec![0..links.len(); 1] };
        let spaces: Vec<Space> = spaces.into_iter().map(|groups| self.space(groups, &links)).collect();
        let of = |space: &Space| (links.get(space.groups.clone()).unwrap_or_default(), space.common_bytes);
        let prefix_bytes = if shares_keys { cuts::prefix_bytes(spaces.iter().map(of)) } else { 0 };

        let mut head = vec![0; HEADER_BYTES];
        self.put_head(&mut head, &spaces, prefix_bytes);
        let key_min = Box::from(self.staged.first_key(0));
        let groups_max = self.staged.bytes() + self.staged.groups.len() * GROUP_OVERHEAD_MAX;
        let mut out = output(head.len() + groups_max);
        out.append(&head);
        self.put_entries(&mut out, &mut head, &spaces, prefix_bytes);
        let checked = head.get(HEADER_BYTES..).unwrap_or_default();
        self.header.head_checksum = self.header.identity.checksum(checked, HEADER_BYTES as u64);
        let header = self.header.encode();
        for (to, from) in head.iter_mut().zip(&header) {
            *to = *from;
        }
        out.overwrite(&head);
        let meta = FastTableMeta::new(&self.header, &header, key_min, Box::from(&*self.key_max));
        (out, meta)
    }

    fn mean_key_bytes(&self) -> usize {
        (self.header.key_bytes / self.header.entries.max(1)) as usize
    }

    fn space(&self, groups: std::ops::Range<usize>, links: &[Links]) -> Space {
        let common_bytes = if self.options.layout.shares_keys() {
            let first_key_bytes = self.staged.first_key(groups.start).len();
            cuts::common_bytes(links.get(groups.clone()).unwrap_or_default(), first_key_bytes)
        } else {
            0
        };
        Space { groups, common_bytes }
    }

    /// Appends everything before the entry layer; the directory is zeros.
    fn put_head(&mut self, out: &mut Vec<u8>, spaces: &[Space], prefix_bytes: usize) {
        for space in spaces {
            let first = space.groups.start;
            let seq = self.staged.groups.get(first).map_or(0, |group| group.trailer >> 8);
            put_space(out, first, space.common_bytes, self.staged.first_key(first), SeqNo(seq));
        }
        out.put_bytes(&self.key_max);
        let groups = self.staged.groups.len();
        let counts =
            [groups, spaces.len(), out.len() - HEADER_BYTES].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        [self.header.groups, self.header.spaces, self.header.meta_bytes] = counts;
        self.header.prefix_bytes = prefix_bytes as u8;
        align(out, LINE_BYTES);
        for space in spaces.iter().filter(|_| prefix_bytes > 0) {
            for group in space.groups.clone() {
                put_prefix(out, self.staged.first_key(group), space.common_bytes, prefix_bytes);
            }
        }
        out.resize(out.len() + groups * PLACE_BYTES, 0);
        align(out, LINE_BYTES);
        if self.options.filter_bits_per_key > 0 {
            let start = out.len();
            Filter::build(&self.hashes, self.options.filter_bits_per_key).encode(out);
            // An encoded filter ends with the number of probes. A fast table has this number in its header instead.
            self.header.probes = out.pop().unwrap_or(0);
            self.header.filter_lines = ((out.len() - start) / LINE_BYTES) as u32;
        }
        out.extend_from_slice(self.distinct.registers());
    }

    /// Appends the entry layer to `out`, and writes the directory in `head`. Meanwhile the staged groups are freed.
    fn put_entries(&mut self, out: &mut impl TableOutput, head: &mut [u8], spaces: &[Space], prefix_bytes: usize) {
        let (mut places, mut scratch) = (Vec::with_capacity(self.staged.groups.len() * PLACE_BYTES), Vec::new());
        let (mut group_bytes, mut content, mut prefix) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = head.len();
        for space in spaces {
            let common: Box<[u8]> =
                Box::from(self.staged.first_key(space.groups.start).get(..space.common_bytes).unwrap_or_default());
            for group in space.groups.clone() {
                prefix.clear();
                put_prefix(&mut prefix, self.staged.first_key(group), space.common_bytes, prefix_bytes);
                let fence = Fence { common: &common, prefix: &prefix };
                // A group goes through the processor's cache, so that its checksum reads nothing from memory.
                group_bytes.clear();
                if self.options.layout.is_compressed() {
                    content.clear();
                    self.staged.encode(group, &fence, &mut scratch, &mut content);
                    pack(&mut group_bytes, &content, &mut scratch);
                } else {
                    self.staged.encode(group, &fence, &mut scratch, &mut group_bytes);
                }
                align(&mut group_bytes, GROUP_ALIGNMENT);
                places.put_u32((at / GROUP_ALIGNMENT) as u32);
                places.put_u32(self.header.identity.checksum(&group_bytes, at as u64));
                out.append(&group_bytes);
                at += group_bytes.len();
                self.staged.forget_before(group);
            }
        }
        self.header.bytes = at as u64;
        assert!(self.header.bytes <= TABLE_BYTES_MAX, "a fast table of {} bytes", self.header.bytes);
        let Some(sections) = self.header.sections() else { unreachable!("the sections of a table fit into it") };
        assert_eq!(sections.entries.start, head.len(), "all before the entry layer is the head");
        for (to, from) in head.iter_mut().skip(sections.directory.start).zip(&places) {
            *to = *from;
        }
    }
}

fn align(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}
