//! Calls the volume's background work about once a second. After an unclean end also counts its inodes, on a second
//! thread.

use crate::daemon::Shared;
use crate::daemon_log::say;
use fuser::INodeNo;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_fs::Volume;

const INTERVAL: Duration = Duration::from_secs(1);

/// The threads that do it.
pub(crate) struct Background {
    ended: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let ended = Arc::<(Mutex<bool>, Condvar)>::default();
        let mut background = Background { ended: Arc::clone(&ended), threads: Vec::new() };
        let (counted, seen) = (Arc::clone(&shared.volume), Arc::clone(&ended));
        let builder = std::thread::Builder::new().name("recount".to_owned());
        background.threads.push(builder.spawn(move || recount(&counted, &seen.0))?);
        let builder = std::thread::Builder::new().name("background".to_owned());
        background.threads.push(builder.spawn(move || run(&shared, &ended))?);
        Ok(background)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.1.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Counts the inodes, on a thread of its own: ten million inodes take long, and objects are synced meanwhile.
fn recount(volume: &Volume, ended: &Mutex<bool>) {
    match volume.recount(&|| !*ended.lock().unwrap_or_else(PoisonError::into_inner)) {
        Ok(None | Some(0)) => {}
        Ok(Some(difference)) => say(&format!("counted the inodes after an unclean end: {difference:+}")),
        Err(error) => say(&format!("the inodes were not counted after an unclean end: {error}")),
    }
}

fn run(shared: &Shared, (ended, changed): &(Mutex<bool>, Condvar)) {
    let volume = &shared.volume;
    let mut last_error = String::new();
    loop {
        let (mut pause, done) = (INTERVAL, volume.work().and_then(|work| volume.save_totals().map(|()| work)));
        match done {
            Ok(work) => {
                if work.is_behind {
                    pause = Duration::ZERO;
                }
                last_error.clear();
            }
            // A full or failing disk gives the same error each second: it is logged once.
            Err(error) if error.to_string() != last_error => {
                last_error = error.to_string();
                say(&format!("background work failed and is tried again: {error}"));
            }
            Err(_) => {}
        }
        shared.turns.look(volume);
        // The kernel does not see what programs wrote to mapped files.
        volume.take_changed().into_iter().for_each(|ino| shared.drop_attributes(INodeNo(ino)));
        let guard = ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(guard, pause, |ended| !*ended);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
    }
}
