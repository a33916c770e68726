//! [`Chooser`]: chooses the record of an operation.

use super::{Latest, Random, ScrambledZipfian, Uniform};
use crate::parameters::Distribution;

/// One of the distributions of [`Distribution`], over records that may grow in number.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// Each as likely as any other.
    Uniform,
    /// Zipfian, scrambled.
    Zipfian(ScrambledZipfian),
    /// The newer, the likelier.
    Latest(Latest),
}

impl Chooser {
    /// A chooser for records `0..records` that may grow to `0..records_max`. As in YCSB, a zipfian covers `records_max`
    /// from the start, so that growth does not move the likely records; a record that does not exist yet is drawn
    /// again.
    ///
    /// # Panics
    /// If `records` is 0.
    pub fn new(distribution: Distribution, records: u64, records_max: u64) -> Chooser {
        assert!(records > 0, "nothing to choose from");
        match distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Zipfian => Chooser::Zipfian(ScrambledZipfian::new(records_max.max(records))),
            Distribution::Latest => Chooser::Latest(Latest::new(records)),
        }
    }

    /// Draws a record of `0..records`; `records` is never 0 and never shrinks.
    pub fn next(&mut self, records: u64, random: &mut Random) -> u64 {
        match self {
            Chooser::Uniform => Uniform::below(records, random),
            Chooser::Zipfian(zipfian) => loop {
                let record = zipfian.next(random);
                if record < records {
                    return record;
                }
            },
            Chooser::Latest(latest) => latest.next(records, random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::random;

    #[test]
    fn only_records_that_exist_are_chosen_and_new_ones_are_among_them() {
        for distribution in [Distribution::Uniform, Distribution::Zipfian, Distribution::Latest] {
            let (mut chooser, mut random) = (Chooser::new(distribution, 100, 200), random(1, "chooser", 0));
            assert!((0..10_000).all(|_| chooser.next(100, &mut random) < 100));
            let grown: Vec<u64> = (0..10_000).map(|_| chooser.next(150, &mut random)).collect();
            assert!(grown.iter().all(|record| *record < 150));
            assert!((100..150).all(|record| grown.contains(&record)), "{distribution:?}");
        }
    }

    #[test]
    fn growth_does_not_move_the_likely_records_of_a_zipfian() {
        let likeliest = |records| {
            let (mut chooser, mut random) = (Chooser::new(Distribution::Zipfian, 900, 1000), random(1, "chooser", 0));
            let mut counts = [0u32; 1000];
            for _ in 0..20_000 {
                counts[usize::try_from(chooser.next(records, &mut random)).unwrap()] += 1;
            }
            (0..900).max_by_key(|record| counts[*record]).unwrap()
        };
        assert_eq!(likeliest(900), likeliest(1000));
    }
}
