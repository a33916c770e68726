//! [`Running`]: the statistics that the process with the open database last wrote, for `stat` in another process.

use crate::args::Source;
use crate::numbers::{counted, duration};
use crate::open;
use crate::report::Failure;
use std::fs;
use std::path::Path;
use std::time::Duration;
use thalweg::Statistics;

/// The file that the owner writes. Its modification time gives the age of the statistics.
const STATUS: &str = "STATUS";

/// The process that wrote the statistics, and when.
pub struct Running {
    pub process: u32,
    /// The age of the statistics. `None`: the clocks of file system and machine disagree.
    pub age: Option<Duration>,
    /// Whether a process of that number exists.
    pub is_alive: bool,
    pub keyspaces_left_out: u64,
    pub failures: Vec<String>,
}

impl Running {
    /// Reads the statistics that the owner of the database last wrote. `None`: there are none.
    pub fn read(source: &Source) -> Result<Option<(Running, Statistics)>, Failure> {
        let Some(status) = open::builder(source)?.running_status()? else { return Ok(None) };
        let modified = fs::metadata(source.database.join(STATUS)).and_then(|found| found.modified());
        let running = Running {
            process: status.process,
            age: modified.ok().and_then(|time| time.elapsed().ok()),
            is_alive: Path::new("/proc").join(status.process.to_string()).exists(),
            keyspaces_left_out: status.keyspaces_left_out,
            failures: status.failures,
        };
        Ok(Some((running, status.statistics)))
    }

    /// Describes the process and the age of its statistics.
    pub fn render(&self) -> String {
        let age = self.age.map_or("at a time that is not known".into(), |age| format!("{} ago", duration(age)));
        let mut text = if self.is_alive {
            format!("as process {} said {age}, which has the database open;\n", self.process)
        } else {
            format!("as process {} said {age}: it has ended, or runs in another container;\n", self.process)
        };
        text.push_str("it says so within a second of a write, and nothing while nothing is written\n");
        if self.keyspaces_left_out > 0 {
            text.push_str(&format!("{} are left out\n", counted(self.keyspaces_left_out, "keyspace")));
        }
        for failure in &self.failures {
            text.push_str(&format!("{failure}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_words_and_how_old_is_told() {
        let age = Some(Duration::from_millis(1500));
        let running = Running { process: 42, age, is_alive: true, keyspaces_left_out: 0, failures: Vec::new() };
        assert!(running.render().starts_with("as process 42 said 1.5 s ago, which has the database open;\n"));
        let gone = Running { age: None, is_alive: false, keyspaces_left_out: 2, ..running };
        let text = gone.render();
        assert!(text.contains("not known: it has ended") && text.ends_with("2 keyspaces are left out\n"), "{text}");
    }
}
