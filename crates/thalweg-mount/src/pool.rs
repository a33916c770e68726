//! [`Pool`]: threads for jobs that wait for the device, so that threads that read the kernel's requests never do.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs in the order of their arrival.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_ended: bool,
}

impl Pool {
    pub(crate) fn new(name: &str, threads: usize) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let mut pool = Pool { shared: Arc::clone(&shared), threads: Vec::new() };
        for number in 0..threads {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("{name}-{number}"));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    /// Runs a job on a thread of the pool.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.shared.queue().jobs.push_back(Box::new(job));
        self.shared.arrived.notify_one();
    }
}

impl Drop for Pool {
    /// Waits for all jobs.
    fn drop(&mut self) {
        self.shared.queue().is_ended = true;
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.queue();
            } else if queue.is_ended {
                return;
            } else {
                queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}
