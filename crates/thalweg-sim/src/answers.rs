//! [`Answers`]: the callbacks that clients gave to tickets, and their outcomes.
//!
//! A callback may be called on any thread, so it only stores its outcome here. The end of the life judges the outcomes:
//! every callback was called once, and every `Ok` is a promise.

use crate::oracle::Position;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg::CommitTicket;

/// The callbacks of one life. Clones share them.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
}

/// One callback.
struct Asked {
    position: Position,
    called: u32,
    outcome: Option<thalweg::Result<()>>,
}

impl Answers {
    /// Registers a callback of `ticket`, which promises that everything up to `position` is durable.
    pub fn ask(&self, ticket: &CommitTicket, position: Position) {
        let number = {
            let asked = &mut self.state().asked;
            asked.push(Asked { position, called: 0, outcome: None });
            asked.len() - 1
        };
        let answers = self.clone();
        ticket.on_durable(move |outcome| {
            let asked = &mut answers.state().asked[number];
            asked.called += 1;
            asked.outcome = Some(outcome);
        });
    }

    /// Takes the positions of the callbacks since the last call, each with its outcome. The database must be closed.
    ///
    /// # Panics
    /// When a callback was not called, or more than once.
    pub fn take(&self) -> Vec<(Position, thalweg::Result<()>)> {
        let asked = std::mem::take(&mut self.state().asked);
        let outcome = |Asked { position, called, outcome }: Asked| {
            assert_eq!(called, 1, "the calls of a ticket's callback, for what is up to {position:?}");
            (position, outcome.unwrap_or(Ok(())))
        };
        asked.into_iter().map(outcome).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
