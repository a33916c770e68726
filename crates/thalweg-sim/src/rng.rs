//! [`Rng`]: a seeded generator of random numbers (splitmix64). A seed gives the same numbers on every machine.

/// A seeded sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        // Adjacent seeds must not give similar sequences.
        let mut rng = Rng { state: seed ^ 0x6a09_e667_f3bc_c909 };
        rng.state = rng.next_u64();
        rng
    }

    /// A separate sequence, so that a consumer that draws more does not change the numbers of others.
    pub fn fork(&mut self) -> Self {
        Rng::new(self.next_u64())
    }

    /// Returns a separate sequence without drawing from this one.
    pub fn aside(&self, tag: u64) -> Self {
        Rng::new(self.clone().next_u64() ^ tag)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing is below 0");
        self.next_u64() % end
    }

    /// A number in `from..=to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// An index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// `true` once in `in_all` draws.
    pub fn one_in(&mut self, in_all: u64) -> bool {
        self.below(in_all) == 0
    }

    /// `true` in `percent` of 100 draws.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number of at most `bits_max` bits, small ones as likely as large ones.
    pub fn any_size(&mut self, bits_max: u32) -> u64 {
        let bits = self.below(u64::from(bits_max) + 1) as u32;
        if bits == 0 { 0 } else { self.next_u64() >> (64 - bits) }
    }

    /// One of `choices`.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}
