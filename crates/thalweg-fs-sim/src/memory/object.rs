//! [`Object`]: the bytes of an object, and those of them that are durable.

use thalweg_fs::Time;
use thalweg_sim::Rng;

/// The bytes that a power cut keeps or loses together.
const PAGE_BYTES: usize = 512;

/// An object.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    pub live: Vec<u8>,
    /// The durable bytes; `None` while its name is not durable.
    pub durable: Option<Vec<u8>>,
    /// Whether an earlier process created the object. Then a sync of the object does not make its name durable.
    pub is_inherited: bool,
    /// Whether a sync has failed. Later syncs in this life succeed but make nothing durable, unless the object is
    /// emptied.
    pub is_lost: bool,
    /// Whether a sync of all objects has met an error of this object that is not yet reported.
    pub has_error: bool,
    pub mtime: Time,
    pub ctime: Time,
}

impl Object {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Object { live: bytes.clone(), durable: Some(bytes), ..Object::default() }
    }

    /// Makes the object durable, if its name is durable or can be made so.
    pub(super) fn sync(&mut self) {
        if !self.is_lost && (!self.is_inherited || self.durable.is_some()) {
            self.durable = Some(self.live.clone());
        }
    }

    /// Returns the bytes that a power cut leaves of the object.
    pub(super) fn after_power_cut(self, rng: &mut Rng) -> Option<Vec<u8>> {
        if self.durable.is_none() && rng.one_in(2) {
            return None;
        }
        let old = self.durable.unwrap_or_default();
        let (short, long) = (old.len().min(self.live.len()), old.len().max(self.live.len()));
        let size = match rng.below(4) {
            0 => old.len(),
            1 => short + rng.index(long - short + 1),
            _ => self.live.len(),
        };
        let percent = *rng.choose(&[10, 50, 90]);
        let mut bytes = old;
        bytes.resize(size, 0);
        for (index, page) in bytes.chunks_mut(PAGE_BYTES).enumerate() {
            let from = index * PAGE_BYTES;
            let live = self.live.get(from..).unwrap_or_default();
            let common = live.len().min(page.len());
            if rng.percent(percent) {
                page[..common].copy_from_slice(&live[..common]);
            }
        }
        Some(bytes)
    }
}
