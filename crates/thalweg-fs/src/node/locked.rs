//! [`Locked`]: several inodes under exclusive locks, taken in one order: directories first, each by number.

use super::state::State;
use super::table::Pin;
use crate::row::Ino;
use std::sync::RwLockWriteGuard;

/// Inodes under exclusive locks.
pub(crate) struct Locked<'p> {
    guards: Vec<(Ino, RwLockWriteGuard<'p, State>)>,
}

impl<'p> Locked<'p> {
    /// Locks inodes, each once, however often it is named.
    pub(crate) fn new(pins: &[&'p Pin<'_>]) -> Self {
        let mut pins = pins.to_vec();
        pins.sort_by_key(|pin| (!pin.is_directory(), pin.ino()));
        pins.dedup_by_key(|pin| pin.ino());
        Locked { guards: pins.into_iter().map(|pin| (pin.ino(), pin.write())).collect() }
    }

    pub(crate) fn get(&self, ino: Ino) -> &State {
        let found = self.guards.iter().find(|(locked, _)| *locked == ino);
        let Some((_, state)) = found else { unreachable!("inode {ino} was not locked") };
        state
    }

    pub(crate) fn get_mut(&mut self, ino: Ino) -> &mut State {
        let found = self.guards.iter_mut().find(|(locked, _)| *locked == ino);
        let Some((_, state)) = found else { unreachable!("inode {ino} was not locked") };
        state
    }
}
