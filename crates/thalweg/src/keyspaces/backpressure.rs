//! [`Backpressure`]: slows writers down while their buffer has little room, and stops them while it has none.
//!
//! Every wait is counted by its cause: sealed memtables, level 0, the log, the fast tier, or pacing.

use super::compaction_pace::CompactionPace;
use super::level0_job::CompactionDebt;
use super::log_pins::LogPins;
use super::pacer::{Pacer, Pressure, SLEEP_MAX_NS, memtable_pressure, pressure};
use super::registry::Registry;
use super::signals::Signals;
use super::tier_room::TierRoom;
use crate::error::{Error, Result};
use crate::lineage::Lineage;
use crate::memtable::MemtablePool;
use crate::metrics::{Metrics, PacingCause, Stall};
use crate::runtime::{Environment, Gate, Health};
use crate::trace;
use std::sync::Arc;

/// A new definition waits while this many definitions are not in the manifest yet.
const DEFINITIONS_MAX: usize = 1000;

/// Flushes of fewer bytes do not count for the rate: opening and naming a table takes longer than writing so few bytes.
const MEASURED_BYTES_MIN: u64 = 1 << 20;

/// The highest pressure that serves reads alone: writers go at a fifth of the rate at which level 0 is compacted.
const PRESSURE_OF_READS: f64 = 0.9;

/// A buffer that writers insert into: a partition, or another unit that a kind of keyspace seals and flushes as one.
pub(crate) trait WriteBuffer {
    /// The pacer of its writers, which says how fast they may go.
    fn pacer(&self) -> &Pacer;

    /// Memtables that wait for their flush.
    fn sealed_memtables(&self) -> usize;

    /// How full the active memtable is, beside the sealed ones: 0 to 1.
    fn active_share(&self) -> f64;

    /// The work that its flushes have left for compactions.
    fn compaction_debt(&self) -> CompactionDebt;

    /// Whether writers must wait because its flushes have left too much work for compactions. Every write calls this.
    fn is_stopped(&self) -> bool;

    /// Why its compactions fail at present.
    fn compaction_error(&self) -> Option<Error>;

    /// Whether its keyspace was dropped, or cleared.
    fn is_dropped(&self) -> bool;
}

/// The limits at which writers stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackpressureLimits {
    /// Writers wait when their buffer has this many sealed memtables.
    pub(crate) sealed_max: usize,
    /// Writers wait when more than twice this many bytes of the log are pinned.
    pub(crate) log_bytes_max: u64,
}

/// See the module.
pub(crate) struct Backpressure {
    pub(crate) environment: Environment,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log_pins: Arc<LogPins>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) limits: BackpressureLimits,
    pub(crate) pool: MemtablePool,
    pub(crate) tier: Option<Arc<TierRoom>>,
    /// How fast writers of all buffers together may go: they share the log and the memory of memtables.
    pub(crate) shared_pacer: Pacer,
    /// How fast compactions may go while no writer waits for them.
    pub(crate) compaction_pace: CompactionPace,
    /// The gate of the background's reads and writes.
    pub(crate) gate: Arc<Gate>,
}

impl Backpressure {
    /// Computes how fast writers of a buffer may go. Called when its room has changed.
    pub(crate) fn pace(&self, buffer: &impl WriteBuffer) {
        let (sealed, debt) = (buffer.sealed_memtables() as u64, buffer.compaction_debt());
        let sealed_max = self.limits.sealed_max as u64;
        let log_bytes_max = self.limits.log_bytes_max;
        let now_ns = self.environment.clock.now_ns();
        if debt.tables >= debt.due_at {
            buffer.pacer().compaction_due(now_ns);
        }
        if sealed > 0 {
            buffer.pacer().flush_due(now_ns);
        }
        // Flushes that relieve a long log begin at `log_bytes_max`. Pressure begins a quarter of `log_bytes_max` above
        // that, so these flushes come first. Flushes cannot free segments that only wait for a settle round.
        let log_from = log_bytes_max.saturating_add(log_bytes_max / 4);
        let log = match self.log_pins.backlog_bytes() {
            backlog if backlog <= log_from => backlog,
            _ => self.log_pins.pinned_bytes(),
        };
        let flush = memtable_pressure(sealed, sealed_max, || buffer.active_share());
        let log = pressure(log, log_from, log_bytes_max.saturating_mul(2));
        let retained = (self.lineage.retained_share() - 1.0).clamp(0.0, 1.0);
        let level0 = buffer.pacer().level0_pressure(now_ns, &debt, sealed);
        // `press_to` is below `stop_at` to keep level 0 short for reads. That alone slows writers down but never stops
        // them.
        let is_short = debt.press_to < debt.stop_at && debt.tables < debt.stop_at;
        let (compaction, compaction_rate_max) = match is_short {
            true => (level0.pressure.min(PRESSURE_OF_READS), None),
            false => (level0.pressure, level0.rate_max),
        };
        let mut pressure = Pressure { flush, log, retained, compaction, compaction_rate_max, ..Pressure::default() };
        if let Some(tier) = &self.tier {
            let coming = self.pool.sealed_bytes() as u64;
            (pressure.tier, pressure.tier_rate) = (tier.pressure(coming), tier.rate(now_ns));
        }
        buffer.pacer().press(now_ns, pressure);
        self.pace_all_at(now_ns);
    }

    /// Notes that a flush of any buffer begins. One flush runs at a time, so the room that all flushes give is the sum
    /// over time.
    pub(crate) fn flush_begun(&self) {
        self.shared_pacer.flushed_in_part(self.environment.clock.now_ns(), true);
    }

    /// Notes that the flush has ended and has released `bytes` of memory; 0: it failed, or the memory is not its own.
    pub(crate) fn flush_ended(&self, bytes: u64) {
        let now_ns = self.environment.clock.now_ns();
        self.compaction_pace.flushed(now_ns, bytes);
        match bytes >= MEASURED_BYTES_MIN {
            true => self.shared_pacer.flushed(now_ns, bytes, bytes, false),
            false => self.shared_pacer.flushed_in_part(now_ns, false),
        }
    }

    /// Computes how fast all writers together may go.
    pub(crate) fn pace_all(&self) {
        self.pace_all_at(self.environment.clock.now_ns());
    }

    /// Computes how fast all writers together may go, for the memory of memtables and for the prepared segments of the
    /// log.
    fn pace_all_at(&self, now_ns: u64) {
        let (segments, segment_rate) = self.log_pins.segment_scarcity().unzip();
        let segments = segments.unwrap_or_default();
        let over = self.pool.over();
        let flush = if over > 0.0 && self.registry.has_pending_flush() { over } else { 0.0 };
        self.shared_pacer.press(now_ns, Pressure { flush, segments, segment_rate, ..Pressure::default() });
    }

    /// Whether writers of all buffers are slowed down.
    fn are_all_pressed(&self, now_ns: u64) -> bool {
        if self.shared_pacer.is_pressed() && self.shared_pacer.is_stale(now_ns) {
            self.pace_all_at(now_ns);
        }
        self.shared_pacer.is_pressed()
    }

    /// Delays a write of `bytes`, whose operation i goes to `routes[i]`, while there is little room.
    pub(crate) fn let_time_pass<B: WriteBuffer>(&self, routes: &[Arc<B>], bytes: usize) {
        let (ticket, clock) = (self.signals.stopped.ticket(), &self.environment.clock);
        let mut now_ns = None;
        let mut delay_of = |run: &[Arc<B>]| {
            let buffer = run.first().filter(|buffer| buffer.pacer().is_pressed())?;
            let now_ns = *now_ns.get_or_insert_with(|| clock.now_ns());
            if buffer.pacer().is_stale(now_ns) {
                self.pace(&**buffer);
            }
            let delay_ns = buffer.pacer().delay_ns(bytes / routes.len() * run.len(), now_ns)?;
            Some((delay_ns, buffer.pacer().cause()))
        };
        let longest = routes.chunk_by(Arc::ptr_eq).filter_map(&mut delay_of).max_by_key(|delay| delay.0);
        let of_all = self.shared_pacer.is_pressed().then(|| {
            let now_ns = *now_ns.get_or_insert_with(|| clock.now_ns());
            let delay_ns = self.are_all_pressed(now_ns).then(|| self.shared_pacer.delay_ns(bytes, now_ns)).flatten();
            delay_ns.map(|delay_ns| (delay_ns, self.shared_pacer.cause()))
        });
        let longest = longest.into_iter().chain(of_all.flatten()).max_by_key(|delay| delay.0);
        if let Some(((delay_ns, cause), now_ns)) = longest.zip(now_ns) {
            let until_ns = now_ns.saturating_add(delay_ns);
            if cause == PacingCause::Level0 {
                self.compaction_pace.hurry(now_ns);
            }
            let is_idle = self.environment.scheduler.has_waiting_compactor() && self.gate.has_room();
            let still_pressed = |buffer: &Arc<B>, now_ns: u64| {
                if buffer.pacer().is_stale(now_ns) {
                    self.pace(&**buffer);
                }
                buffer.pacer().is_pressed()
            };
            let mut at_ns = now_ns;
            loop {
                let next_ns = until_ns.min(at_ns.saturating_add(SLEEP_MAX_NS));
                self.environment.scheduler.wait(&self.signals.stopped, ticket, Some(next_ns));
                at_ns = clock.now_ns();
                let is_over = at_ns >= until_ns || self.signals.stopped.passed(ticket);
                let mut buffers = routes.chunk_by(Arc::ptr_eq).filter_map(<[_]>::first);
                if is_over || !self.are_all_pressed(at_ns) && !buffers.any(|it| still_pressed(it, at_ns)) {
                    break;
                }
            }
            let waited_ns = at_ns.saturating_sub(now_ns);
            self.metrics.stalls_paced.record(waited_ns);
            self.metrics.paced_ns.add(cause, waited_ns);
            if is_idle {
                self.metrics.paced_while_idle_ns.add(waited_ns);
            }
        }
    }

    /// Waits before a write while a buffer has no room. Returns an error when the wait could last for ever, because the
    /// work that would make room fails.
    pub(crate) fn wait_for_room(&self, buffer: &impl WriteBuffer) -> Result<()> {
        let flush_error = || self.flush_error();
        self.stall_while("memtable", &self.metrics.stalls_memtable, flush_error, || {
            let is_full = buffer.sealed_memtables() >= self.limits.sealed_max && !buffer.is_dropped();
            // Memtables of all keyspaces together are bounded too.
            is_full || self.pool.is_far_over() && self.registry.has_pending_flush()
        })?;
        self.stall_while(
            "level 0",
            &self.metrics.stalls_level0,
            || buffer.compaction_error(),
            || buffer.is_stopped() && !buffer.is_dropped(),
        )?;
        // The log's own segments are bounded too: beyond twice the cap writers wait for the flushes that free them.
        self.stall_while("log", &self.metrics.stalls_log, flush_error, || {
            let most = self.limits.log_bytes_max.saturating_mul(2);
            // Flushes cannot free segments that only wait for a settle round.
            let is_long = || self.log_pins.pinned_bytes() > most;
            self.log_pins.backlog_bytes() > most && self.registry.has_pending_flush() && is_long()
        })?;
        let Some(tier) = &self.tier else { return Ok(()) };
        let eviction_error = || self.health.evictions.get().map(|trouble| trouble.error);
        // A flush makes room only if the tier is full because of sealed memtables that are still coming.
        let error = || eviction_error().or_else(|| if tier.is_full(0) { None } else { flush_error() });
        self.stall_while("fast tier", &self.metrics.stalls_tier, error, || {
            let is_full = || tier.is_full(self.pool.sealed_bytes() as u64);
            let is_still_full = || {
                // A drop or a clear may have released the tier's part of the log since the last look.
                self.log_pins.look_at_tier();
                is_full()
            };
            is_full() && is_still_full() && !buffer.is_dropped()
        })
    }

    /// Waits before a keyspace is created, cleared or dropped, while the manifest is far behind with earlier
    /// definitions.
    pub(crate) fn wait_for_definitions(&self) -> Result<()> {
        self.stall_while(
            "log",
            &self.metrics.stalls_log,
            || self.flush_error(),
            || self.registry.definitions().len() >= DEFINITIONS_MAX,
        )
    }

    /// Counts a wait for room in the file system as a stall of the log, which gives such room back.
    pub(crate) fn record_wait_for_space(&self, waited_ns: u64) {
        self.metrics.stalls_log.record(waited_ns);
    }

    fn flush_error(&self) -> Option<Error> {
        self.health.flushes.get().map(|trouble| trouble.error)
    }

    fn stall_while(
        &self,
        cause: &'static str,
        stall: &Stall,
        failure: impl Fn() -> Option<Error>,
        is_full: impl Fn() -> bool,
    ) -> Result<()> {
        if !is_full() {
            return Ok(());
        }
        let start = self.environment.clock.now_ns();
        let _waiting = self.signals.waiting();
        let result = self.environment.wait_until(&self.signals.progress, || {
            if let Err(error) = self.health.check() {
                return Some(Err(error));
            }
            if !is_full() {
                return Some(Ok(()));
            }
            failure().map(Err)
        });
        let waited_ns = self.environment.clock.now_ns().saturating_sub(start);
        stall.record(waited_ns);
        trace::event!(INFO, "thalweg::stall", "a writer waited for room", cause = cause, waited_ns = waited_ns);
        result
    }
}
