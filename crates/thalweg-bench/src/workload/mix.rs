//! [`Mix`]: draws the kind of the next operation, by shares.

use super::Class;
use crate::distribution::{Random, fraction};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// A kind of operation: its name in `Parameters::mix`, its class, and its share if the parameters have no mix.
pub(super) type Share = (&'static str, Class, f64);

/// Classes and their shares.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    /// Each class with the sum of the shares up to it; the last sum is 1.
    sums: Vec<(f64, Class)>,
}

impl Mix {
    /// The shares of `mix`, or `own` if it is empty: a mix replaces all shares. `own` names every kind, with the share
    /// 0 for those that are not done by default.
    ///
    /// # Errors
    /// `Usage` for a kind that `own` does not name, a negative share, and shares that add up to nothing.
    pub fn new(workload: &str, own: &[Share], mix: &BTreeMap<String, f64>) -> Result<Mix> {
        if let Some(unknown) = mix.keys().find(|name| own.iter().all(|(known, ..)| known != name)) {
            let known: Vec<&str> = own.iter().map(|(known, ..)| *known).collect();
            return Err(Error::Usage(format!("{workload} cannot mix in {unknown}, only {}", known.join(", "))));
        }
        let share = |name: &str, own: f64| if mix.is_empty() { own } else { mix.get(name).copied().unwrap_or(0.0) };
        let shares: Vec<(f64, Class)> = own.iter().map(|(name, class, own)| (share(name, *own), *class)).collect();
        let total: f64 = shares.iter().map(|(share, _)| share).sum();
        // A comparison with a NaN sum is false.
        let sensible = total > 0.0 && total.is_finite() && shares.iter().all(|(share, _)| *share >= 0.0);
        if !sensible {
            return Err(Error::Usage(format!("the mix of {workload} needs shares of 0 or more, and one above 0")));
        }
        let mut sum = 0.0;
        let mut sums: Vec<(f64, Class)> = Vec::with_capacity(shares.len());
        for (share, class) in shares.into_iter().filter(|(share, _)| *share > 0.0) {
            sum += share / total;
            sums.push((sum, class));
        }
        Ok(Mix { sums })
    }

    /// The next operation's class.
    pub fn next(&self, random: &mut Random) -> Class {
        let (_, last) = self.sums[self.sums.len() - 1];
        if self.sums.len() == 1 {
            return last;
        }
        let drawn = fraction(random);
        // Rounding may leave the last sum a little below 1.
        self.sums.iter().find(|(sum, _)| drawn < *sum).map_or(last, |(_, class)| *class)
    }

    /// The share of a class, 0 to 1.
    pub fn share(&self, class: Class) -> f64 {
        let before = |i: usize| if i == 0 { 0.0 } else { self.sums[i - 1].0 };
        let found = self.sums.iter().enumerate().filter(|(_, (_, one))| *one == class);
        found.map(|(i, (sum, _))| sum - before(i)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::random;

    const OWN: &[Share] = &[("get", Class::Get, 3.0), ("scan", Class::Scan, 0.0), ("put", Class::Update, 1.0)];

    fn given(shares: &[(&str, f64)]) -> Result<Mix> {
        Mix::new("test", OWN, &shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect())
    }

    #[test]
    fn classes_come_as_often_as_their_shares_say() {
        for (mix, shares) in [
            (given(&[]).unwrap(), [0.75, 0.0, 0.25]),
            (given(&[("scan", 20.0), ("get", 60.0)]).unwrap(), [0.75, 0.25, 0.0]),
            (given(&[("put", 0.1)]).unwrap(), [0.0, 0.0, 1.0]),
        ] {
            let mut random = random(1, "mix", 0);
            let draws = 100_000;
            let drawn: Vec<Class> = (0..draws).map(|_| mix.next(&mut random)).collect();
            for (class, share) in [Class::Get, Class::Scan, Class::Update].into_iter().zip(shares) {
                let found = drawn.iter().filter(|one| **one == class).count() as f64;
                let deviation = (f64::from(draws) * share * (1.0 - share)).sqrt();
                assert!((found - f64::from(draws) * share).abs() <= 5.0 * deviation, "{class:?}: {found}");
                assert!((mix.share(class) - share).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn shares_that_make_no_sense_are_refused() {
        for shares in [[("fetch", 1.0)], [("get", -1.0)], [("get", 0.0)], [("get", f64::NAN)], [("get", f64::INFINITY)]]
        {
            assert!(matches!(given(&shares), Err(Error::Usage(_))), "{shares:?}");
        }
    }
}
