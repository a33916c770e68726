//! Every byte of every kind of metadata row is flipped, one at a time, as the volume reads it: an operation that reads
//! the row fails with `EIO` and names it; none panics, and none gives a wrong answer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg::Slice;
use thalweg_fs::{
    Batch, Directories, Ino, Limits, Listed, Listing, MetaStore, NewInode, OpenOptions, Promise, READ, ROOT,
    RenameFlags, Result, RowReader, Rows, Space, Volume, WRITE, XattrFlags,
};
use thalweg_fs_sim::{CALLERS, MemoryDisk, VirtualClock};

/// The row that is damaged, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Entry(Ino, Vec<u8>),
    Of(u8, Vec<u8>),
}

#[derive(Default)]
struct Damage {
    row: Option<Row>,
    byte: usize,
    /// Every row that was read, with its length; and whether the damaged one was.
    seen: BTreeSet<(Row, usize)>,
    was_read: bool,
}

struct Damaging<S> {
    inner: S,
    damage: Arc<Mutex<Damage>>,
}

impl<S> Damaging<S> {
    fn read(&self, row: Row, bytes: Slice) -> Slice {
        damaged(&self.damage, row, bytes)
    }
}

fn damaged(damage: &Mutex<Damage>, row: Row, bytes: Slice) -> Slice {
    let mut damage = damage.lock().unwrap_or_else(PoisonError::into_inner);
    let is_hit = damage.row.as_ref() == Some(&row);
    damage.seen.insert((row, bytes.len()));
    if !is_hit || damage.byte >= bytes.len() {
        return bytes;
    }
    damage.was_read = true;
    let mut changed = bytes.to_vec();
    changed[damage.byte] ^= 0x41;
    Slice::from(changed.as_slice())
}

impl<S: RowReader> RowReader for Damaging<S> {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        let row = self.inner.entry(directory, name)?;
        Ok(row.map(|row| self.read(Row::Entry(directory, name.to_vec()), row)))
    }

    fn list(&self, directory: Ino, cursor: u64, wanted: usize) -> Listing<'_> {
        Box::new(self.inner.list(directory, cursor, wanted).map(move |listed| {
            let Listed { name, row, cursor } = listed?;
            Ok(Listed { row: self.read(Row::Entry(directory, name.to_vec()), row), name, cursor })
        }))
    }

    fn directories(&self) -> Directories<'_> {
        self.inner.directories()
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        let row = self.inner.row(space, key)?;
        Ok(row.map(|row| self.read(Row::Of(space as u8, key.to_vec()), row)))
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        Box::new(self.inner.rows(space, from, to).map(move |row| {
            let (key, row) = row?;
            let row = self.read(Row::Of(space as u8, key.to_vec()), row);
            Ok((key, row))
        }))
    }
}

impl<S: MetaStore> MetaStore for Damaging<S> {
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        self.inner.commit(batch)
    }

    fn promise(&self) -> Result<Box<dyn Promise>> {
        self.inner.promise()
    }

    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

/// What an operation gave: the same without damage and with it, or an error.
fn told<T: std::fmt::Debug>(result: Result<T>) -> std::result::Result<String, thalweg_fs::Error> {
    result.map(|value| format!("{value:?}"))
}

/// What a listing gave. An entry that it could not read has its error where somebody asks for it.
fn listed(volume: &Volume, with_attributes: bool) -> std::result::Result<String, thalweg_fs::Error> {
    let entries = volume.list(ROOT, 0, 100, with_attributes)?;
    for entry in entries.iter().filter(|entry| entry.offset > 2) {
        if entry.ino == 0 || with_attributes && entry.attributes.is_none() {
            volume.lookup(&CALLERS[0], ROOT, &entry.name)?;
        }
    }
    told(Ok(entries))
}

type Step = fn(&Volume) -> std::result::Result<String, thalweg_fs::Error>;

/// Each reads rows of some kinds. They are done on a volume that was opened for them.
const STEPS: [Step; 12] = [
    |volume| told(volume.lookup(&CALLERS[0], ROOT, b"file")),
    |volume| told(volume.lookup(&CALLERS[0], ROOT, b"directory")),
    |volume| told(volume.lookup(&CALLERS[0], ROOT, b"second")),
    |volume| told(volume.resolve(&CALLERS[0], b"/link/inner")),
    |volume| listed(volume, true),
    |volume| listed(volume, false),
    |volume| told(volume.unlink(&CALLERS[0], ROOT, b"second")),
    |volume| told(volume.unlink(&CALLERS[0], ROOT, b"object")),
    |volume| told(volume.remove_directory(&CALLERS[0], ROOT, b"empty")),
    |volume| told(volume.rename(&CALLERS[0], (ROOT, b"file"), (ROOT, b"first"), RenameFlags::Exchange)),
    |volume| told(volume.work()),
    |volume| told(volume.close()),
];

/// A disk with every kind of row, and a debt of either kind.
fn made() -> (MemoryDisk, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::default());
    let disk = MemoryDisk::new(1, false, &clock);
    let fill = || -> Result<()> {
        Volume::format_on(&disk.rows(), thalweg_fs::FormatOptions { uuid: [1; 16], ..Default::default() }, &*clock)?;
        let limits = Limits { rows_bytes_max: 100, rewritten_bytes_max: 100, ..Limits::default() };
        let volume = OpenOptions::new().limits(limits).open_on(Box::new(disk.rows()), Box::new(disk.objects()))?;
        let me = &CALLERS[0];
        let directory = volume.create(me, ROOT, b"directory", NewInode::directory(0o755))?.ino;
        volume.create(me, ROOT, b"empty", NewInode::directory(0o755))?;
        volume.create(me, ROOT, b"link", NewInode::symlink(b"directory"))?;
        volume.create(me, directory, b"inner", NewInode::file(0o644))?;
        let file = volume.create(me, ROOT, b"file", NewInode::file(0o644))?.ino;
        volume.write(me, file, 0, b"some bytes")?;
        volume.set_xattr(me, file, (b"user.a", b"b"), XattrFlags::Any)?;
        let first = volume.create(me, ROOT, b"first", NewInode::file(0o644))?.ino;
        volume.link(me, first, ROOT, b"second")?;
        for name in [&b"object"[..], b"gone"] {
            let object = volume.create(me, ROOT, name, NewInode::file(0o644))?.ino;
            volume.write(me, object, 0, &[1; 300])?;
        }
        volume.unlink(me, ROOT, b"gone")?;
        let orphan = volume.create(me, ROOT, b"orphan", NewInode::file(0o644))?.ino;
        volume.open(me, orphan, READ | WRITE)?;
        volume.unlink(me, ROOT, b"orphan")
    };
    fill().unwrap_or_else(|error| panic!("{error}"));
    (disk, clock)
}

/// Opens a fresh volume and does one step. Returns what it gave, and what the damage met.
fn run(step: Step, row: Option<Row>, byte: usize) -> (std::result::Result<String, thalweg_fs::Error>, Damage) {
    let (disk, clock) = made();
    let damage = Arc::new(Mutex::new(Damage { row, byte, ..Damage::default() }));
    let rows = Damaging { inner: disk.rows(), damage: Arc::clone(&damage) };
    let options = OpenOptions::new().clock(Box::new(thalweg_fs_sim::SharedClock(clock)));
    let outcome = match options.open_on(Box::new(rows), Box::new(disk.objects())) {
        Ok(volume) => step(&volume),
        Err(error) => Err(error),
    };
    let met = std::mem::take(&mut *damage.lock().unwrap_or_else(PoisonError::into_inner));
    (outcome, met)
}

#[test]
fn a_damaged_row_is_an_error_that_names_it() {
    let mut kinds = BTreeSet::new();
    let mut errors = 0;
    for (number, step) in STEPS.into_iter().enumerate() {
        let (expected, met) = run(step, None, 0);
        let expected = expected.unwrap_or_else(|error| panic!("step {number}: {error}"));
        let unchecked = [Space::Data as u8, Space::Xattrs as u8];
        for (row, length) in met.seen {
            // Bytes of files and values of extended attributes have the checksums of the engine alone. A row of
            // `objects` is read only for whether it is there.
            if matches!(&row, Row::Of(space, _) if unchecked.contains(space) || *space == Space::Objects as u8) {
                continue;
            }
            kinds.insert(match &row {
                Row::Entry(_, name) => 100 + u8::from(name == b"."),
                Row::Of(space, _) => *space,
            });
            for byte in 0..length {
                let (outcome, met) = run(step, Some(row.clone()), byte);
                match outcome {
                    Err(error) => {
                        errors += 1;
                        assert_eq!(error.errno(), libc::EIO, "step {number}, {row:?}, byte {byte}: {error}");
                        let name = match &row {
                            Row::Entry(_, name) | Row::Of(_, name) => name.escape_ascii().to_string(),
                        };
                        let text = error.to_string();
                        assert!(text.contains(&name), "step {number}: \"{text}\" does not name {row:?}");
                    }
                    Ok(told) => {
                        let only_removed = told == expected;
                        assert!(!met.was_read || only_removed, "step {number}, {row:?}, byte {byte}: {told}");
                        assert!(!met.was_read, "step {number}, {row:?}, byte {byte}: nobody noticed");
                    }
                }
            }
        }
    }
    assert!(errors > 1_000, "only {errors} errors");
    assert!(kinds.len() >= 5, "only rows of the kinds {kinds:?} were read");
}
