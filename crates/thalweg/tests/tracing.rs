//! With the feature `tracing` a database emits the events and spans that `docs/tracing.md` lists.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::Database;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Target, and the name of a span or the message of an event, with the names of the fields.
type Heard = BTreeSet<(String, String, Vec<String>)>;

#[derive(Clone, Default)]
struct Ear {
    heard: Arc<Mutex<Heard>>,
    spans: Arc<AtomicU64>,
}

#[derive(Default)]
struct Fields {
    message: String,
    names: Vec<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.names.push(name.to_owned()),
        }
    }
}

impl Ear {
    fn hear(&self, metadata: &Metadata<'_>, fields: Fields, name: &str) {
        if metadata.target().starts_with("thalweg") {
            let heard = (metadata.target().to_owned(), name.to_owned(), fields.names);
            self.heard.lock().unwrap().insert(heard);
        }
    }

    fn has(&self, target: &str, name: &str, fields: &str) -> bool {
        let fields: Vec<String> = fields.split_whitespace().map(String::from).collect();
        self.heard.lock().unwrap().contains(&(target.to_owned(), name.to_owned(), fields))
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.hear(attributes.metadata(), fields, attributes.metadata().name());
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.message.clone();
        self.hear(event.metadata(), fields, &message);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The rows of the table in `docs/tracing.md` that name `kind`: target, name, fields.
fn rows() -> Vec<[String; 3]> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tracing.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `thalweg::"));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    rows.map(cells).map(|cells| [cells[1].clone(), cells[4].clone(), cells[5].replace(',', "")]).collect()
}

#[test]
fn what_the_page_lists_is_emitted() {
    let ear = Ear::default();
    tracing::subscriber::set_global_default(ear.clone()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let builder = || Database::builder(directory.path()).memtable_bytes(64 << 10).level0_trigger(2);
    let database = builder().open().unwrap();
    let keyspace = database.keyspace("k").unwrap();
    for number in 0..1_000_u32 {
        keyspace.insert((number * 7919 % 1_000).to_be_bytes(), vec![7; 1000]).unwrap();
    }
    database.flush().unwrap();
    database.wait_for_compactions().unwrap();
    database.settle().unwrap();
    database.close().unwrap();
    builder().open().unwrap().close().unwrap();
    let rows = rows();
    assert!(rows.len() > 8, "{rows:?}");
    // What only trouble or chance brings about is listed, and not brought about here.
    let rare = ["moved", "a writer waited for room", "no room for tables: replays in memory"];
    let is_rare = |name: &str| rare.contains(&name);
    for [target, name, fields] in rows.iter().filter(|[target, name, _]| target != "thalweg::error" && !is_rare(name)) {
        assert!(
            ear.has(target, name, fields),
            "{target} {name} {fields} was not heard: {:?}",
            ear.heard.lock().unwrap()
        );
    }
    for (target, name, fields) in ear.heard.lock().unwrap().iter() {
        let listed = [target.clone(), name.clone(), fields.join(" ")];
        assert!(rows.contains(&listed), "{listed:?} is not in the page");
    }
}
