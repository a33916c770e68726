//! [`Random`]: SplitMix64, so that a seed determines everything.

/// A generator of random numbers.
pub struct Random(u64);

impl Random {
    /// The generator of one `stream` of `seed`, independent of the seed's other streams.
    pub fn of(seed: u64, stream: u64) -> Self {
        let mut outer = Random(seed);
        let outer = outer.number();
        let mut inner = Random(outer ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let inner = inner.number();
        Random(inner)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `bound`, which is above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Whether an event of `chance` in 100 happens.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Picks one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T; 4]) -> T {
        let [first, second, third, fourth] = *choices;
        match self.below(4) {
            0 => first,
            1 => second,
            2 => third,
            _ => fourth,
        }
    }
}
