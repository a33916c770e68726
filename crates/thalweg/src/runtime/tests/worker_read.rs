//! Tests of [`WorkerRead`].

use super::*;
use crate::clock::SystemClock;
use crate::metrics::Metrics;
use crate::runtime::threads::ThreadScheduler;
use crate::storage::{ALIGNMENT, BufferPool, LinuxStorage, Storage};
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::task::Wake;
use std::time::Duration;

struct Send(Mutex<Sender<()>>);

impl Wake for Send {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().send(());
    }
}

fn read() -> (ForegroundRead, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!(
        "thalweg-worker-read-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let file = LinuxStorage.create(&path).unwrap();
    file.write_all_at(0, &[7; ALIGNMENT]).unwrap();
    let mut buffer = BufferPool::new(ALIGNMENT).take();
    buffer.set_len(ALIGNMENT);
    (ForegroundRead { file, offset: 0, buffer }, path)
}

#[test]
fn a_worker_makes_the_read_and_wakes_the_last_waker() {
    let scheduler = ThreadScheduler::new(Arc::new(SystemClock::default()), 1).unwrap();
    let gate = Gate::new(8, Arc::<Metrics>::default());
    let (to_make, path) = read();
    let mut made = pin!(read_on_worker(&scheduler, &gate, to_make));
    let _ = made.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let (sender, woken) = channel();
    let waker = Waker::from(Arc::new(Send(Mutex::new(sender))));
    loop {
        if let Poll::Ready(read) = made.as_mut().poll(&mut Context::from_waker(&waker)) {
            assert_eq!(read.unwrap().unwrap().filled(), [7; ALIGNMENT]);
            break;
        }
        woken.recv_timeout(Duration::from_secs(20)).unwrap();
    }
    let _ = std::fs::remove_file(path);
}

#[test]
fn a_read_that_no_worker_makes_ends_without_an_outcome() {
    let scheduler = ThreadScheduler::new(Arc::new(SystemClock::default()), 1).unwrap();
    scheduler.shutdown();
    let (to_make, path) = read();
    let mut made = pin!(read_on_worker(&scheduler, &Gate::new(8, Arc::<Metrics>::default()), to_make));
    let Poll::Ready(None) = made.as_mut().poll(&mut Context::from_waker(Waker::noop())) else { panic!("it waits") };
    let _ = std::fs::remove_file(path);
}
