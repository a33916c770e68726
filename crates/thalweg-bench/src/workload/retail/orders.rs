//! [`Orders`]: the written orders, and the number of the next one.
//!
//! A client takes a number when it prepares an order, and acknowledges it when the order is written; many clients do so
//! at once and in any order. Clients may read the acknowledged orders below the first gap. A client that ends with a
//! prepared, unwritten order gives its number back: a gap that no client fills would hide all later orders.
//!
//! One lock, on the numbers given back, held for a few instructions.

use crate::workload::Dataset;
use crate::workload::acknowledgements::Acknowledgements;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The orders of a dataset.
pub(super) struct Orders {
    dataset: Arc<Dataset>,
    acknowledgements: Acknowledgements,
    /// Numbers that were given back.
    returned: Mutex<Vec<u64>>,
}

impl Orders {
    /// Continues after the acknowledged orders. Orders of an earlier step beyond a gap are written again, with the same
    /// keys.
    pub fn new(dataset: &Arc<Dataset>) -> Orders {
        dataset.next.store(dataset.acknowledged.load(Ordering::SeqCst), Ordering::SeqCst);
        Orders { dataset: Arc::clone(dataset), acknowledgements: Acknowledgements::new(), returned: Mutex::default() }
    }

    /// Takes the number of a new order, if there is one below `limit`.
    pub fn take(&self, limit: u64) -> Option<u64> {
        let returned = self.returned().pop();
        returned.or_else(|| self.dataset.claim(1, limit))
    }

    /// Gives back the number of an order that was not written.
    pub fn give_back(&self, order: u64) {
        self.returned().push(order);
    }

    /// Records that an order was written.
    pub fn acknowledge(&self, order: u64) {
        self.acknowledgements.tell(&self.dataset, order);
    }

    /// The number of orders that are written without a gap, from 0 on.
    pub fn written(&self) -> u64 {
        self.dataset.acknowledged.load(Ordering::SeqCst)
    }

    fn returned(&self) -> MutexGuard<'_, Vec<u64>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::DatasetKind;

    fn orders(written: u64) -> Orders {
        let dataset =
            Dataset { kind: DatasetKind::Retail, records: 0, next: (written + 5).into(), acknowledged: written.into() };
        Orders::new(&Arc::new(dataset))
    }

    #[test]
    fn an_order_beyond_a_gap_waits_for_it() {
        let orders = orders(10);
        assert_eq!([orders.take(99), orders.take(99), orders.take(99)], [Some(10), Some(11), Some(12)]);
        orders.acknowledge(12);
        orders.acknowledge(11);
        assert_eq!(orders.written(), 10);
        orders.acknowledge(10);
        assert_eq!(orders.written(), 13);
    }

    #[test]
    fn a_number_that_was_given_back_is_taken_first() {
        let orders = orders(0);
        assert_eq!([orders.take(2), orders.take(2), orders.take(2)], [Some(0), Some(1), None]);
        orders.give_back(0);
        assert_eq!([orders.take(2), orders.take(2)], [Some(0), None]);
    }
}
