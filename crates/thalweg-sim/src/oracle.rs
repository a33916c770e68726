//! [`Oracle`]: the contents that a database may have, given the calls and their results.
//!
//! A write is *acknowledged* with its position in the order of publishing (its sequence number), or it stays a *maybe*:
//! it was under way when the power was cut, or it failed. Ticks number the events that the harness sees, in order.
//!
//! After a crash (`check_recovered`) there must be a *cut*: exactly the acknowledged writes up to it are there. The cut
//! is not before the *floor*, the last position that was promised durable. A maybe is there as a whole or not at all,
//! and everything that is there was written. While the database is open (`check_read`), a read gives the newest write
//! that was acknowledged before the read began, or a later one.
//!
//! It cannot detect a lost maybe whose values are not unique (empty ones, removals) or were overwritten.

use crate::keys::name_of;
use crate::spot::{Spot, Value, describe, describe_spot, is_unique};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A place in the order of writes: the sequence number, then the order of writes that did not report their own number.
pub type Position = (u64, u64);

/// The number of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(usize);

#[derive(Clone, Debug)]
struct Write {
    label: String,
    /// The last change of each key.
    changes: BTreeMap<Spot, Value>,
    invoked: u64,
    /// The tick of the return; `u64::MAX` while the write is under way.
    returned: u64,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged(Position),
    Maybe,
    /// The write was certainly not applied.
    Refused,
}

/// The writes that must have survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Any prefix, after a recovery that may drop the writes behind a damage.
    Prefix,
    /// The writes that were promised durable.
    Promised,
    /// All acknowledged writes: the process died and the page cache survived, or the database was closed.
    Acknowledged,
}

/// Whether a temporary keyspace exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existence {
    Present,
    Absent,
    /// A create or drop was under way, or failed.
    Maybe,
}

/// The history of one database, and the checks against it.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    tick: u64,
    /// The content when the database was opened.
    base: BTreeMap<Spot, Arc<[u8]>>,
    writes: Vec<Write>,
    /// The writes to each key.
    by_spot: BTreeMap<Spot, Vec<usize>>,
    floor: Position,
    /// The last acknowledged position.
    newest: Position,
    keyspaces: BTreeMap<Arc<str>, Existence>,
}

impl Oracle {
    /// The next tick.
    pub fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Notes a write before its call. The write is a maybe from then on.
    pub fn begin(&mut self, label: String, changes: impl IntoIterator<Item = (Spot, Value)>) -> WriteId {
        let invoked = self.tick();
        let changes: BTreeMap<Spot, Value> = changes.into_iter().collect();
        let number = self.writes.len();
        for spot in changes.keys() {
            self.by_spot.entry(spot.clone()).or_default().push(number);
        }
        self.writes.push(Write { label, changes, invoked, returned: u64::MAX, fate: Fate::Maybe });
        WriteId(number)
    }

    /// Notes that a write returned `Ok` with its last sequence number. `None` means the next place after all
    /// acknowledged writes, which only a lone client may use. An error when the number contradicts the order of calls.
    pub fn acknowledge(&mut self, id: WriteId, seq: Option<u64>, durable: bool) -> Result<(), String> {
        let position = seq.map_or((self.newest.0, self.newest.1 + 1), |seq| (seq, 0));
        let returned = self.tick();
        let invoked = self.writes[id.0].invoked;
        let earlier = self.writes.iter().filter(|write| write.returned < invoked);
        let latest = earlier.filter_map(Write::position).max().unwrap_or_default();
        if self.writes.iter().any(|write| write.position() == Some(position)) {
            return Err(format!(
                "{} got sequence number {position:?}, which another write has",
                self.writes[id.0].label
            ));
        }
        let write = &mut self.writes[id.0];
        if position <= latest {
            return Err(format!(
                "{} got sequence number {position:?}, but {latest:?} was published before",
                write.label
            ));
        }
        write.fate = Fate::Acknowledged(position);
        write.returned = returned;
        self.newest = self.newest.max(position);
        if durable {
            self.floor = self.floor.max(position);
        }
        Ok(())
    }

    /// Notes that a write returned an error that leaves open whether it was applied.
    pub fn fail(&mut self, id: WriteId) {
        self.writes[id.0].returned = self.tick();
    }

    /// Notes that a write returned an error that promises that nothing was written.
    pub fn refuse(&mut self, id: WriteId) {
        self.fail(id);
        self.writes[id.0].fate = Fate::Refused;
    }

    /// The position of everything acknowledged so far, which a persist that begins now will promise.
    pub fn newest(&self) -> Position {
        self.newest
    }

    /// Notes the return of a call that makes everything up to `position` durable.
    pub fn promised(&mut self, position: Position) {
        self.floor = self.floor.max(position);
    }

    /// Notes a create or drop of a keyspace before its call.
    pub fn keyspace_begins(&mut self, name: &Arc<str>) {
        self.keyspaces.insert(Arc::clone(name), Existence::Maybe);
    }

    /// Notes that a keyspace was created durably; it is empty.
    pub fn keyspace_created(&mut self, name: &Arc<str>) {
        self.keyspaces.insert(Arc::clone(name), Existence::Present);
    }

    /// Notes that a keyspace was dropped durably. Reads that began before may still give its content.
    pub fn keyspace_dropped(&mut self, name: &Arc<str>) {
        self.keyspaces.insert(Arc::clone(name), Existence::Absent);
    }

    /// Forgets the content of dropped keyspaces, which no open finds.
    fn forget_dropped(&mut self) {
        let keyspaces = &self.keyspaces;
        let is_dropped = |spot: &Spot| keyspaces.get(&spot.0) == Some(&Existence::Absent);
        self.base.retain(|spot, _| !is_dropped(spot));
        for write in &mut self.writes {
            write.changes.retain(|spot, _| !is_dropped(spot));
        }
    }

    /// The keyspaces that must exist; `None` while a create or drop leaves this open.
    pub fn keyspaces(&self) -> Option<Vec<String>> {
        if self.keyspaces.values().any(|existence| *existence == Existence::Maybe) {
            return None;
        }
        let present = self.keyspaces.iter().filter(|(_, existence)| **existence == Existence::Present);
        Some(present.map(|(name, _)| name_of(name).to_string()).collect())
    }

    /// Whether a create or drop of a keyspace that the database calls `name` was left open.
    pub fn is_name_open(&self, name: &str) -> bool {
        self.keyspaces.iter().any(|(other, existence)| name_of(other) == name && *existence == Existence::Maybe)
    }

    /// The keyspace that the database calls `name`, if it certainly exists.
    pub fn present(&self, name: &str) -> Option<Arc<str>> {
        let is_it =
            |(other, existence): &(&Arc<str>, &Existence)| name_of(other) == name && **existence == Existence::Present;
        self.keyspaces.iter().find(is_it).map(|(other, _)| Arc::clone(other))
    }

    /// Whether this keyspace certainly exists.
    pub fn is_keyspace_present(&self, name: &Arc<str>) -> bool {
        self.keyspaces.get(name) == Some(&Existence::Present)
    }

    /// All keys of a keyspace that were ever written.
    pub fn keys_of(&self, keyspace: &Arc<str>) -> BTreeSet<Vec<u8>> {
        let from = (Arc::clone(keyspace), Vec::new());
        let written = self.by_spot.range(from.clone()..).map(|(spot, _)| spot);
        let based = self.base.range(from..).map(|(spot, _)| spot);
        let of_it = |spot: &&Spot| spot.0 == *keyspace;
        written.take_while(of_it).chain(based.take_while(of_it)).map(|spot| spot.1.clone()).collect()
    }

    /// Checks one result of a view that was taken between two ticks.
    pub fn check_read(
        &self,
        spot: &Spot,
        found: Option<&[u8]>,
        view_began: u64,
        view_ended: u64,
    ) -> Result<(), String> {
        let mut oldest: (Position, Option<&[u8]>) = ((0, 0), self.base.get(spot).map(|value| &value[..]));
        let mut writer = "what was recovered";
        let empty = Vec::new();
        let writes = self.by_spot.get(spot).unwrap_or(&empty);
        for write in writes.iter().map(|&number| &self.writes[number]) {
            if let Some(position) = write.position()
                && write.returned < view_began
                && position > oldest.0
            {
                oldest = (position, write.value_at(spot));
                writer = &write.label;
            }
        }
        if oldest.1 == found {
            return Ok(());
        }
        for write in writes.iter().map(|&number| &self.writes[number]) {
            let late_enough = match write.fate {
                Fate::Acknowledged(position) => position > oldest.0,
                Fate::Maybe => true,
                Fate::Refused => false,
            };
            if late_enough && write.invoked < view_ended && write.value_at(spot) == found {
                return Ok(());
            }
        }
        let (expected, found) = (describe(oldest.1), describe(found));
        Err(format!("read of {} gave {found}, expected {expected} ({writer}) or newer", describe_spot(spot)))
    }

    /// Whether a key exists, for a lone client; `None` while a maybe leaves it open.
    pub fn known(&self, spot: &Spot) -> Option<bool> {
        let mut known = self.base.contains_key(spot);
        for &number in self.by_spot.get(spot).into_iter().flatten() {
            let write = &self.writes[number];
            match write.fate {
                Fate::Acknowledged(_) => known = write.value_at(spot).is_some(),
                Fate::Maybe => return None,
                Fate::Refused => {}
            }
        }
        Some(known)
    }

    /// Checks the recovered content, takes it as the new base, and forgets the earlier history.
    pub fn check_recovered(
        &mut self,
        keyspaces: &[String],
        found: BTreeMap<Spot, Arc<[u8]>>,
        survival: Survival,
    ) -> Result<(), String> {
        self.check_keyspaces(keyspaces)?;
        self.forget_dropped();
        let own = |((name, key), value): (Spot, Arc<[u8]>)| ((self.present(&name).unwrap_or(name), key), value);
        let found: BTreeMap<Spot, Arc<[u8]>> = found.into_iter().map(own).collect();
        let writes = std::mem::take(&mut self.writes);
        let base = std::mem::take(&mut self.base);
        let floor = match survival {
            Survival::Prefix => (0, 0),
            Survival::Promised => self.floor,
            Survival::Acknowledged => self.newest,
        };
        Recovered::new(&base, &writes, &found).check(floor)?;
        self.base = found;
        self.by_spot.clear();
        (self.floor, self.newest) = ((0, 0), (0, 0));
        Ok(())
    }

    fn check_keyspaces(&mut self, found: &[String]) -> Result<(), String> {
        if !found.is_sorted() {
            return Err(format!("keyspaces are not sorted: {found:?}"));
        }
        for name in found {
            let mut known = self.keyspaces.iter().filter(|(other, _)| name_of(other) == name).peekable();
            if known.peek().is_none() {
                return Err(format!("keyspace {name} was never created"));
            }
            if known.all(|(_, existence)| *existence == Existence::Absent) {
                return Err(format!("keyspace {name} came back after it was dropped"));
            }
        }
        for (name, existence) in self.keyspaces.clone() {
            let is_there = found.iter().any(|other| other == name_of(&name));
            match existence {
                Existence::Present if !is_there => return Err(format!("keyspace {name} is lost")),
                Existence::Maybe if is_there => self.keyspace_created(&name),
                Existence::Maybe => self.keyspace_dropped(&name),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Write {
    fn position(&self) -> Option<Position> {
        match self.fate {
            Fate::Acknowledged(position) => Some(position),
            _ => None,
        }
    }

    fn value_at(&self, spot: &Spot) -> Option<&[u8]> {
        self.changes.get(spot).and_then(|value| value.as_deref())
    }
}

/// The comparison of one recovered state with one history.
struct Recovered<'a> {
    found: &'a BTreeMap<Spot, Arc<[u8]>>,
    /// The acknowledged writes, by position.
    acknowledged: Vec<(Position, &'a Write)>,
    maybes: Vec<&'a Write>,
    /// The content before the first of them.
    state: Fold<'a>,
}

/// For each key: the value that the acknowledged writes up to a cut leave, and the write that wrote it.
type Fold<'a> = BTreeMap<&'a Spot, (Option<&'a [u8]>, Option<&'a Write>)>;

impl<'a> Recovered<'a> {
    fn new(base: &'a BTreeMap<Spot, Arc<[u8]>>, writes: &'a [Write], found: &'a BTreeMap<Spot, Arc<[u8]>>) -> Self {
        let mut acknowledged: Vec<(Position, &Write)> =
            writes.iter().filter_map(|write| Some((write.position()?, write))).collect();
        acknowledged.sort_by_key(|(position, _)| *position);
        let maybes: Vec<&Write> = writes.iter().filter(|write| write.fate == Fate::Maybe).collect();
        let mut state = BTreeMap::new();
        for spot in found.keys().chain(writes.iter().flat_map(|write| write.changes.keys())) {
            state.insert(spot, (None, None));
        }
        for (spot, value) in base {
            state.insert(spot, (Some(&value[..]), None));
        }
        Recovered { found, acknowledged, maybes, state }
    }

    fn found(&self, spot: &Spot) -> Option<&'a [u8]> {
        self.found.get(spot).map(|value| &value[..])
    }

    /// Whether `maybe` may come after `last`, the last write of a key in the fold.
    fn may_follow(maybe: &Write, last: Option<&Write>) -> bool {
        last.is_none_or(|last| maybe.returned > last.invoked)
    }

    fn explained(&self, spot: &Spot, fold: Option<&[u8]>, last: Option<&Write>) -> bool {
        let found = self.found(spot);
        found == fold || self.maybes.iter().any(|maybe| Self::explains(maybe, spot, found, last))
    }

    fn explains(maybe: &Write, spot: &Spot, found: Option<&[u8]>, last: Option<&Write>) -> bool {
        maybe.changes.get(spot).is_some_and(|value| value.as_deref() == found) && Self::may_follow(maybe, last)
    }

    fn check(self, floor: Position) -> Result<(), String> {
        let mut wrong: BTreeSet<&Spot> = BTreeSet::new();
        for (spot, (fold, last)) in &self.state {
            if !self.explained(spot, *fold, *last) {
                wrong.insert(spot);
            }
        }
        let mut cut = wrong.is_empty().then_some((0, 0));
        let mut nearest = (wrong.len(), (0, 0));
        for index in 0..self.acknowledged.len() {
            let (position, write) = self.acknowledged[index];
            for (spot, value) in &write.changes {
                if self.explained(spot, value.as_deref(), Some(write)) {
                    wrong.remove(spot);
                } else {
                    wrong.insert(spot);
                }
            }
            if wrong.is_empty() {
                cut = Some(position);
            }
            if wrong.len() <= nearest.0 {
                nearest = (wrong.len(), position);
            }
        }
        let Some(cut) = cut else { return Err(self.no_cut(nearest.1, floor)) };
        if cut < floor {
            let lost = self.acknowledged.iter().find(|(position, _)| *position > cut);
            let lost = lost.map_or("?", |(_, write)| &write.label);
            return Err(format!(
                "a promise is lost: everything up to {floor:?} was durable, found up to {cut:?}; first lost: {lost}"
            ));
        }
        self.check_maybes(cut)
    }

    /// The content that the acknowledged writes up to `cut` leave.
    fn fold_to(&self, cut: Position) -> Fold<'a> {
        let mut fold = self.state.clone();
        for (_, write) in self.acknowledged.iter().take_while(|(position, _)| *position <= cut) {
            fold.extend(write.changes.iter().map(|(spot, value)| (spot, (value.as_deref(), Some(*write)))));
        }
        fold
    }

    fn no_cut(&self, nearest: Position, floor: Position) -> String {
        let fold = self.fold_to(nearest);
        let wrong = fold.iter().filter(|(spot, (fold, last))| !self.explained(spot, *fold, *last));
        let mut report = format!(
            "no prefix of the writes gives what was found (floor {floor:?}, newest {:?}, nearest {nearest:?} with {} \
             keys wrong)",
            self.acknowledged.last().map(|(position, _)| *position),
            wrong.clone().count()
        );
        for (spot, (expected, _)) in wrong.take(3) {
            let (found, expected) = (describe(self.found(spot)), describe(*expected));
            report.push_str(&format!("; {}: found {found}, expected {expected}", describe_spot(spot)));
        }
        report
    }

    fn check_maybes(&self, cut: Position) -> Result<(), String> {
        let fold = self.fold_to(cut);
        for maybe in &self.maybes {
            let seen =
                maybe.changes.iter().find(|(spot, value)| is_unique(value) && self.found(spot) == value.as_deref());
            let Some((seen, _)) = seen else { continue };
            let absent = maybe.changes.iter().find(|(spot, value)| self.surely_absent(&fold, maybe, spot, value));
            if let Some((absent, _)) = absent {
                return Err(format!(
                    "{} is torn: {} is there and {} is not (found {})",
                    maybe.label,
                    describe_spot(seen),
                    describe_spot(absent),
                    describe(self.found(absent))
                ));
            }
            let before = self.acknowledged.iter().filter(|(_, write)| write.returned < maybe.invoked);
            let before = before.map(|(position, _)| *position).max().unwrap_or_default();
            if before > cut {
                return Err(format!("{} is there, but not {before:?} that came before it (cut {cut:?})", maybe.label));
            }
        }
        Ok(())
    }

    fn surely_absent(&self, fold: &Fold<'_>, maybe: &Write, spot: &Spot, value: &Value) -> bool {
        let found = self.found(spot);
        let last = fold.get(spot).and_then(|entry| entry.1);
        let is_after_last = last.is_none_or(|last| maybe.invoked > last.returned);
        let others =
            || self.maybes.iter().any(|other| !std::ptr::eq(*other, maybe) && Self::explains(other, spot, found, last));
        found != value.as_deref() && is_after_last && !others()
    }
}

#[cfg(test)]
#[path = "tests/oracle.rs"]
mod tests;
