//! What LevelDB tells of its levels, and whether a compaction is due by its own rule.

/// Files that start a compaction of level 0 (LevelDB 1.23, `db/dbformat.h`: `kL0_CompactionTrigger`).
const LEVEL0_FILES: usize = 4;
/// Bytes of level 1, and how many times larger each level below is (`db/version_set.cc`: `MaxBytesForLevel`).
const LEVEL1_BYTES: u64 = 10 << 20;
const GROWTH: u64 = 10;
/// Levels in all; the last is never compacted for its size.
const LEVELS: usize = 7;

/// The files of each level, from the property `leveldb.sstables`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    files: [usize; LEVELS],
    bytes: [u64; LEVELS],
}

impl Shape {
    /// From the lines `--- level 1 ---` and ` 123:4567['a' .. 'b']`: file number and bytes. `None`: it is no such text.
    pub fn read(tables: &str) -> Option<Shape> {
        let mut shape = Shape::default();
        let mut level = None;
        for line in tables.lines() {
            if let Some(rest) = line.strip_prefix("--- level ") {
                level = Some(rest.split_whitespace().next()?.parse::<usize>().ok().filter(|level| *level < LEVELS)?);
            } else {
                let (level, (_, rest)) = (level?, line.split_once(':')?);
                let bytes = rest.split('[').next()?.parse::<u64>().ok()?;
                shape.files[level] += 1;
                shape.bytes[level] += bytes;
            }
        }
        level.map(|_| shape)
    }

    /// Whether a level has as many files, or as many bytes, as start a compaction.
    pub fn compaction_due(&self) -> bool {
        let mut limit = LEVEL1_BYTES;
        let lower = self.bytes[1..LEVELS - 1].iter().any(|bytes| {
            let due = *bytes >= limit;
            limit *= GROWTH;
            due
        });
        lower || self.files[0] >= LEVEL0_FILES
    }
}

/// What compactions, flushes among them, read and wrote, from the property `leveldb.stats`: `(read, written)` in whole
/// MiB, as LevelDB tells them, in bytes.
pub fn transferred(statistics: &str) -> Option<(u64, u64)> {
    let mut sums = None;
    for line in statistics.lines() {
        let fields: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // Level, files, MiB, seconds, MiB read, MiB written.
        if let [_, _, _, _, read, written] = fields[..] {
            let (before_read, before_written) = sums.unwrap_or_default();
            sums = Some((before_read + ((read as u64) << 20), before_written + ((written as u64) << 20)));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_bytes_are_read_level_by_level() {
        let text = "--- level 0 ---\n 7:100['a' @ 1 : 1 .. 'b' @ 2 : 1]\n 9:50['[:' @ 3 : 1 .. 'z' @ 4 : 1]\n\
                    --- level 1 ---\n--- level 2 ---\n 5:11534336['a' @ 1 : 1 .. 'c' @ 2 : 1]\n";
        let shape = Shape::read(text);
        let expected = Shape { files: [2, 0, 1, 0, 0, 0, 0], bytes: [150, 0, 11_534_336, 0, 0, 0, 0] };
        assert_eq!(shape, Some(expected));
        assert_eq!(Shape::read("nothing"), None);
    }

    #[test]
    fn a_compaction_is_due_by_files_in_level_0_and_by_bytes_below() {
        let mut shape = Shape::default();
        assert!(!shape.compaction_due());
        shape.files[0] = LEVEL0_FILES;
        assert!(shape.compaction_due());
        shape.files[0] -= 1;
        shape.bytes[2] = 100 << 20;
        assert!(shape.compaction_due());
        shape.bytes[2] -= 1;
        assert!(!shape.compaction_due());
        shape.bytes[6] = u64::MAX;
        assert!(!shape.compaction_due(), "the last level has nowhere to go");
    }

    #[test]
    fn bytes_of_compactions_are_summed_over_the_levels() {
        let text = "                               Compactions\n\
                    Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
                    --------------------------------------------------\n\
                    \u{20} 0        2        4         1        0        12\n\
                    \u{20} 1        3        8         1        9        7\n";
        assert_eq!(transferred(text), Some((9 << 20, 19 << 20)));
    }
}
