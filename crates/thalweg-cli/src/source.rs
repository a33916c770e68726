//! [`LineSource`]: lines of a file or of standard input, in bounded memory, until a signal asks to stop.
//!
//! A separate thread reads at most [`CHUNKS_AHEAD`] chunks of [`CHUNK_BYTES`] ahead. So the command sees a signal at
//! once, even while a read waits for a silent producer. The thread then ends with the process.

use crate::report::Failure;
use crate::signals::SIGNAL_CHECK_INTERVAL;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;

const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS_AHEAD: usize = 4;

/// Opens the input and returns its length if it is a regular file. `-` is standard input.
pub fn open_input(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let name = path.display().to_string();
    let failed = |error: io::Error| Failure::io("read", &name, &error);
    let found = fs::metadata(path).map_err(failed)?;
    if found.is_dir() {
        return Err(Failure::Usage(format!("{name} is a directory; name a file of lines, or - for standard input")));
    }
    let file = fs::File::open(path).map_err(failed)?;
    Ok((Box::new(file), found.is_file().then_some(found.len())))
}

/// The lines of an input.
pub struct LineSource {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    position: usize,
    ended: bool,
    /// The number of the signal that asked to stop; 0 before.
    stop: Arc<AtomicUsize>,
    line_bytes_max: usize,
    bytes_read: u64,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes that editors put around lines: a byte order mark before the first one, carriage returns at their ends.
pub struct LineEnds {
    verbatim: bool,
    reported_returns: bool,
}

impl LineEnds {
    /// `verbatim` keeps these bytes.
    pub fn new(verbatim: bool) -> LineEnds {
        LineEnds { verbatim, reported_returns: false }
    }

    /// Returns line `number` without these bytes; removes carriage returns only if `has_returns`. Reports the first of
    /// each kind with `say`.
    pub fn trimmed<'l>(&mut self, number: u64, line: &'l [u8], has_returns: bool, say: impl Fn(&str)) -> &'l [u8] {
        if self.verbatim {
            return line;
        }
        let mut rest = line;
        if number == 1
            && let Some(behind) = rest.strip_prefix(BYTE_ORDER_MARK)
        {
            say("the byte order mark before the first line is dropped; --verbatim keeps it");
            rest = behind;
        }
        if has_returns && let Some(before) = rest.strip_suffix(b"\r") {
            if !std::mem::replace(&mut self.reported_returns, true) {
                say(&format!(
                    "line {number} ends in a carriage return: such ends of lines are dropped; --verbatim keeps them"
                ));
            }
            rest = before;
        }
        rest
    }
}

/// The result of [`LineSource::next_line`].
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A line, without its newline.
    Line,
    /// A line that is longer than any record. The rest of the line is skipped.
    TooLong,
    /// The end of the input.
    End,
    /// A signal asked to stop.
    Stopped,
}

impl LineSource {
    pub fn new(mut input: impl Read + Send + 'static, line_bytes_max: usize, stop: Arc<AtomicUsize>) -> Self {
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        thread::spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let done = match input.read(&mut chunk) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                    Ok(count) => {
                        chunk.truncate(count);
                        Ok(chunk)
                    }
                };
                let last = done.as_ref().map_or(true, Vec::is_empty);
                if sender.send(done).is_err() || last {
                    return;
                }
            }
        });
        LineSource { chunks, chunk: Vec::new(), position: 0, ended: false, stop, line_bytes_max, bytes_read: 0 }
    }

    /// Returns the bytes of all lines so far, newlines included.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Reads the next line into `line`. A last line without a newline counts unless it is empty.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> io::Result<Next> {
        line.clear();
        let mut too_long = false;
        loop {
            if self.stop.load(Ordering::Relaxed) != 0 {
                return Ok(Next::Stopped);
            }
            let rest = self.chunk.get(self.position..).unwrap_or_default();
            if rest.is_empty() {
                if self.ended {
                    return Ok(if too_long {
                        Next::TooLong
                    } else if line.is_empty() {
                        Next::End
                    } else {
                        Next::Line
                    });
                }
                if !self.next_chunk()? {
                    return Ok(Next::Stopped);
                }
                continue;
            }
            let newline = rest.iter().position(|&byte| byte == b'\n');
            let part = newline.and_then(|end| rest.get(..end)).unwrap_or(rest);
            if line.len() + part.len() > self.line_bytes_max {
                too_long = true;
                line.clear();
            }
            if !too_long {
                line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(newline.is_some());
            self.position += taken;
            self.bytes_read += taken as u64;
            if newline.is_some() {
                return Ok(if too_long { Next::TooLong } else { Next::Line });
            }
        }
    }

    /// Waits for a chunk. Returns `false` if a signal comes first.
    fn next_chunk(&mut self) -> io::Result<bool> {
        loop {
            match self.chunks.recv_timeout(SIGNAL_CHECK_INTERVAL) {
                Ok(chunk) => {
                    self.chunk = chunk?;
                    self.position = 0;
                    self.ended = self.chunk.is_empty();
                    return Ok(true);
                }
                Err(RecvTimeoutError::Timeout) if self.stop.load(Ordering::Relaxed) != 0 => return Ok(false),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.ended = true;
                    return Ok(true);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time.
    struct Drops(Vec<u8>, usize);

    impl Read for Drops {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    fn lines(input: &[u8], drop: usize, line_bytes_max: usize) -> Vec<Option<String>> {
        let mut source = LineSource::new(Drops(input.to_vec(), drop), line_bytes_max, Arc::default());
        let mut line = Vec::new();
        let mut found = Vec::new();
        loop {
            match source.next_line(&mut line).unwrap() {
                Next::Line => found.push(Some(String::from_utf8(line.clone()).unwrap())),
                Next::TooLong => found.push(None),
                Next::End => break,
                Next::Stopped => panic!("nobody asked to stop"),
            }
        }
        assert_eq!(source.bytes_read(), input.len() as u64);
        found
    }

    #[test]
    fn lines_come_whole_however_the_bytes_arrive() {
        for drop in 1..8 {
            let found = lines(b"one\n\nthree\nlast", drop, 100);
            assert_eq!(found, ["one", "", "three", "last"].map(|line| Some(line.to_owned())));
        }
    }

    #[test]
    fn a_newline_at_the_end_makes_no_empty_line() {
        assert_eq!(lines(b"a\n", 1, 100), [Some("a".to_owned())]);
        assert_eq!(lines(b"", 1, 100), []);
    }

    #[test]
    fn a_line_too_long_is_skipped_and_the_next_is_whole() {
        for drop in 1..8 {
            assert_eq!(lines(b"abcdef\nok\n", drop, 3), [None, Some("ok".to_owned())]);
            assert_eq!(lines(b"abc\nabcd", drop, 3), [Some("abc".to_owned()), None]);
        }
    }

    #[test]
    fn a_signal_is_seen_while_a_read_waits() {
        struct Never;
        impl Read for Never {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                loop {
                    thread::park();
                }
            }
        }
        let stop = Arc::new(AtomicUsize::new(0));
        let mut source = LineSource::new(Never, 100, Arc::clone(&stop));
        let signal = thread::spawn(move || {
            thread::sleep(std::time::Duration::from_millis(20));
            stop.store(2, Ordering::Relaxed);
        });
        assert_eq!(source.next_line(&mut Vec::new()).unwrap(), Next::Stopped);
        signal.join().unwrap();
    }

    #[test]
    fn an_error_of_the_input_is_passed_on() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::ConnectionReset))
            }
        }
        let mut source = LineSource::new(Broken, 100, Arc::default());
        assert_eq!(source.next_line(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
