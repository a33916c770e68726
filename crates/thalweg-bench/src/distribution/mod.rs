//! Chooses the next key: uniform, zipfian, latest, and the published distributions of sizes and lengths.
//!
//! A generator costs tens of nanoseconds a number and allocates nothing, so that a client may draw while it is timed.
//! Expensive work (the sum zeta of a zipfian over millions) is done when the generator is made: make one, and give each
//! thread a clone.
//!
//! - `uniform`: each number as likely as any other
//! - `zipfian`: few numbers often, many seldom
//! - `fnv`: the hash that scatters the numbers of a zipfian
//! - `latest`: the newer, the likelier
//! - `chooser`: one of these, over records that grow in number
//! - `pareto`: sizes of values and lengths of scans at Meta
//! - `key_ranges`: ranges of keys of different heat
//! - `permutation`: all numbers once, in scrambled order

mod chooser;
mod fnv;
mod key_ranges;
mod latest;
mod pareto;
mod permutation;
mod uniform;
mod zipfian;

pub use chooser::Chooser;
pub use fnv::{fnv_hash, fnv1a};
pub use key_ranges::{KeyRanges, PowerLaw, TwoTermExponential};
pub use latest::Latest;
pub use pareto::Pareto;
pub use permutation::{Permutation, scrambled};
pub use uniform::Uniform;
pub use zipfian::{ScrambledZipfian, Zipfian};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// The random generator of all workloads: seeded, with the same numbers on every machine and in every version.
pub type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// The random generator of one thread of one workload. The same seed gives other numbers for another `name` or
/// `thread`: if `readrandom` drew the same numbers as `fillrandom`, it would read in the order of writing.
pub fn random(seed: u64, name: &str, thread: usize) -> Random {
    let mut random = Random::seed_from_u64(seed ^ fnv1a(name.as_bytes()));
    for _ in 0..thread {
        random.jump(); // 2^128 numbers ahead: threads never overlap.
    }
    random
}

/// A number of [0, 1), a multiple of 2^-53.
pub fn fraction(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_workloads_draw_different_numbers_and_the_same_ones_again() {
        let first = |seed, name, thread| random(seed, name, thread).next_u64();
        assert_eq!(first(1, "a", 0), first(1, "a", 0));
        let all = [first(1, "a", 0), first(2, "a", 0), first(1, "b", 0), first(1, "a", 1), first(1, "a", 2)];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one));
        }
    }

    #[test]
    fn fractions_fill_the_half_open_interval() {
        let mut random = random(1, "fractions", 0);
        let drawn: Vec<f64> = (0..100_000).map(|_| fraction(&mut random)).collect();
        assert!(drawn.iter().all(|f| (0.0..1.0).contains(f)));
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        // Five standard deviations of the mean: sqrt(1/12) / sqrt(100 000) each.
        assert!((mean - 0.5).abs() < 5.0 * 0.288_675 / 316.228, "{mean}");
    }
}
