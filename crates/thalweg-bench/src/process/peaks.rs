//! [`Peaks`]: the greatest values of an engine's gauges over a step, read ten times a second.
//!
//! A rise and fall between two readings is missed. Lock: the values, held for a merge.

use crate::engine::Engine;
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The interval between two readings, which is that of the driver's progress reports.
const TICK: Duration = Duration::from_millis(100);

/// The greatest values so far.
#[derive(Default)]
pub struct Peaks(Mutex<BTreeMap<String, u64>>);

impl Peaks {
    /// Reads the engine's gauges.
    pub fn look(&self, engine: &dyn Engine) {
        let gauges = engine.gauges();
        let mut greatest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in gauges {
            let most = greatest.entry(name).or_default();
            *most = value.max(*most);
        }
    }

    /// Does `work`, while another thread reads the gauges; also reads them before and after.
    pub fn during<T>(&self, engine: &dyn Engine, work: impl FnOnce() -> T) -> T {
        self.look(engine);
        if self.so_far().is_empty() {
            // An engine without gauges needs no thread.
            return work();
        }
        let result = std::thread::scope(|scope| {
            // The sender is dropped when the work has ended or panicked; nothing is sent.
            let (_working, ended) = channel::<()>();
            scope.spawn(move || {
                while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    self.look(engine);
                }
            });
            work()
        });
        self.look(engine);
        result
    }

    /// The peaks so far.
    pub fn so_far(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::model::Model;

    #[test]
    fn the_greatest_value_counts_whenever_it_was_there() {
        let (model, peaks) = (Model::default(), Peaks::default());
        model.set_gauge(3);
        peaks.look(&model);
        model.set_gauge(2);
        peaks.look(&model);
        assert_eq!(peaks.so_far(), [("gauge".to_owned(), 3)].into());
        peaks.during(&model, || {
            model.set_gauge(9);
            std::thread::sleep(5 * TICK);
            model.set_gauge(1);
        });
        assert_eq!(peaks.so_far(), [("gauge".to_owned(), 9)].into());
    }

    #[test]
    fn an_engine_without_gauges_has_no_peaks() {
        let peaks = Peaks::default();
        assert_eq!(peaks.during(&crate::engine::Null, || 7), 7);
        assert!(peaks.so_far().is_empty());
    }
}
