//! [`Turns`]: on a full disk, one of the threads that read requests stays free for requests that give room.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use thalweg_fs::{Error, Volume};

/// Room is short below this many free bytes: the engine stops to give room at 64 MiB or more, which a second of writes
/// may reach.
const SHORT_BYTES: u64 = 1 << 30;

/// Counts the threads that read the kernel's requests and make a call that needs room. On a full disk such a call may
/// wait for seconds. So while room is short, one thread takes no such call, and removals go on.
pub(crate) struct Turns {
    threads: usize,
    taken: AtomicUsize,
    is_short: AtomicBool,
}

/// A call that needs room, on a thread that reads requests.
pub(crate) struct Turn<'t>(&'t Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    pub(crate) fn new(threads: usize) -> Self {
        Turns { threads, taken: AtomicUsize::new(0), is_short: AtomicBool::new(false) }
    }

    /// A turn, unless room is short and all other threads have one.
    pub(crate) fn take(&self) -> Option<Turn<'_>> {
        let turn = Turn(self);
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let is_last = before + 1 >= self.threads;
        (!is_last || !self.is_short.load(Ordering::Relaxed)).then_some(turn)
    }

    /// Looks at the room that is left. To be called each second.
    pub(crate) fn look(&self, volume: &Volume) {
        if let Ok(usage) = volume.usage() {
            self.is_short.store(usage.room.available_bytes < SHORT_BYTES, Ordering::Relaxed);
        }
    }

    pub(crate) fn may_try_again(&self, volume: &Volume, error: &Error) -> bool {
        if error.errno() == libc::ENOSPC {
            self.is_short.store(true, Ordering::Relaxed);
        }
        may_try_again(volume, error)
    }
}

/// Whether a call that found no room may find some after the objects of files that are gone are removed.
pub(crate) fn may_try_again(volume: &Volume, error: &Error) -> bool {
    error.errno() == libc::ENOSPC && volume.may_make_room()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_room_is_short_one_thread_waits_for_none() {
        let turns = Turns::new(3);
        let all: Vec<_> = (0..3).map_while(|_| turns.take()).collect();
        assert_eq!(all.len(), 3, "there is room");
        drop(all);
        turns.is_short.store(true, Ordering::Relaxed);
        let (first, second) = (turns.take(), turns.take());
        assert!(first.is_some() && second.is_some() && turns.take().is_none() && turns.take().is_none());
        drop(first);
        assert!(turns.take().is_some());
        drop(second);
        assert_eq!(turns.taken.load(Ordering::Relaxed), 0);
    }
}
