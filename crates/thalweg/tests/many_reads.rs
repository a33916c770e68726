//! Many reads of a directory keyspace at once: `multi_get`, [`Reader`] and `get_async` give what `get` gives, through
//! flushes, merges, clears and damage.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use thalweg::{Database, DirectoryKeyspace, Error, ErrorKind, Reader, ReaderFull, Slice, TableReads};

const DIRECTORIES: u64 = 30;

/// A database whose lookups read from files: there is next to no block cache, and nothing is mapped.
fn open(path: &std::path::Path) -> Database {
    Database::builder(path)
        .memtable_bytes(64 << 10)
        .level0_trigger(1)
        .level1_bytes(16 << 10)
        .table_bytes(32 << 10)
        .block_cache_bytes(0)
        .table_reads(TableReads::Copied)
        .open()
        .unwrap()
}

type Model = BTreeMap<(u64, String), Vec<u8>>;

/// Puts, replaces and removes entries, some of them long.
fn write(files: &DirectoryKeyspace, model: &mut Model, random: &mut fastrand::Rng, count: u32) {
    for number in 0..count {
        let directory = if random.bool() { random.u64(..2) } else { random.u64(..DIRECTORIES) };
        let name = format!("entry {}", random.u32(..if directory < 2 { 1000 } else { 40 }));
        if random.u32(..5) == 0 {
            files.remove(directory, &name).unwrap();
            model.remove(&(directory, name));
        } else {
            let bytes = match random.u32(..100) {
                0..90 => random.usize(..300),
                90..99 => random.usize(1900..9000),
                _ => random.usize(60_000..150_000),
            };
            let value: Vec<u8> = format!("{number} ").bytes().cycle().take(bytes).collect();
            files.insert(directory, &name, &value).unwrap();
            model.insert((directory, name), value);
        }
    }
}

/// Entries that are there, and some that are not.
fn wanted(random: &mut fastrand::Rng, count: usize) -> Vec<(u64, String)> {
    let entry = |_| {
        let directory = if random.bool() { random.u64(..2) } else { random.u64(..DIRECTORIES + 3) };
        (directory, format!("entry {}", random.u32(..if directory < 2 { 1100 } else { 45 })))
    };
    (0..count).map(entry).collect()
}

fn expected(model: &Model, entries: &[(u64, String)]) -> Vec<Option<Vec<u8>>> {
    entries.iter().map(|entry| model.get(entry).cloned()).collect()
}

fn owned(values: Vec<Option<Slice>>) -> Vec<Option<Vec<u8>>> {
    values.into_iter().map(|value| value.map(|value| value.to_vec())).collect()
}

/// The values of entries by a reader, in the order of `entries`.
fn by_reader(reader: &mut Reader<usize>, entries: &[(u64, String)]) -> Vec<Option<Vec<u8>>> {
    let mut values = vec![None; entries.len()];
    let mut next = entries.iter().enumerate();
    let mut answered = 0;
    loop {
        while !reader.is_full()
            && let Some((number, (directory, name))) = next.next()
        {
            reader.push(number, *directory, name).unwrap();
        }
        let Some((number, value)) = reader.complete() else { break };
        values[number] = value.unwrap().map(|value| value.to_vec());
        answered += 1;
    }
    assert_eq!(answered, entries.len());
    values
}

/// Wakes the thread that waits in [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Marks a future as woken, and wakes the thread of the executor.
struct Woken {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Polls each of many futures only when it was woken. Gives their outputs in order.
fn join<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let woken = || Arc::new(Woken { is_woken: AtomicBool::new(true), thread: std::thread::current() });
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Some(future), woken())).collect();
    let mut outputs: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    while outputs.iter().any(Option::is_none) {
        for ((future, woken), output) in waiting.iter_mut().zip(&mut outputs) {
            if !woken.is_woken.swap(false, Ordering::SeqCst) {
                continue;
            }
            let waker = Waker::from(Arc::clone(woken));
            if let Some(polled) = future
                && let Poll::Ready(ready) = Pin::new(polled).poll(&mut Context::from_waker(&waker))
            {
                *output = Some(ready);
                *future = None;
            }
        }
        if outputs.iter().any(Option::is_none) && waiting.iter().all(|(_, w)| !w.is_woken.load(Ordering::SeqCst)) {
            std::thread::park_timeout(std::time::Duration::from_secs(1));
        }
    }
    outputs.into_iter().flatten().collect()
}

type Lookup = Pin<Box<dyn Future<Output = Result<Option<Slice>, Error>>>>;

/// Lookups of the first entries of [`filled`] that were polled once; some may be ready.
fn begun(files: &DirectoryKeyspace, count: u64) -> Vec<Lookup> {
    let begin = |number: u64| -> Lookup {
        let mut future = Box::pin(files.get_async(number % 10, number.to_string()));
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => Box::pin(std::future::ready(found)),
            Poll::Pending => future,
        }
    };
    (0..count).map(begin).collect()
}

#[test]
fn every_way_to_read_gives_the_same_through_flushes_merges_and_reopens() {
    let dir = tempfile::tempdir().unwrap();
    let (mut random, mut model) = (fastrand::Rng::with_seed(11), Model::new());
    for life in 0..3 {
        let db = open(dir.path());
        let files = db.directory_keyspace("files").unwrap();
        let mut reader = files.reader(1 + life * 15).unwrap();
        for round in 0..6 {
            write(&files, &mut model, &mut random, 1200);
            let (snapshot, before) = (db.snapshot().directory_keyspace(&files).unwrap(), model.clone());
            write(&files, &mut model, &mut random, 50);
            match round % 3 {
                0 => db.flush().unwrap(),
                1 => db.wait_for_compactions().unwrap(),
                _ => {}
            }
            let entries = wanted(&mut random, 400);
            let now = expected(&model, &entries);
            assert_eq!(owned(files.multi_get(&entries).unwrap()), now);
            assert_eq!(owned(snapshot.multi_get(&entries).unwrap()), expected(&before, &entries));
            assert_eq!(by_reader(&mut reader, &entries), now);
            let futures = entries.iter().map(|(directory, name)| files.get_async(*directory, name)).collect();
            let found = join(futures).into_iter().collect::<Result<Vec<_>, Error>>().unwrap();
            assert_eq!(owned(found), now);
        }
        let statistics = db.statistics();
        if statistics.io_uring {
            assert!(statistics.overlapped_reads > 1000, "{} reads overlapped", statistics.overlapped_reads);
        }
    }
}

/// A database with 2 000 entries in packs and none in memory.
fn filled(dir: &tempfile::TempDir) -> (Database, DirectoryKeyspace) {
    let db = open(dir.path());
    let files = db.directory_keyspace("files").unwrap();
    for number in 0..2000_u64 {
        files.insert(number % 10, number.to_string(), format!("value {number}")).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    (db, files)
}

#[test]
fn equal_pages_are_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let (db, files) = filled(&dir);
    let before = db.statistics().overlapped_reads;
    let entries = vec![(3, "1003"); 100];
    assert!(files.multi_get(&entries).unwrap().iter().all(|value| value.as_deref() == Some(b"value 1003")));
    assert_eq!(db.statistics().overlapped_reads, before, "a single read overlaps with none");
    assert!(files.multi_get::<&str>(&[]).unwrap().is_empty());
    let refused = files.multi_get(&[(1, "good"), (1, "")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_full_reader_gives_the_tag_back_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (_db, files) = filled(&dir);
    assert_eq!(files.reader::<u64>(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut reader = files.reader(3).unwrap();
    assert_eq!((reader.depth(), reader.in_flight(), reader.complete().is_none()), (3, 0, true));
    for number in [11_u64, 12, 13] {
        reader.push(number, number % 10, number.to_string()).unwrap();
    }
    assert_eq!(reader.push(14, 4, "14"), Err(ReaderFull(14)));
    assert!(reader.is_full());
    let (tag, value) = reader.complete().unwrap();
    assert_eq!(value.unwrap().unwrap(), format!("value {tag}").as_bytes());
    // What is wrong with an entry is told with its tag.
    reader.push(15, 5, "").unwrap();
    let mut kinds = Vec::new();
    while let Some((tag, value)) = reader.complete() {
        kinds.push((tag, value.map(|value| value.is_some()).map_err(|error| error.kind())));
    }
    kinds.sort_by_key(|(tag, _)| *tag);
    assert_eq!(kinds.len(), 3);
    assert_eq!(kinds[2], (15, Err(ErrorKind::InvalidInput)));
    assert!(kinds[..2].iter().all(|(_, found)| *found == Ok(true)));
}

#[test]
fn a_reader_and_futures_may_be_dropped_with_reads_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let (db, files) = filled(&dir);
    for round in 0..200_u64 {
        let mut reader = files.reader(64).unwrap();
        for number in 0..64 {
            reader.push(number, number % 10, number.to_string()).unwrap();
        }
        for _ in 0..round % 5 {
            assert!(reader.complete().unwrap().1.unwrap().is_some());
        }
        drop(reader);
        drop(begun(&files, 16));
    }
    assert_eq!(files.get(3, "1003").unwrap().unwrap(), b"value 1003");
    db.close().unwrap();
}

#[test]
fn what_memory_answers_is_ready_at_the_first_poll() {
    let dir = tempfile::tempdir().unwrap();
    let (_db, files) = filled(&dir);
    files.insert(3, "new", "in a memtable").unwrap();
    files.remove(3, "1003").unwrap();
    let poll = |name: &str| {
        let mut future = pin!(files.get_async(3, name));
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    let ready = |polled| match polled {
        Poll::Ready(found) => Result::<Option<Slice>, Error>::unwrap(found),
        Poll::Pending => panic!("it waits for a read"),
    };
    assert_eq!(ready(poll("new")).unwrap(), b"in a memtable");
    assert!(ready(poll("1003")).is_none());
    let mut reader = files.reader(2).unwrap();
    reader.push("tag", 3, "new").unwrap();
    assert_eq!(reader.complete().unwrap().1.unwrap().unwrap(), b"in a memtable");
}

#[test]
fn futures_run_under_threads_that_pass_them_on() {
    let dir = tempfile::tempdir().unwrap();
    let (_db, files) = filled(&dir);
    let found = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (files, found) = (&files, &found);
            scope.spawn(move || {
                for number in 0..100 {
                    let number = thread * 500 + number;
                    let mut future = files.get_async(number % 10, number.to_string());
                    // The first poll is of another waker than the last.
                    let first = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
                    let value = match first {
                        Poll::Ready(value) => value,
                        Poll::Pending => block_on(future),
                    };
                    assert_eq!(value.unwrap().unwrap(), format!("value {number}").as_bytes());
                    found.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(found.into_inner(), 400);
    let many = (0..256_u64).map(|number| files.get_async(number % 10, number.to_string())).collect();
    let values = join(many);
    assert!((0..256).zip(values).all(|(number, value)| value.unwrap().unwrap() == format!("value {number}")));
}

#[test]
fn lookups_end_when_the_database_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (db, files) = filled(&dir);
    let pending = begun(&files, 50);
    let (unpolled, mut reader) = (files.get_async(1, "1"), files.reader(8).unwrap());
    reader.push(1, 1, "1").unwrap();
    db.close().unwrap();
    assert_eq!(block_on(unpolled).unwrap_err().kind(), ErrorKind::Closed);
    for (number, found) in join(pending).into_iter().enumerate() {
        match found {
            Ok(value) => assert_eq!(value.unwrap(), format!("value {number}").as_bytes()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
    }
    // Its read was under way.
    assert_eq!(reader.complete().unwrap().1.unwrap().unwrap(), b"value 1");
    reader.push(2, 2, "2").unwrap();
    assert_eq!(reader.complete().unwrap().1.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(files.multi_get(&[(1, "1")]).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(files.reader::<u64>(8).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn packs_may_be_replaced_and_keyspaces_cleared_or_dropped_while_lookups_are_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let (db, files) = filled(&dir);
    let mut reader = files.reader(64).unwrap();
    let push = |reader: &mut Reader<u64>| {
        for number in 0..30 {
            reader.push(number, number % 10, number.to_string()).unwrap();
        }
        begun(&files, 30)
    };
    let futures = push(&mut reader);
    for number in 0..2000_u64 {
        files.insert(number % 10, number.to_string(), "newer").unwrap();
    }
    db.flush().unwrap();
    db.tidy().unwrap();
    db.settle().unwrap();
    let is_right = |number: u64, value: Slice| value == format!("value {number}") || value == "newer";
    while let Some((number, value)) = reader.complete() {
        assert!(is_right(number, value.unwrap().unwrap()));
    }
    assert!((0..30).zip(join(futures)).all(|(number, value)| is_right(number, value.unwrap().unwrap())));
    let futures = push(&mut reader);
    files.clear().unwrap();
    while let Some((_, value)) = reader.complete() {
        assert!(value.unwrap().is_none_or(|value| value == "newer"));
    }
    assert!(join(futures).into_iter().all(|value| value.unwrap().is_none_or(|value| value == "newer")));
    assert!(files.multi_get(&[(1, "1")]).unwrap()[0].is_none());
    for number in 0..30_u64 {
        files.insert(number % 10, number.to_string(), "after the clear").unwrap();
    }
    db.flush().unwrap();
    let futures = push(&mut reader);
    db.drop_keyspace("files").unwrap();
    let is_gone = |found: Result<Option<Slice>, Error>| match found {
        Ok(value) => assert_eq!(value.unwrap(), "after the clear"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::NoKeyspace),
    };
    while let Some((_, found)) = reader.complete() {
        is_gone(found);
    }
    join(futures).into_iter().for_each(is_gone);
}

#[test]
fn damage_is_an_error_that_names_the_file_and_no_other_entry_suffers() {
    let dir = tempfile::tempdir().unwrap();
    let (db, files) = filled(&dir);
    db.close().unwrap();
    drop(files);
    let tables: Vec<_> =
        std::fs::read_dir(dir.path().join("tables")).unwrap().map(|file| file.unwrap().path()).collect();
    for path in &tables {
        let mut bytes = std::fs::read(path).unwrap();
        // In the first block of the pack.
        bytes[60] ^= 1;
        std::fs::write(path, &bytes).unwrap();
    }
    let db = open(dir.path());
    let files = db.directory_keyspace("files").unwrap();
    let names: Vec<(u64, String)> = (0..2000_u64).map(|number| (number % 10, number.to_string())).collect();
    let is_told = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(tables.iter().any(|path| error.to_string().contains(path.to_str().unwrap())), "{error}");
    };
    is_told(&files.multi_get(&names).unwrap_err());
    let by_get: Vec<bool> = names.iter().map(|(directory, name)| files.get(*directory, name).is_ok()).collect();
    assert!(by_get.contains(&true) && by_get.contains(&false));
    let mut reader = files.reader(32).unwrap();
    let mut by_reader = vec![false; names.len()];
    let mut next = names.iter().enumerate();
    loop {
        while !reader.is_full()
            && let Some((number, (directory, name))) = next.next()
        {
            reader.push(number, *directory, name).unwrap();
        }
        let Some((number, value)) = reader.complete() else { break };
        value.as_ref().err().into_iter().for_each(is_told);
        by_reader[number] = value.is_ok();
    }
    assert_eq!(by_reader, by_get);
    let futures = names.iter().map(|(directory, name)| files.get_async(*directory, name)).collect();
    let by_future = join(futures);
    by_future.iter().filter_map(|value| value.as_ref().err()).for_each(is_told);
    assert_eq!(by_future.iter().map(Result::is_ok).collect::<Vec<_>>(), by_get);
}

/// Compiles only if each type can be moved to another thread.
#[test]
fn readers_and_futures_are_send() {
    fn is_send<T: Send + std::fmt::Debug + 'static>() {}
    is_send::<Reader<String>>();
    is_send::<thalweg::GetAsync>();
    is_send::<ReaderFull<u64>>();
}
