//! The space that a quiet log gives back, and the files that a close leaves.

use super::open::Log;
use super::supply::Idle;
use crate::runtime::Event;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A close leaves an idle slot of at most this many bytes, so that the next open needs no space.
const LEFT_BYTES_MAX: u32 = 128 << 10;

impl Log {
    /// Gives back spares and idle slots if the log still ends `at` this segment and offset.
    pub(super) fn give_back_idle(&self, at: (u32, u32)) {
        let published = self.published().position;
        {
            let tail = &mut *self.lock_tail();
            if (tail.segment.id.index, tail.offset) != at || !tail.supply.waiting.is_empty() {
                return;
            }
            let supply = &mut tail.supply;
            supply.sizing.quiet(tail.offset, tail.segment.bytes);
            supply.peak_bytes = 0;
            supply.useless.extend(supply.free.drain(..).map(|idle| (idle.path, None)));
            let prepared = supply.spares.drain(..).chain(supply.unpopulated.drain(..));
            supply.useless.extend(prepared.map(|segment| (segment.path.clone(), Some(segment))));
        }
        self.quiet_at.store(published.raw(), Ordering::Relaxed);
        if let Some(event) = self.when_quiet.get() {
            event.notify_all();
        }
    }

    /// Sets the event that is notified whenever the log has become quiet.
    pub(crate) fn tell_when_quiet(&self, event: Arc<Event>) {
        let is_first = self.when_quiet.set(event).is_ok();
        assert!(is_first, "one event is set");
    }

    /// Returns whether nothing was written since the log became quiet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet_at.load(Ordering::Relaxed) == self.published().position.raw()
    }

    /// Removes the idle slots of a closed log, except a small one. The coroutines must have ended.
    pub(crate) fn remove_idle(&self) {
        let idle: Vec<Idle> = {
            let supply = &mut self.lock_tail().supply;
            let useless = supply.useless.drain(..).map(|(path, _)| Idle { path, bytes: u32::MAX });
            let prepared = supply.spares.drain(..).chain(supply.unpopulated.drain(..));
            let prepared = prepared.map(|segment| Idle { path: segment.path.clone(), bytes: segment.bytes });
            useless.chain(prepared).chain(supply.free.drain(..)).collect()
        };
        let left = idle.iter().position(|idle| idle.bytes <= LEFT_BYTES_MAX);
        for (_, idle) in idle.iter().enumerate().filter(|(index, _)| Some(*index) != left) {
            // If this fails, the next open removes or uses the slot.
            drop(self.environment.storage.remove(&idle.path));
        }
    }
}
