//! [`Partitions`]: which partition a key belongs to, for engines whose partitions are named key spaces.

use thalweg_bench::{Error, Result};

/// Ranges of keys, side by side, and their names. Invariant: the splits ascend.
pub struct Partitions {
    splits: Vec<Vec<u8>>,
}

impl Partitions {
    /// The partitions between these first keys of all but the first.
    pub fn new(splits: &[Vec<u8>]) -> Result<Partitions> {
        if !splits.is_sorted_by(|a, b| a < b) {
            return Err(Error::Usage("the splits between partitions do not ascend".into()));
        }
        Ok(Partitions { splits: splits.to_vec() })
    }

    /// How many there are: at least one.
    pub fn count(&self) -> usize {
        self.splits.len() + 1
    }

    /// The number of the partition that `key` belongs to.
    pub fn of(&self, key: &[u8]) -> usize {
        self.splits.partition_point(|first| first.as_slice() <= key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_the_first_key_of_the_partition_above_it() {
        let partitions = Partitions::new(&[b"g".to_vec(), b"p".to_vec()]).ok().map_or_else(Vec::new, |partitions| {
            [&b"a"[..], b"g", b"ga", b"p", b"z"].iter().map(|key| partitions.of(key)).collect()
        });
        assert_eq!(partitions, [0, 1, 1, 2, 2]);
    }

    #[test]
    fn splits_that_do_not_ascend_are_refused() {
        assert!(Partitions::new(&[b"p".to_vec(), b"g".to_vec()]).is_err());
        assert!(Partitions::new(&[b"g".to_vec(), b"g".to_vec()]).is_err());
    }
}
