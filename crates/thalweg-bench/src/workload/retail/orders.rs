//! [`Orders`]: which orders there are, and the number of the next one.
//!
//! A number is taken when an order is prepared and acknowledged when it is written, by many clients at once and in any
//! order. Others may read what is acknowledged without a gap. A client that ends before it has written what it prepared
//! gives the number back: a gap that nobody fills would hide all later orders.
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
    /// Goes on after the acknowledged orders. What an earlier step wrote beyond a gap is written again, the same keys.
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

    /// An order was written.
    pub fn acknowledge(&self, order: u64) {
        self.acknowledgements.tell(&self.dataset, order);
    }

    /// So many orders are written, from 0 on.
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
