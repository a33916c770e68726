//! [`Ground`]: the storage under the volume of a life. [`MemoryDisk`] is one.

use crate::clock::VirtualClock;
use crate::memory::{End, MemoryDisk};
use thalweg_fs::{FormatOptions, OpenOptions, Result, Volume};
use thalweg_sim::Rng;

/// The store and the objects under a volume; both die with it.
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

    /// Makes the storage die at some later call.
    fn arm(&mut self, rng: &mut Rng);

    /// Makes some later call fail with an error of the disk.
    fn fail(&mut self, rng: &mut Rng);

    /// Whether a call has failed, or may have.
    fn has_failed(&self) -> bool;

    /// Whether the result of [`Ground::is_poisoned`] is reliable.
    fn knows_poison(&self) -> bool;

    /// Whether it is known that rows refuse all further batches.
    fn is_poisoned(&self) -> bool;

    /// Whether the storage has died.
    fn is_dead(&self) -> bool;

    /// Ends a life. Its volume is already dropped.
    fn end(&mut self, how: End, rng: &mut Rng);
}

/// The options by which every volume here is formatted.
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
