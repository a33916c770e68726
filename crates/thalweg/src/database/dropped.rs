//! [`DroppedReport`]: the changes that `PointInTime` has dropped. The file `lost/dropped` has them until an open that
//! reports them has returned.
//!
//! An open that drops something hides the damage: its new manifest does not name what is gone. If that open is cut off
//! afterwards, no later open finds anything missing. So the report is durable before the new manifest is in force. Each
//! open tells its caller the report that it finds, and removes the file as its last step.
//!
//! The file is text (`docs/format/manifest.md`). A line has the number of the manifest that its open had read. While
//! that manifest is still in force, the line does not count: nothing was dropped yet, and the damage is still there, or
//! was mended meanwhile.
//!
//! A damaged report is no reason to refuse an open, because no data depends on it. It is told, and keeps its bytes
//! under another name.

use crate::error::{Error, Result};
use crate::format::checksum;
use crate::storage::{OpenMode, Storage};
use std::fmt::Write as _;
use std::path::Path;

const DIRECTORY: &str = "lost";
const NAME: &str = "dropped";
/// A report that is not whole yet.
const NEW_NAME: &str = "dropped.new";
/// A report that could not be read.
const DAMAGED_NAME: &str = "dropped.damaged";

/// The beginning of the first line. After it comes the checksum of all following lines.
const MAGIC: &str = "thalweg dropped 1 ";
/// The magic, eight hexadecimal digits and a newline.
const HEADER_BYTES: usize = MAGIC.len() + 9;
/// A longer file is no report.
const BYTES_MAX: u64 = 1 << 20;

/// The report of the changes that were dropped; see the module.
pub(super) struct DroppedReport<'a> {
    storage: &'a dyn Storage,
    root: &'a Path,
    /// The contents of the file.
    found: Found,
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Lines(Vec<Line>),
    Damaged(String),
}

/// One thing that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// The manifest that was in force before.
    manifest: u64,
    text: String,
}

impl<'a> DroppedReport<'a> {
    /// Reads the report of a database, if there is one. Changes nothing.
    pub(super) fn read(storage: &'a dyn Storage, root: &'a Path) -> Result<Self> {
        let path = root.join(DIRECTORY).join(NAME);
        let found = match storage.file_bytes(&path)? {
            None => Found::Nothing,
            Some(bytes) if bytes > BYTES_MAX => Found::Damaged(format!("{}: {bytes} bytes", path.display())),
            Some(bytes) => {
                let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
                let missing = || Error::io("open", &path, std::io::ErrorKind::Unsupported.into());
                storage.open(&path, OpenMode::Read)?.ok_or_else(missing)?.read_exact_at(0, &mut text)?;
                match decode(&path, &text) {
                    Ok(lines) => Found::Lines(lines),
                    Err(error) => Found::Damaged(error.to_string()),
                }
            }
        };
        Ok(DroppedReport { storage, root, found })
    }

    /// Returns the changes that an open which has read manifest `manifest` and drops `dropped` tells its caller: first
    /// those that earlier opens dropped and did not tell, then `dropped`.
    pub(super) fn told(&self, manifest: u64, dropped: &[String]) -> Vec<String> {
        let mut told: Vec<String> = self.lines(manifest).into_iter().map(|line| line.text).collect();
        let new: Vec<String> = dropped.iter().filter(|text| !told.contains(text)).cloned().collect();
        told.extend(new);
        told
    }

    /// Makes the report durable for an open that has read manifest `manifest`, drops `dropped`, and has not begun
    /// another manifest. Removes lines that would count by mistake once the next manifest is in force.
    pub(super) fn keep(&self, manifest: u64, dropped: &[String]) -> Result<()> {
        let mut lines = self.lines(manifest);
        let is_outdated = matches!(&self.found, Found::Lines(found) if found.len() > lines.len());
        let new: Vec<&String> = dropped.iter().filter(|text| lines.iter().all(|line| line.text != **text)).collect();
        if new.is_empty() && !is_outdated {
            return Ok(());
        }
        lines.extend(new.into_iter().map(|text| Line { manifest, text: text.clone() }));
        let directory = self.root.join(DIRECTORY);
        self.storage.create_directory(&directory)?;
        self.storage.sync_directory(self.root)?;
        let path = directory.join(NEW_NAME);
        if self.storage.file_bytes(&path)?.is_some() {
            self.storage.remove(&path)?;
        }
        let file = self.storage.create(&path)?;
        file.write_all_at(0, encode(&lines).as_bytes())?;
        file.sync()?;
        self.put_damaged_aside()?;
        self.storage.rename(&path, &directory.join(NAME))?;
        self.storage.sync_directory(&directory)
    }

    /// Removes the report, once its open can no longer fail. If it stays, the next open tells it again.
    pub(super) fn remove(&self, told: &[String]) {
        let is_there = self.found != Found::Nothing || !told.is_empty();
        if is_there && self.put_damaged_aside().is_ok() {
            let _ = self.storage.remove(&self.root.join(DIRECTORY).join(NAME));
        }
    }

    /// Gives a damaged report its other name. Does nothing if that was done.
    fn put_damaged_aside(&self) -> Result<()> {
        let directory = self.root.join(DIRECTORY);
        let (from, to) = (directory.join(NAME), directory.join(DAMAGED_NAME));
        let is_damaged = matches!(self.found, Found::Damaged(_));
        // A new report may have the name by now.
        if is_damaged && DroppedReport::read(self.storage, self.root)?.found == self.found {
            self.storage.rename(&from, &to)?;
        }
        Ok(())
    }

    /// The lines that count when `manifest` is in force.
    fn lines(&self, manifest: u64) -> Vec<Line> {
        match &self.found {
            Found::Nothing => Vec::new(),
            Found::Lines(lines) => lines.iter().filter(|line| line.manifest < manifest).cloned().collect(),
            Found::Damaged(error) => {
                let text = format!("an earlier open may have dropped more; its report is damaged: {error}");
                vec![Line { manifest: 0, text }]
            }
        }
    }
}

fn encode(lines: &[Line]) -> String {
    let mut body = String::new();
    for Line { manifest, text } in lines {
        let _ = writeln!(body, "{manifest} {}", text.replace(['\n', '\r'], " "));
    }
    format!("{MAGIC}{:08x}\n{body}", checksum::crc32c(body.as_bytes()))
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Vec<Line>> {
    let corrupt = |at: usize, expected: &str, found: String| Err(Error::corruption(path, at as u64, expected, found));
    let header = bytes.get(..HEADER_BYTES).and_then(|header| std::str::from_utf8(header).ok());
    let Some(checksum) = header.and_then(|header| header.strip_prefix(MAGIC)?.strip_suffix('\n')) else {
        return corrupt(0, "the header \"thalweg dropped 1\" with a checksum", "another one".into());
    };
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let expected = format!("{:08x}", checksum::crc32c(body));
    if checksum != expected {
        return corrupt(0, &format!("checksum {expected}"), checksum.escape_default().to_string());
    }
    let line = |line: &str| {
        let (manifest, text) = line.split_once(' ')?;
        Some(Line { manifest: manifest.parse().ok()?, text: text.to_owned() })
    };
    match std::str::from_utf8(body).ok().and_then(|body| body.lines().map(line).collect()) {
        Some(lines) => Ok(lines),
        None => corrupt(HEADER_BYTES, "lines of a number and a text", "others".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_their_encoding_and_no_other_bytes_are_believed() {
        let line = |manifest, text: &str| Line { manifest, text: text.into() };
        let lines = vec![line(7, "log/1: a\nb"), line(u64::MAX, "ü")];
        let (path, bytes) = (Path::new("dropped"), encode(&lines).into_bytes());
        assert_eq!(decode(path, &bytes).unwrap(), [line(7, "log/1: a b"), line(u64::MAX, "ü")]);
        for at in 0..bytes.len() {
            assert!(decode(path, &bytes[..at]).is_err(), "cut to {at} bytes");
            let mut rotten = bytes.clone();
            rotten[at] ^= 0x21;
            assert!(decode(path, &rotten).is_err(), "damaged at {at}");
        }
        assert!(decode(path, &[bytes, b"8 more\n".to_vec()].concat()).is_err());
    }
}
