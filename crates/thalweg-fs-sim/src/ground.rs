//! [`Ground`]: what the volume of a life is on. Here is that in memory.

use crate::clock::VirtualClock;
use crate::memory::{End, MemoryDisk};
use thalweg_fs::{FormatOptions, OpenOptions, Result, Volume};
use thalweg_sim::Rng;

/// The store and the objects that a volume lives on, and dies with.
pub trait Ground {
    /// Makes a volume.
    ///
    /// # Errors
    /// Those of the stores, as for every call.
    fn format(&mut self, clock: &VirtualClock) -> Result<()>;

    /// Opens the volume.
    ///
    /// # Errors
    /// See [`Ground::format`].
    fn open(&mut self, options: OpenOptions) -> Result<Volume>;

    /// Lets it die at some later call.
    fn arm(&mut self, rng: &mut Rng);

    /// Lets some later call fail with an error of the disk.
    fn fail(&mut self, rng: &mut Rng);

    /// Whether a call has failed, or may have.
    fn has_failed(&self) -> bool;

    /// Whether [`Ground::is_poisoned`] is known.
    fn knows_poison(&self) -> bool;

    /// Whether it is known that rows take no batch any more.
    fn is_poisoned(&self) -> bool;

    /// Whether it has died.
    fn is_dead(&self) -> bool;

    /// Ends a life, whose volume was dropped.
    fn end(&mut self, how: End, rng: &mut Rng);
}

/// The format of every volume here.
pub(crate) fn format_options() -> FormatOptions {
    FormatOptions { mode: 0o777, uuid: [7; 16], ..FormatOptions::default() }
}

impl Ground for MemoryDisk {
    fn format(&mut self, clock: &VirtualClock) -> Result<()> {
        Volume::format_on(&self.rows(), format_options(), clock)
    }

    fn open(&mut self, options: OpenOptions) -> Result<Volume> {
        options.open_on(Box::new(self.rows()), Box::new(self.objects()))
    }

    fn arm(&mut self, rng: &mut Rng) {
        if rng.percent(80) {
            self.die_in(1 + rng.any_size(8));
        }
    }

    fn fail(&mut self, rng: &mut Rng) {
        self.fail_in(1 + rng.any_size(8));
    }

    fn has_failed(&self) -> bool {
        MemoryDisk::has_failed(self)
    }

    fn knows_poison(&self) -> bool {
        true
    }

    fn is_poisoned(&self) -> bool {
        MemoryDisk::is_poisoned(self)
    }

    fn is_dead(&self) -> bool {
        MemoryDisk::is_dead(self)
    }

    fn end(&mut self, how: End, _rng: &mut Rng) {
        MemoryDisk::end(self, how);
    }
}
