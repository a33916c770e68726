//! [`Compact`]: one compaction of everything.

use crate::engine::Session;
use crate::error::Result;
use crate::workload::{Class, Client, Outcome};

/// The first thread of `compact`: has the engine compact all records down to the last level, once. Other threads do
/// nothing.
pub(super) struct Compact {
    is_done: bool,
}

impl Compact {
    /// The client of a thread.
    pub fn new(thread: usize) -> Compact {
        Compact { is_done: thread > 0 }
    }
}

impl Client for Compact {
    fn prepare(&mut self) -> Option<Class> {
        (!std::mem::replace(&mut self.is_done, true)).then_some(Class::Compact)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        session.compact()?;
        Ok(Outcome { operations: 1, ..Outcome::default() })
    }
}
