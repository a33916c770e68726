//! [`OrderedStore`]: the rows of a volume in one ordered key space.

use super::key::{HASH_KEY, cursor_key, directory_key, entry_key, key_of_row, parse_entry, row_key};
use super::{Change, Cursor, OrderedEngine, OrderedReader};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg::Slice;
use thalweg_fs::{
    Batch, Directories, Error, Ino, Listed, Listing, MetaStore, Operation, Promise, Result, RowReader, Rows, Space,
    WhenDurable,
};

/// A volume's rows in an engine with one ordered key space.
pub struct OrderedStore<E> {
    engine: Arc<E>,
    hash_key: [u8; 16],
    is_closed: AtomicBool,
}

impl<E: OrderedEngine> OrderedStore<E> {
    /// The rows in this engine, which may be empty.
    ///
    /// # Errors
    /// `EIO`.
    pub fn new(engine: E) -> Result<OrderedStore<E>> {
        let mut hash_key = [0; 16];
        match engine.get(HASH_KEY).map_err(Error::of_store)? {
            Some(row) => {
                let damaged = |_| Error::damaged("hash key", "it has not 16 bytes");
                hash_key = <[u8; 16]>::try_from(&*row).map_err(damaged)?;
            }
            None => {
                std::fs::File::open("/dev/urandom")?.read_exact(&mut hash_key)?;
                let change = Change { key: HASH_KEY.to_vec(), row: Some(&hash_key) };
                engine.write(&[change]).map_err(Error::of_store)?;
            }
        }
        Ok(OrderedStore { engine: Arc::new(engine), hash_key, is_closed: AtomicBool::new(false) })
    }

    /// The engine.
    pub fn engine(&self) -> Arc<E> {
        Arc::clone(&self.engine)
    }

    fn reads(&self) -> Result<Reads<'_>> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::of_store("the store is closed"));
        }
        Ok(Reads { reader: &*self.engine, hash_key: self.hash_key })
    }
}

/// Rows as a reader of an engine has them.
struct Reads<'a> {
    reader: &'a dyn OrderedReader,
    hash_key: [u8; 16],
}

impl<'a> Reads<'a> {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        self.reader.get(&entry_key(&self.hash_key, directory, name)).map_err(Error::of_store)
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        self.reader.get(&row_key(space, key)).map_err(Error::of_store)
    }

    fn list(&self, directory: Ino, cursor: u64) -> Listing<'a> {
        let from = cursor_key(directory, if cursor == 0 { 0 } else { cursor.saturating_add(1) });
        let mut rows = Walk::new(self.reader.cursor(&from));
        Box::new(std::iter::from_fn(move || {
            rows.next(|key, row| {
                let (_, cursor, name) = parse_entry(key).filter(|(of, ..)| *of == directory)?;
                Some(Listed { name: name.into(), row: row.into(), cursor })
            })
        }))
    }

    fn directories(&self) -> Directories<'a> {
        let (reader, mut from) = (self.reader, Some(0));
        Box::new(std::iter::from_fn(move || {
            let first = Walk::new(reader.cursor(&directory_key(from?))).next(|key, _| Some(parse_entry(key)?.0));
            from = match &first {
                Some(Ok(directory)) => directory.checked_add(1),
                _ => None,
            };
            first
        }))
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'a> {
        let to = row_key(space, to);
        let mut rows = Walk::new(self.reader.cursor(&row_key(space, from)));
        Box::new(std::iter::from_fn(move || {
            rows.next(|key, row| (key < to.as_slice()).then(|| (Slice::from(key_of_row(key)), Slice::from(row))))
        }))
    }
}

/// A walk over rows. It ends with the first row that is not wanted, or with an error.
struct Walk<'a> {
    cursor: Option<Box<dyn Cursor + 'a>>,
}

impl<'a> Walk<'a> {
    fn new(cursor: Box<dyn Cursor + 'a>) -> Walk<'a> {
        Walk { cursor: Some(cursor) }
    }

    fn next<T>(&mut self, take: impl FnOnce(&[u8], &[u8]) -> Option<T>) -> Option<Result<T>> {
        let cursor = self.cursor.as_mut()?;
        let taken = match cursor.row() {
            Ok(row) => row.and_then(|(key, row)| take(key, row)).map(Ok),
            Err(error) => Some(Err(Error::of_store(error))),
        };
        match taken {
            Some(Ok(_)) => cursor.advance(),
            _ => self.cursor = None,
        }
        taken
    }
}

fn failed<'a, T: 'a>(error: Error) -> Box<dyn Iterator<Item = Result<T>> + 'a> {
    Box::new(std::iter::once(Err(error)))
}

impl<E: OrderedEngine> RowReader for OrderedStore<E> {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        self.reads()?.entry(directory, name)
    }

    fn list(&self, directory: Ino, cursor: u64, _wanted: usize) -> Listing<'_> {
        self.reads().map_or_else(failed, |reads| reads.list(directory, cursor))
    }

    fn directories(&self) -> Directories<'_> {
        self.reads().map_or_else(failed, |reads| reads.directories())
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        self.reads()?.row(space, key)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        self.reads().map_or_else(failed, |reads| reads.rows(space, from, to))
    }
}

/// A volume's rows as of one moment.
struct Past<'a> {
    reader: Box<dyn OrderedReader + 'a>,
    hash_key: [u8; 16],
}

impl Past<'_> {
    fn reads(&self) -> Reads<'_> {
        Reads { reader: &*self.reader, hash_key: self.hash_key }
    }
}

impl RowReader for Past<'_> {
    fn entry(&self, directory: Ino, name: &[u8]) -> Result<Option<Slice>> {
        self.reads().entry(directory, name)
    }

    fn list(&self, directory: Ino, cursor: u64, _wanted: usize) -> Listing<'_> {
        self.reads().list(directory, cursor)
    }

    fn directories(&self) -> Directories<'_> {
        self.reads().directories()
    }

    fn row(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        self.reads().row(space, key)
    }

    fn rows(&self, space: Space, from: &[u8], to: &[u8]) -> Rows<'_> {
        self.reads().rows(space, from, to)
    }
}

impl<E: OrderedEngine> MetaStore for OrderedStore<E> {
    fn snapshot(&self) -> Result<Box<dyn RowReader + '_>> {
        self.reads()?;
        Ok(Box::new(Past { reader: self.engine.snapshot(), hash_key: self.hash_key }))
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        self.reads()?;
        let changes = batch.operations().iter().map(|operation| match operation {
            Operation::Entry { directory, name, row } => {
                Change { key: entry_key(&self.hash_key, *directory, name), row: row.as_deref() }
            }
            Operation::Row { space, key, row } => Change { key: row_key(*space, key), row: row.as_deref() },
        });
        let changes: Vec<Change<'_>> = changes.collect();
        self.engine.write(&changes).map_err(Error::of_store)
    }

    fn promise(&self) -> Result<Box<dyn Promise>> {
        self.reads()?;
        Ok(Box::new(Synced { engine: self.engine(), is_durable: Arc::default() }))
    }

    fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        self.engine.sync().map_err(Error::of_store)
    }
}

/// What was committed before the promise was made. A sync of the log keeps it.
struct Synced<E> {
    engine: Arc<E>,
    is_durable: Arc<AtomicBool>,
}

impl<E> Clone for Synced<E> {
    fn clone(&self) -> Self {
        Synced { engine: Arc::clone(&self.engine), is_durable: Arc::clone(&self.is_durable) }
    }
}

impl<E: OrderedEngine> Promise for Synced<E> {
    fn is_durable(&self) -> bool {
        self.is_durable.load(Ordering::Acquire)
    }

    fn wait(&self) -> Result<()> {
        if !self.is_durable() {
            self.engine.sync().map_err(Error::of_store)?;
            self.is_durable.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn when_durable(&self, done: WhenDurable) {
        if self.is_durable() {
            return done(Ok(()));
        }
        let promise = self.clone();
        std::thread::spawn(move || done(promise.wait()));
    }
}
