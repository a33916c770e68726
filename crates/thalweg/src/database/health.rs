//! [`Health`]: the background work that fails at present, since when, and when it is tried again.

use super::engine::{Engine, Mode};
use crate::error::{Error, ErrorKind};
use crate::format::PartitionId;
use crate::keyspaces::Registry;
use crate::runtime::{self, BackgroundError, BackgroundWork, Environment};
use std::fmt;
use std::time::Duration;

/// The health of a database, as of the call. A sound database takes writes, and no background work fails.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Health {
    /// The error with which writes are refused until the next open, if they are: [`Error::Poisoned`], or
    /// [`Error::Closed`].
    pub writes_refused: Option<Error>,
    /// Background work that fails at present, the longest failing first. It is tried again. Writers get its error only
    /// where they would have to wait for this work.
    pub failing: Vec<BackgroundFailure>,
    /// The last failure of background work since the open, whether or not it has ended.
    pub last_failure: Option<BackgroundFailure>,
}

/// Background work that failed, once or several times in a row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundFailure {
    /// The work that failed.
    pub work: BackgroundWork,
    /// For compactions: keyspace and partition.
    pub partition: Option<(String, u64)>,
    /// The latest failure.
    pub error: Error,
    /// The number of failures since the latest success.
    pub times: u64,
    /// The time since the first of these failures.
    pub since: Duration,
    /// The time since the latest failure.
    pub last: Duration,
    /// The time until the next try. The work is tried sooner if files go from a full disk, or if a caller requests it
    /// ([`crate::Database::flush`], [`crate::Database::wait_for_compactions`]). `None`: only on request.
    pub retry_in: Option<Duration>,
}

impl Health {
    /// Whether writes are taken and nothing fails.
    pub fn is_sound(&self) -> bool {
        self.writes_refused.is_none() && self.failing.is_empty()
    }
}

/// One line: what, where, how often, since when, why, and when it is tried again.
impl fmt::Display for BackgroundFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.work)?;
        if let Some((keyspace, partition)) = &self.partition {
            write!(f, " in partition {partition} of keyspace {keyspace:?}")?;
        }
        let times = if self.times == 1 { "once".to_owned() } else { format!("{} times", self.times) };
        write!(f, " failed {times}, first {:.1} s ago: {}", self.since.as_secs_f64(), self.error)?;
        match self.retry_in {
            Some(wait) => write!(f, "; tried again in {:.1} s", wait.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl Engine {
    pub(super) fn health(&self) -> Health {
        let Mode::Writable(writable) = &self.mode else { return Health::default() };
        let mut health = Health::of(&self.environment, &writable.health, &writable.registry);
        let is_poisoned = health.writes_refused.as_ref().is_some_and(|error| error.kind() == ErrorKind::Poisoned);
        if self.readable().is_err() && !is_poisoned {
            health.writes_refused = Some(Error::Closed);
        }
        health
    }
}

impl Health {
    /// The health of a database that is open for writing.
    pub(super) fn of(environment: &Environment, health: &runtime::Health, registry: &Registry) -> Health {
        let now_ns = environment.clock.now_ns();
        let mut failing: Vec<_> = health.background_errors().map(|trouble| failure(trouble, None, now_ns)).collect();
        for keyspace in registry.keyspaces().iter() {
            for (partition, trouble) in keyspace.failures() {
                failing.push(failure(trouble, Some((keyspace.name().to_owned(), partition)), now_ns));
            }
        }
        failing.sort_by_key(|failure: &BackgroundFailure| std::cmp::Reverse(failure.since));
        let last = health.last_failure();
        // A failure that goes on is in `failing`, with its partition.
        let same = |found: &&BackgroundFailure, last: &BackgroundError| {
            found.work == last.work && found.last == elapsed(last.last_ns, now_ns)
        };
        let last_failure = last.map(|last| {
            let found = failing.iter().find(|found| same(found, &last)).cloned();
            found.unwrap_or_else(|| BackgroundFailure { retry_in: None, ..failure(last, None, now_ns) })
        });
        Health { writes_refused: health.check().err(), failing, last_failure }
    }
}

fn failure(trouble: BackgroundError, place: Option<(String, PartitionId)>, now_ns: u64) -> BackgroundFailure {
    BackgroundFailure {
        work: trouble.work,
        partition: place.map(|(keyspace, partition)| (keyspace, partition.0)),
        error: trouble.error,
        times: trouble.times,
        since: elapsed(trouble.since_ns, now_ns),
        last: elapsed(trouble.last_ns, now_ns),
        retry_in: trouble.retry_at_ns.map(|retry_ns| Duration::from_nanos(retry_ns.saturating_sub(now_ns))),
    }
}

fn elapsed(from_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(from_ns))
}
