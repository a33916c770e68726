//! [`Values`]: what the soaks write.

use rand_xoshiro::rand_core::RngCore;
use thalweg_bench::distribution::{random, scrambled};

pub const VALUE_BYTES: usize = 1024;

/// Bytes that do not compress, and begin with the record's number and version.
pub struct Values {
    random: Vec<u8>,
    value: Vec<u8>,
}

impl Values {
    pub fn new() -> Values {
        let (mut source, mut noise) = (random(1, "values", 0), vec![0; 1 << 20]);
        source.fill_bytes(&mut noise);
        Values { random: noise, value: Vec::new() }
    }

    /// The value of a record's version.
    pub fn of(&mut self, number: u64, version: u64) -> &[u8] {
        let at = scrambled(number ^ version << 40) as usize % (self.random.len() - VALUE_BYTES);
        self.value.clear();
        self.value.extend(number.to_le_bytes());
        self.value.extend(version.to_le_bytes());
        self.value.extend(&self.random[at..at + VALUE_BYTES - 16]);
        &self.value
    }
}
