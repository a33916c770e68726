//! [`exercise`]: runs a workload on an engine without timing it, to check what it does.

use crate::engine::Engine;
use crate::workload::{Class, Outcome, Workload};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The operations of the foreground clients, by class: calls of `execute`, and their outcomes added up.
pub(in crate::workload) type Done = BTreeMap<Class, (u64, Outcome)>;

/// Runs `threads` clients until there is nothing to do or `operations` calls of `execute` are made in all.
pub(in crate::workload) fn exercise(
    workload: &dyn Workload,
    engine: &dyn Engine,
    threads: usize,
    operations: u64,
) -> Done {
    let done = Mutex::new(Done::new());
    let begun = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (done, begun) = (&done, &begun);
            scope.spawn(move || {
                let mut client = workload.client(thread, threads, 1);
                let mut session = engine.session().unwrap();
                while begun.fetch_add(1, Ordering::SeqCst) < operations {
                    let Some(class) = client.prepare() else { break };
                    let outcome = client.execute(&mut *session).unwrap();
                    let mut done = done.lock().unwrap();
                    let (calls, sum) = done.entry(class).or_default();
                    *calls += 1;
                    sum.operations += outcome.operations;
                    sum.missing += outcome.missing;
                    sum.written_bytes += outcome.written_bytes;
                    sum.read_bytes += outcome.read_bytes;
                }
            });
        }
    });
    done.into_inner().unwrap()
}
