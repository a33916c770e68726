//! [`Filter`]: a Bloom filter over a table's user keys, in lines of 64 bytes: a query reads one cache line.
//!
//! With 10 bits a key about 1 % of absent keys pass (see the test). A key of the table always passes.

use super::damage::Damage;
use crate::format::prefetch;
use std::hint::black_box;
use xxhash_rust::xxh3::xxh3_64;

const LINE_BYTES: usize = 64;
const LINE_BITS: u64 = 8 * LINE_BYTES as u64;
const PROBES_MAX: u32 = 12;

/// Keys are inserted in batches of this many, whose lines are loaded at once.
const BATCH: usize = 16;

/// A line of the filter, aligned to be a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u8; LINE_BYTES]);

/// Returns the hash of a user key that filters are built from.
pub(crate) fn hash(user_key: &[u8]) -> u64 {
    xxh3_64(user_key)
}

/// A filter in memory. Invariant: 1 to `u32::MAX` lines.
#[derive(Debug)]
pub(crate) struct Filter {
    lines: Vec<Line>,
    probes: u32,
}

impl Filter {
    /// Builds a filter over the keys with these hashes. Requires `bits_per_key > 0`.
    pub(crate) fn build(hashes: &[u64], bits_per_key: u32) -> Filter {
        assert!(bits_per_key > 0);
        let lines = (hashes.len() as u64).saturating_mul(u64::from(bits_per_key)).div_ceil(LINE_BITS);
        let lines = lines.clamp(1, u64::from(u32::MAX)) as usize;
        // A filter in lines passes the fewest absent keys with a few probes less than the ln 2 × bits of a plain Bloom
        // filter.
        let probes = (bits_per_key.saturating_mul(6).saturating_add(5) / 10).clamp(1, PROBES_MAX);
        let mut filter = Filter { lines: vec![Line([0; LINE_BYTES]); lines], probes };
        for batch in hashes.chunks(BATCH) {
            // Each line is loaded once before the insertions. The loads are independent, so the processor waits for all
            // of them at once.
            let touched = batch.iter().filter_map(|hash| filter.lines.get(filter.line_of(*hash))?.0.first());
            black_box(touched.fold(0, |all, byte| all | byte));
            for &hash in batch {
                filter.insert(hash);
            }
        }
        filter
    }

    /// The bytes of memory that it takes.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    fn insert(&mut self, hash: u64) {
        let (at, probes) = (self.line_of(hash), self.probes);
        let Some(Line(line)) = self.lines.get_mut(at) else { return };
        for (byte, bit) in bits(hash, probes) {
            if let Some(byte) = line.get_mut(byte) {
                *byte |= bit;
            }
        }
    }

    /// Appends the filter as it is stored.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.lines.len() * LINE_BYTES + 1);
        for Line(line) in &self.lines {
            out.extend_from_slice(line);
        }
        out.push(self.probes as u8);
    }

    pub(in crate::table) fn decode(content: &[u8]) -> Result<Filter, Damage> {
        let (lines, rest) = content.as_chunks::<LINE_BYTES>();
        match rest {
            [probes]
                if (1..=PROBES_MAX).contains(&u32::from(*probes))
                    && u32::try_from(lines.len()).is_ok_and(|n| n > 0) =>
            {
                Ok(Filter { lines: lines.iter().map(|line| Line(*line)).collect(), probes: u32::from(*probes) })
            }
            _ => Err(Damage::new(0, "lines of 64 bytes and a number of probes", format!("{} bytes", content.len()))),
        }
    }

    /// Whether the table may have a key with this hash.
    pub(in crate::table) fn may_contain(&self, hash: u64) -> bool {
        self.lines.get(self.line_of(hash)).is_none_or(|Line(line)| passes(line, hash, self.probes))
    }

    fn line_of(&self, hash: u64) -> usize {
        line_of(hash, self.lines.len())
    }
}

/// A filter as it is stored, queried where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterLines<'a> {
    lines: &'a [[u8; LINE_BYTES]],
    probes: u32,
}

impl<'a> FilterLines<'a> {
    /// Returns the filter with these lines and this number of probes. Ignores an incomplete line at the end.
    pub(crate) fn new(lines: &'a [u8], probes: u8) -> Self {
        FilterLines { lines: lines.as_chunks().0, probes: u32::from(probes).min(PROBES_MAX) }
    }

    /// Prefetches the line that [`FilterLines::may_contain`] looks at.
    #[inline]
    pub(crate) fn approach(&self, hash: u64) {
        if let Some(line) = self.lines.get(line_of(hash, self.lines.len())) {
            prefetch(line);
        }
    }

    /// Whether the table may have a key with this hash.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.lines.get(line_of(hash, self.lines.len())).is_none_or(|line| passes(line, hash, self.probes))
    }
}

/// Returns the only line of `lines` that a key sets bits in.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// Whether all bits of a key are set in its line.
#[inline]
fn passes(line: &[u8; LINE_BYTES], hash: u64, probes: u32) -> bool {
    bits(hash, probes).all(|(byte, bit)| line.get(byte).is_some_and(|byte| byte & bit != 0))
}

/// Returns the bits of a line that a key sets, as byte and mask.
fn bits(hash: u64, probes: u32) -> impl Iterator<Item = (usize, u8)> {
    let mut probe = hash as u32;
    (0..probes).map(move |_| {
        let bit = probe >> 23;
        probe = probe.wrapping_mul(0x9e37_79b9);
        ((bit / 8) as usize, 1 << (bit % 8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(keys: std::ops::Range<u64>) -> Vec<u64> {
        keys.map(|key| hash(&key.to_be_bytes())).collect()
    }

    fn false_positives_percent(keys: u64, bits_per_key: u32) -> f64 {
        let mut stored = Vec::new();
        Filter::build(&hashes(0..keys), bits_per_key).encode(&mut stored);
        let filter = Filter::decode(&stored).unwrap();
        assert!(hashes(0..keys).iter().all(|hash| filter.may_contain(*hash)));
        let absent = 1_000_000;
        let passed = hashes(keys..keys + absent).iter().filter(|hash| filter.may_contain(**hash)).count();
        passed as f64 * 100.0 / absent as f64
    }

    #[test]
    fn ten_bits_a_key_pass_at_most_1_5_percent_of_absent_keys() {
        for keys in [1_000, 100_000, 1_000_000] {
            let percent = false_positives_percent(keys, 10);
            println!("{keys} keys: {percent:.2} %");
            assert!(percent <= 1.5, "{percent} % of {keys} keys");
            assert!(percent >= 0.3, "a filter this good does not fit its size: {percent} %");
        }
    }

    #[test]
    fn more_bits_pass_fewer_absent_keys() {
        let measured = [2, 5, 10, 16, 24].map(|bits| false_positives_percent(50_000, bits));
        assert!(measured.is_sorted_by(|a, b| a > b), "{measured:?}");
    }

    #[test]
    fn malformed_filters_are_refused() {
        for content in [&[][..], &[6], &[0; 64], &[0; 65], &[13; 65], &[1; 66]] {
            assert!(Filter::decode(content).is_err(), "{} bytes", content.len());
        }
    }
}
