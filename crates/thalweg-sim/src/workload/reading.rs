//! The reads of a simulated client, each checked against the oracle: points, many at once, scans, snapshots, twins.
//!
//! A scan is checked key by key: each value in the scan, and each key of its range that the scan does not have. Other
//! clients run between its steps.

use super::client::{ClientRun, View};
use crate::keys;
use crate::spot::{Spot, describe, describe_spot};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use thalweg::{Error, Keyspace, Range};

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
type Entry = (Vec<u8>, Arc<[u8]>);
/// The unread part of a range, between two keys; `None`: from the beginning, or to the end of the range.
type Gap = (Option<Vec<u8>>, Option<Vec<u8>>);

impl ClientRun {
    /// Makes one random read operation.
    pub(crate) fn read(&mut self) {
        if self.files.is_some() && self.rng.percent(self.stage.plan.files_percent) {
            return self.read_files();
        }
        match self.rng.below(100) {
            0..35 => self.get(),
            35..45 => self.contains_key(),
            45..55 => self.multi_get(),
            55..75 => self.scan_live(),
            75..82 => self.take_view(),
            82..94 => self.read_view(),
            94..97 => drop(self.views.pop()),
            _ if self.stage.plan.clears => self.get(),
            _ => self.check_twins(),
        }
    }

    pub(super) fn reading_fails(&self, keyspace: &Arc<str>, what: &str, error: &Error) {
        self.stage.expect_trouble_in(keyspace, what, error);
    }

    pub(super) fn check(&self, spot: &Spot, found: Option<&[u8]>, began: u64, ended: u64) {
        let outcome = self.stage.oracle.borrow().check_read(spot, found, began, ended);
        self.stage.must(outcome);
    }

    fn get(&mut self) {
        let (spot, keyspace) = self.some_spot();
        self.stage.world.doing(|| format!("get of {}", describe_spot(&spot)));
        let began = self.stage.tick();
        let outcome = keyspace.get(&spot.1);
        let ended = self.stage.tick();
        match outcome {
            Ok(found) => self.check(&spot, found.as_deref(), began, ended),
            Err(error) => self.reading_fails(&spot.0, "get", &error),
        }
    }

    fn contains_key(&mut self) {
        let (spot, keyspace) = self.some_spot();
        self.stage.world.doing(|| format!("contains_key of {}", describe_spot(&spot)));
        match keyspace.contains_key(&spot.1) {
            Err(error) => self.reading_fails(&spot.0, "contains_key", &error),
            Ok(found) if self.is_alone() => {
                let known = self.stage.oracle.borrow().known(&spot);
                assert!(
                    known.is_none_or(|known| known == found),
                    "contains_key of {} said {found}",
                    describe_spot(&spot)
                );
            }
            // Only a lone client knows the answer for certain.
            Ok(_) => {}
        }
    }

    fn multi_get(&mut self) {
        let (name, keyspace) = self.some_keyspace();
        self.multi_get_of(&name, &keyspace);
    }

    /// Reads keys in several partitions of a keyspace.
    pub(crate) fn read_many(&mut self, name: &Arc<str>, keyspace: &Keyspace) {
        if self.rng.one_in(2) { self.multi_get_of(name, keyspace) } else { self.scan_live_of(name, keyspace) }
    }

    fn multi_get_of(&mut self, name: &Arc<str>, keyspace: &Keyspace) {
        let keys: Vec<Vec<u8>> = (0..self.rng.between(1, 8)).map(|_| self.some_spot().0.1).collect();
        self.stage.world.doing(|| format!("multi_get of {} keys in {name}", keys.len()));
        let began = self.stage.tick();
        let outcome = keyspace.multi_get(&keys);
        let ended = self.stage.tick();
        match outcome {
            Ok(found) => {
                assert_eq!(found.len(), keys.len(), "multi_get answers every key");
                for (key, found) in keys.into_iter().zip(found) {
                    self.check(&(Arc::clone(name), key), found.as_deref(), began, ended);
                }
            }
            Err(error) => self.reading_fails(name, "multi_get", &error),
        }
    }

    fn take_view(&mut self) {
        if self.views.len() >= 3 {
            self.views.remove(0);
        }
        let keyspaces = self.stable.iter().chain(self.temporary.borrow().iter()).cloned().collect();
        let began = self.stage.tick();
        let snapshot = self.db.snapshot();
        let ended = self.stage.tick();
        self.views.push(View { snapshot, keyspaces, began, ended });
    }

    fn read_view(&mut self) {
        if self.views.is_empty() {
            return self.take_view();
        }
        let index = self.rng.index(self.views.len());
        let (snapshot, began, ended) = {
            let view = &self.views[index];
            (view.snapshot.clone(), view.began, view.ended)
        };
        let (name, keyspace) = self.rng.choose(&self.views[index].keyspaces).clone();
        match self.rng.below(4) {
            0 => {
                let key = self.some_spot().0.1;
                match snapshot.get(&keyspace, &key) {
                    Ok(found) => self.check(&(name, key), found.as_deref(), began, ended),
                    Err(error) => self.reading_fails(&name, "get from a snapshot", &error),
                }
            }
            1 => {
                let keys: Vec<Vec<u8>> = (0..self.rng.between(2, 8)).map(|_| self.some_spot().0.1).collect();
                match snapshot.multi_get(&keyspace, &keys) {
                    Ok(found) => {
                        for (key, found) in keys.into_iter().zip(found) {
                            self.check(&(Arc::clone(&name), key), found.as_deref(), began, ended);
                        }
                    }
                    Err(error) => self.reading_fails(&name, "multi_get from a snapshot", &error),
                }
            }
            2 => {
                self.stage.world.doing(|| "check of a snapshot".into());
                self.stage.check_view(&[(name, snapshot.keyspace(&keyspace))], began, ended);
            }
            _ => {
                let bounds = self.some_bounds();
                let range = snapshot.range(&keyspace, bounds.clone());
                self.scan(&name, range, &bounds, began, ended);
            }
        }
    }

    fn check_twins(&mut self) {
        let snapshot = self.db.snapshot();
        let key = keys::key(keys::TWINS, self.rng.below(5));
        let one = snapshot.get(&self.stable[0].1, &key);
        self.stage.world.pause();
        let two = snapshot.get(&self.stable[1].1, &key);
        match (one, two) {
            (Ok(one), Ok(two)) => assert!(
                one.as_deref() == two.as_deref(),
                "a batch is seen in part: twins {} are {} and {}",
                key.escape_ascii(),
                describe(one.as_deref()),
                describe(two.as_deref())
            ),
            (Err(error), _) | (_, Err(error)) => self.reading_fails(&self.stable[0].0, "get of twins", &error),
        }
    }

    // Scans.

    fn scan_live(&mut self) {
        let (name, keyspace) = self.some_keyspace();
        self.scan_live_of(&name, &keyspace);
    }

    fn scan_live_of(&mut self, name: &Arc<str>, keyspace: &Keyspace) {
        let began = self.stage.tick();
        let (range, bounds) = self.some_range(keyspace);
        let ended = self.stage.tick();
        self.scan(name, range, &bounds, began, ended);
    }

    fn some_range(&mut self, keyspace: &Keyspace) -> (Range, Bounds) {
        match self.rng.below(4) {
            0 => (keyspace.iter(), (Bound::Unbounded, Bound::Unbounded)),
            1 => {
                let prefix = keys::own_scope(self.number).into_bytes();
                let after = keys::own_scope(self.number + 1).into_bytes();
                (keyspace.prefix(&prefix), (Bound::Included(prefix), Bound::Excluded(after)))
            }
            _ => {
                let bounds = self.some_bounds();
                (keyspace.range(bounds.clone()), bounds)
            }
        }
    }

    fn some_bounds(&mut self) -> Bounds {
        let (mut from, mut to) = (self.some_spot().0.1, self.some_spot().0.1);
        if from > to && !self.rng.one_in(10) {
            std::mem::swap(&mut from, &mut to);
        }
        let from = match self.rng.below(3) {
            0 => Bound::Included(from),
            1 => Bound::Excluded(from),
            _ => Bound::Unbounded,
        };
        let to = match self.rng.below(3) {
            0 => Bound::Included(to),
            1 => Bound::Excluded(to),
            _ => Bound::Unbounded,
        };
        (from, to)
    }

    /// Reads a range from one end, from the other, or from both in turn, perhaps only partly. Then checks the entries.
    fn scan(&mut self, name: &Arc<str>, mut range: Range, bounds: &Bounds, began: u64, ended: u64) {
        self.stage.world.doing(|| format!("scan of {name} {bounds:?}"));
        let (mut front, mut back): (Vec<Entry>, Vec<Entry>) = Default::default();
        let backwards_percent = *self.rng.choose(&[0, 0, 50, 100]);
        let limit = if self.rng.one_in(3) { self.rng.below(10) } else { u64::MAX };
        let mut complete = false;
        for _ in 0..limit {
            if self.rng.one_in(8) {
                self.stage.world.pause();
            }
            let backwards = self.rng.percent(backwards_percent);
            match if backwards { range.next_back() } else { range.next() } {
                None => {
                    complete = true;
                    break;
                }
                Some(Err(error)) => return self.reading_fails(name, "scan", &error),
                Some(Ok((key, value))) => {
                    let entry = (key.to_vec(), Arc::from(&value[..]));
                    if backwards { back.push(entry) } else { front.push(entry) }
                }
            }
        }
        drop(range);
        back.reverse();
        // The part between the two ends was not read, unless they met.
        let gap = (!complete).then(|| (front.last().map(|e| e.0.clone()), back.first().map(|e| e.0.clone())));
        let found: Vec<Entry> = front.into_iter().chain(back).collect();
        assert!(found.is_sorted_by(|a, b| a.0 < b.0), "a scan of {name} is out of order: {:?}", keys_of(&found));
        let found: BTreeMap<Vec<u8>, Arc<[u8]>> = found.into_iter().collect();
        self.check_scan(name, bounds, &found, gap, (began, ended));
    }

    fn check_scan(
        &self,
        name: &Arc<str>,
        bounds: &Bounds,
        found: &BTreeMap<Vec<u8>, Arc<[u8]>>,
        gap: Option<Gap>,
        (began, ended): (u64, u64),
    ) {
        let mut keys = self.stage.oracle.borrow().keys_of(name);
        keys.extend(found.keys().cloned());
        for key in keys {
            let entry = found.get(&key);
            if !contains(bounds, &key) {
                assert!(entry.is_none(), "a scan of {name} {bounds:?} gave {}", key.escape_ascii());
                continue;
            }
            let is_unread = gap.as_ref().is_some_and(|(from, to)| {
                from.as_ref().is_none_or(|from| key > *from) && to.as_ref().is_none_or(|to| key < *to)
            });
            if !is_unread {
                self.check(&(Arc::clone(name), key), entry.map(|value| &value[..]), began, ended);
            }
        }
    }
}

fn keys_of(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|(key, _)| key.escape_ascii().to_string()).collect()
}

fn contains((from, to): &Bounds, key: &[u8]) -> bool {
    let after = match from {
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
        Bound::Unbounded => true,
    };
    let before = match to {
        Bound::Included(to) => key <= &to[..],
        Bound::Excluded(to) => key < &to[..],
        Bound::Unbounded => true,
    };
    after && before
}
