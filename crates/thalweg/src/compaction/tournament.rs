//! [`Tournament`]: finds the run with the least entry, by a tree of losers (Knuth, volume 3, 5.4.1).
//!
//! Each inner node keeps the run that lost the match there. So when the winner takes its next entry, only the matches
//! on its own way to the root are played again: one for two runs, three for eight. A match compares two numbers, the
//! runs' prefixes. The caller is asked only if these are equal.
//!
//! Invariant: every run but the winner is the loser of exactly one match.

/// A run and the first bytes of its key that tell keys apart.
#[derive(Clone, Copy, Debug)]
struct Player {
    prefix: u64,
    run: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tournament {
    /// The losers of the matches 1, 2, …. Match `m` is between the winners of `2m` and `2m + 1`; `runs + run` is a run.
    /// Entry 0 is the winner of all.
    losers: Vec<Player>,
}

impl Tournament {
    /// Plays the matches between the runs with these prefixes, at least one. `before(a, b)` says whether run `a` goes
    /// before run `b`; it is asked if prefixes are equal. A run that has ended takes part, with the prefix
    /// [`u64::MAX`]; it goes before no other.
    pub(super) fn new(prefixes: &[u64], before: impl Fn(usize, usize) -> bool) -> Self {
        let players: Vec<Player> = prefixes.iter().enumerate().map(|(run, &prefix)| Player { prefix, run }).collect();
        let Some(&first) = players.first() else { unreachable!("a merge has at least one run") };
        let mut losers = vec![first; players.len()];
        let mut winners = [vec![first; players.len()], players].concat();
        for game in (1..losers.len()).rev() {
            let (a, b) = (winners[2 * game], winners[2 * game + 1]);
            (winners[game], losers[game]) = if wins(a, b, &before) { (a, b) } else { (b, a) };
        }
        losers[0] = winners[1];
        Tournament { losers }
    }

    /// Returns the run whose entry is least.
    #[inline]
    pub(super) fn winner(&self) -> usize {
        self.losers[0].run
    }

    /// Plays again after the winner has moved to another entry, or to its end. `before` as for [`Tournament::new`].
    #[inline]
    pub(super) fn replay(&mut self, prefix: u64, before: impl Fn(usize, usize) -> bool) {
        let mut winner = Player { prefix, ..self.losers[0] };
        let mut game = (self.losers.len() + winner.run) / 2;
        while game > 0 {
            let other = self.losers[game];
            // Both are stored and chosen without a jump, because the winner is unpredictable.
            let other_wins = wins(other, winner, &before);
            (self.losers[game], winner) = if other_wins { (winner, other) } else { (other, winner) };
            game /= 2;
        }
        self.losers[0] = winner;
    }
}

#[inline]
fn wins(a: Player, b: Player, before: &impl Fn(usize, usize) -> bool) -> bool {
    if a.prefix == b.prefix { before(a.run, b.run) } else { a.prefix < b.prefix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_runs_comes_out_in_one_order() {
        for runs in 1..12u64 {
            // Run r: small numbers of few values, so that prefixes are often equal; ties by the run.
            let lists: Vec<Vec<u64>> = (0..runs)
                .map(|run| {
                    let mut list: Vec<u64> = (0..run * 5 % 17).map(|i| (i * 7 + run * 3) % 11).collect();
                    list.sort();
                    list
                })
                .collect();
            let mut taken = vec![0; lists.len()];
            let head = |taken: &[usize], run: usize| lists[run].get(taken[run]).copied();
            let prefix = |taken: &[usize], run: usize| head(taken, run).map_or(u64::MAX, |number| number / 4);
            let before = |taken: &[usize], a: usize, b: usize| match (head(taken, a), head(taken, b)) {
                (Some(x), Some(y)) => (x, a) < (y, b),
                (x, _) => x.is_some(),
            };
            let prefixes: Vec<u64> = (0..lists.len()).map(|run| prefix(&taken, run)).collect();
            let mut tournament = Tournament::new(&prefixes, |a, b| before(&taken, a, b));
            let mut merged = Vec::new();
            while let Some(number) = head(&taken, tournament.winner()) {
                let run = tournament.winner();
                merged.push((number, run));
                taken[run] += 1;
                tournament.replay(prefix(&taken, run), |a, b| before(&taken, a, b));
            }
            let mut expected: Vec<(u64, usize)> =
                lists.iter().enumerate().flat_map(|(run, list)| list.iter().map(move |n| (*n, run))).collect();
            expected.sort();
            assert_eq!(merged, expected, "{runs} runs");
        }
    }
}
