//! [`Published`]: which records are published, and which wait for an earlier one. Pure.

use crate::format::{LogMark, LogPosition};
use std::collections::VecDeque;

/// The contiguous prefix of published records.
pub(super) struct Published {
    /// The first ticket that is not published.
    pub(super) next_ticket: u64,
    /// The boundary after the prefix.
    pub(super) mark: LogMark,
    /// The ends of finished records that wait for an earlier one. Index 0 belongs to the ticket after `next_ticket`.
    done: VecDeque<Option<LogMark>>,
    /// How many records were given up after they were reserved.
    pub(super) given_up: u64,
    /// A close waits until every record is done or given up.
    pub(super) is_awaited: bool,
}

impl Published {
    pub(super) fn new(mark: LogMark) -> Self {
        Published { next_ticket: 0, mark, done: VecDeque::new(), given_up: 0, is_awaited: false }
    }
    /// Returns the position of the mark.
    pub(super) fn position(&self) -> LogPosition {
        self.mark.position
    }

    /// Notes that a record is done. Returns whether it was the next one: if so, it and the records that waited for it
    /// are published.
    pub(super) fn take(&mut self, ticket: u64, end: LogMark) -> bool {
        let Some(behind) = ticket.checked_sub(self.next_ticket) else {
            unreachable!("a record is published once");
        };
        if let Some(behind) = behind.checked_sub(1) {
            let behind = behind as usize;
            if self.done.len() <= behind {
                self.done.resize(behind + 1, None);
            }
            if let Some(done) = self.done.get_mut(behind) {
                *done = Some(end);
            }
            return false;
        }
        self.advance(end);
        // The first of `done` is the record after the next one, so each step shifts it by one.
        while let Some(done) = self.done.pop_front() {
            let Some(end) = done else { break };
            self.advance(end);
        }
        true
    }

    /// Returns how many writers are done with the log: published, done behind an unpublished record, or given up.
    pub(super) fn ended(&self) -> u64 {
        let behind = self.done.iter().filter(|done| done.is_some()).count() as u64;
        self.next_ticket + behind + self.given_up
    }

    /// Publishes the next record.
    fn advance(&mut self, end: LogMark) {
        self.next_ticket += 1;
        self.mark = end;
    }
}
