//! [`Remove`]: removals.

use super::shared::{Drawn, Numbered};
use crate::distribution::Random;
use crate::engine::Session;
use crate::error::Result;
use crate::workload::{Class, Client, Outcome};

/// A thread of `deleterandom`: removes keys of records, one at a time, whether they are there or not.
pub(super) struct Remove {
    drawn: Drawn,
    sync: bool,
}

impl Remove {
    /// Draws keys of records.
    pub fn new(workload: &Numbered, random: Random) -> Remove {
        Remove { drawn: Drawn::new(workload, random), sync: workload.sync }
    }
}

impl Client for Remove {
    fn prepare(&mut self) -> Option<Class> {
        self.drawn.draw();
        Some(Class::Remove)
    }

    fn execute(&mut self, session: &mut dyn Session) -> Result<Outcome> {
        session.remove(&self.drawn.key, self.sync)?;
        Ok(Outcome { operations: 1, written_bytes: self.drawn.key.len() as u64, ..Outcome::default() })
    }
}
