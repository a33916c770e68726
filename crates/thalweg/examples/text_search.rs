//! Search for texts that have several words, by ranges that leap ahead of each other.
//!
//! A key is `word/number of the text`, so the texts of a word are one range in order. The search seeks each range to
//! the position of the others, so it reads little of the common words if one is rare.
//!
//! ```text
//! cargo run -p thalweg --example text_search
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use thalweg::{Database, Keyspace, Range};

const TEXTS: u32 = 5_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    run(directory.path())
}

fn run(path: &Path) -> Outcome<()> {
    let db = Database::open(path)?;
    let index = db.keyspace("words")?;
    for text in 0..TEXTS {
        let mut batch = db.batch();
        for word in words(text) {
            batch.insert(&index, key(word, text), "")?;
        }
        batch.commit()?;
    }

    let rivers = with_all(&index, &["river", "bridge", "flood"])?;
    assert_eq!(rivers, (0..TEXTS).filter(|text| text % 7 == 0 && text % 250 == 0).collect::<Vec<_>>());
    assert!(with_all(&index, &["river", "desert"])?.is_empty());
    println!("river, bridge and flood are in the texts {rivers:?}");
    Ok(db.close()?)
}

fn words(text: u32) -> Vec<&'static str> {
    let every = [(1, "river"), (7, "bridge"), (250, "flood")];
    every.into_iter().filter(|(every, _)| text.is_multiple_of(*every)).map(|(_, word)| word).collect()
}

/// Returns the texts that have all of the words, in order.
fn with_all(index: &Keyspace, words: &[&str]) -> Outcome<Vec<u32>> {
    let mut lists: Vec<Texts> = words.iter().map(|word| Texts::new(index, word)).collect();
    let (mut found, mut candidate) = (Vec::new(), 0);
    loop {
        let mut agreed = true;
        for list in &mut lists {
            let Some(text) = list.at_or_behind(candidate)? else { return Ok(found) };
            agreed &= text == candidate;
            candidate = text;
        }
        if agreed {
            found.push(candidate);
            candidate += 1;
        }
    }
}

/// The texts of one word.
struct Texts {
    word: String,
    range: Range,
    current: Option<u32>,
}

impl Texts {
    fn new(index: &Keyspace, word: &str) -> Self {
        Texts { word: word.to_owned(), range: index.prefix(format!("{word}/")), current: None }
    }

    /// Returns the first text from `text` on. `text` never goes down.
    fn at_or_behind(&mut self, text: u32) -> Outcome<Option<u32>> {
        if self.current.is_none_or(|current| current < text) {
            self.range.seek(key(&self.word, text));
            let entry = self.range.next().transpose()?;
            self.current = entry.map(|(key, _)| number_in(&key)).transpose()?;
        }
        Ok(self.current)
    }
}

fn key(word: &str, text: u32) -> Vec<u8> {
    [word.as_bytes(), b"/", &text.to_be_bytes()].concat()
}

fn number_in(key: &[u8]) -> Outcome<u32> {
    let bytes = key.last_chunk::<4>().ok_or("a key ends in the number of a text")?;
    Ok(u32::from_be_bytes(*bytes))
}
