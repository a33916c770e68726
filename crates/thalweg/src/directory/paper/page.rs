//! [`Page`]: a page of an f-hash: up to 4 KiB with buckets of their own (PHAT-3). An f-hash below 4 KiB is one page.
//!
//! A bucket is a *line* of 64 bytes: four entries, each a hash (8 bytes) and a descriptor (48 bits). Three quarters of
//! the lines are the normal area; the hash chooses one of them. The others are the overflow area, whose lines are taken
//! in order. A line that is full is linked to one of these. A link is the number of the line, so the bytes mean the
//! same in memory and in a file.
//!
//! Each descriptor leaves 16 bits to its line (PHAT-A1). Those of the first descriptor have the link (0: none), those
//! of the second the number of entries. In line 0 those of the third have the number of overflow lines that are taken.
//!
//! Only the last line of a chain has room, so an insert writes one line, or two.

use super::descriptor::{BITS, Descriptor};
use crate::format::NameHash;

/// The bytes of a line.
pub(super) const LINE_BYTES: usize = 64;

/// The most bytes of a page.
pub(in crate::directory) const PAGE_BYTES: usize = 4 << 10;

/// The most lines of a page.
pub(super) const LINES_MAX: usize = PAGE_BYTES / LINE_BYTES;

/// The entries of a line.
pub(super) const LINE_ENTRIES: usize = 4;

const ENTRY_BYTES: usize = LINE_BYTES / LINE_ENTRIES;

/// The numbers of the descriptors whose free bits have the fields of a line.
const LINK: usize = 0;
const COUNT: usize = 1;
const TAKEN: usize = 2;

/// An item of an f-hash: one entry's hash and descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::directory) struct Entry {
    pub(in crate::directory) hash: NameHash,
    pub(in crate::directory) descriptor: Descriptor,
}

/// A page of an f-hash; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page(Box<[u8]>);

impl Page {
    /// An empty page of `lines` lines, a power of two.
    pub(super) fn new(lines: usize) -> Page {
        assert!(lines.is_power_of_two() && lines <= LINES_MAX, "a page of {lines} lines");
        Page(vec![0; lines * LINE_BYTES].into_boxed_slice())
    }

    /// The page with these bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Page {
        Page(Box::from(bytes))
    }

    /// The bytes of the page.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number of its lines.
    pub(super) fn lines(&self) -> usize {
        self.0.len() / LINE_BYTES
    }

    /// Adds an entry. Returns whether there was room.
    pub(super) fn insert(&mut self, entry: Entry) -> bool {
        let mut line = self.bucket(entry.hash);
        while self.field(line, LINK) != 0 {
            line = self.field(line, LINK);
        }
        if self.field(line, COUNT) == LINE_ENTRIES {
            let next = self.normal_lines() + self.field(0, TAKEN);
            if next >= self.lines() {
                return false;
            }
            self.set_field(0, TAKEN, self.field(0, TAKEN) + 1);
            self.set_field(line, LINK, next);
            line = next;
        }
        let number = self.field(line, COUNT);
        self.set_entry(line, number, entry);
        self.set_field(line, COUNT, number + 1);
        true
    }

    /// The descriptors of a hash.
    pub(super) fn find(&self, hash: NameHash) -> impl Iterator<Item = Descriptor> {
        let chain = std::iter::successors(Some(self.bucket(hash)), |line| match self.field(*line, LINK) {
            0 => None,
            next => Some(next),
        });
        let entries = chain.flat_map(|line| self.entries_of(line));
        entries.filter(move |entry| entry.hash == hash).map(|entry| entry.descriptor)
    }

    /// All entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.lines()).flat_map(|line| self.entries_of(line))
    }

    fn normal_lines(&self) -> usize {
        self.lines() - self.lines() / 4
    }

    /// The line at which the chain of a hash begins. The highest bits of the hash have chosen the page.
    fn bucket(&self, hash: NameHash) -> usize {
        (((hash.0 & u64::from(u32::MAX)) * self.normal_lines() as u64) >> 32) as usize
    }

    fn entries_of(&self, line: usize) -> impl Iterator<Item = Entry> {
        (0..self.field(line, COUNT)).map(move |number| {
            let at = line * LINE_BYTES + number * ENTRY_BYTES;
            Entry { hash: NameHash(self.word(at)), descriptor: Descriptor::from_bits(self.word(at + 8)) }
        })
    }

    fn set_entry(&mut self, line: usize, number: usize, entry: Entry) {
        let at = line * LINE_BYTES + number * ENTRY_BYTES;
        let of_line = self.word(at + 8) >> BITS << BITS;
        self.set_word(at, entry.hash.0);
        self.set_word(at + 8, of_line | entry.descriptor.bits());
    }

    /// A field of a line, which is in descriptor `number`.
    fn field(&self, line: usize, number: usize) -> usize {
        (self.word(line * LINE_BYTES + number * ENTRY_BYTES + 8) >> BITS) as usize
    }

    fn set_field(&mut self, line: usize, number: usize, value: usize) {
        let at = line * LINE_BYTES + number * ENTRY_BYTES + 8;
        self.set_word(at, (value as u64) << BITS | Descriptor::from_bits(self.word(at)).bits());
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn set_word(&mut self, at: usize, word: u64) {
        self.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}
