//! [`Values`]: values of any size, made at no cost.
//!
//! A value is a slice of a pool of pseudo-random bytes, at an offset that moves on with each value. Consecutive values
//! share no byte, and nothing is copied. `db_bench` does the same, with a pool of 1 MiB.

use crate::distribution::random;
use crate::error::{Error, Result};
use rand_xoshiro::rand_core::RngCore;
use std::sync::Arc;

/// A prime near 1 MiB: values of one size begin at every offset before an offset repeats.
const POOL_BYTES: usize = 1_048_573;
/// Bytes of the units within which compressible bytes repeat, as in `db_bench`.
const UNIT_BYTES: usize = 100;

/// A source of values; a clone for each thread shares the pool.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pool: Arc<[u8]>,
    offset: usize,
    bytes: usize,
}

impl Values {
    /// Values of at most `bytes_max`. `compressible` is the share of each value that compression can remove: of each
    /// 100 bytes the first (1 - `compressible`) are random, and the rest repeats them.
    ///
    /// # Errors
    /// `Usage` for a share outside 0 to 1.
    pub fn new(bytes_max: usize, compressible: f64, seed: u64) -> Result<Values> {
        if !(0.0..=1.0).contains(&compressible) {
            return Err(Error::Usage(format!("compressible is a share from 0 to 1, not {compressible}")));
        }
        let mut pool = vec![0; POOL_BYTES + bytes_max];
        random(seed, "values", 0).fill_bytes(&mut pool);
        // At least one byte to repeat.
        let fresh = ((UNIT_BYTES as f64 * (1.0 - compressible)).round() as usize).max(1);
        for unit in pool.chunks_mut(UNIT_BYTES) {
            for i in fresh..unit.len() {
                unit[i] = unit[i - fresh];
            }
        }
        Ok(Values { pool: pool.into(), offset: 0, bytes: 0 })
    }

    /// Returns the values of one thread, which begin elsewhere in the pool than those of other threads.
    pub fn of_thread(&self, thread: usize) -> Values {
        // An odd number near the golden section of the pool: the threads' starts are far from each other.
        Values { pool: Arc::clone(&self.pool), offset: thread * 648_055 % POOL_BYTES, bytes: 0 }
    }

    /// Moves on to a new value of `bytes`, at most those given to `new`.
    pub fn draw(&mut self, bytes: usize) {
        self.offset = (self.offset + self.bytes) % POOL_BYTES;
        self.bytes = bytes;
    }

    /// The value last drawn.
    pub fn value(&self) -> &[u8] {
        &self.pool[self.offset..self.offset + self.bytes]
    }

    /// Draws a value and gives it.
    pub fn next(&mut self, bytes: usize) -> &[u8] {
        self.draw(bytes);
        self.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn values_have_their_size_and_differ() {
        let mut values = Values::new(4096, 0.0, 1).unwrap();
        let mut seen = HashSet::new();
        for bytes in [100, 1, 0, 4096, 100, 1000].into_iter().cycle().take(6000) {
            let value = values.next(bytes).to_vec();
            assert_eq!(value.len(), bytes);
            assert!(bytes < 100 || seen.insert(value), "a value twice");
        }
        assert!(
            (0..50_000).all(|_| seen.insert(values.next(128).to_vec())),
            "a value twice in six passes over the pool"
        );
        assert_ne!(values.of_thread(0).next(100), values.of_thread(1).next(100));
    }

    #[test]
    fn bytes_are_random_unless_asked_otherwise() {
        let mut values = Values::new(100_000, 0.0, 1).unwrap();
        let mut counts = [0u32; 256];
        values.next(100_000).iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let expected = 100_000.0 / 256.0;
        let statistic: f64 = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        assert!(statistic < 330.52, "{statistic}"); // The 0.999 quantile for 255 degrees of freedom.
    }

    #[test]
    fn the_compressible_share_repeats() {
        for (compressible, fresh) in [(0.5, 50), (0.8, 20), (1.0, 1)] {
            let mut values = Values::new(1000, compressible, 1).unwrap();
            for unit in values.next(1000).chunks(UNIT_BYTES) {
                assert!((fresh..UNIT_BYTES).all(|i| unit[i] == unit[i - fresh]), "{compressible}");
                let distinct: HashSet<u8> = unit.iter().copied().collect();
                assert!(distinct.len() <= fresh && distinct.len() * 5 >= fresh * 4, "{compressible}");
            }
        }
        assert!(Values::new(100, 1.5, 1).is_err() && Values::new(100, f64::NAN, 1).is_err());
    }
}
