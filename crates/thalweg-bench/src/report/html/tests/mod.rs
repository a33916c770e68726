//! Pages of reports of many kinds: whole, self-contained, safe and small.

use super::page;
use crate::plan::Pace;
use crate::report::tests::sample;
use crate::report::{Report, Summary};

const FIVE: [&str; 5] = ["thalweg", "rocksdb", "leveldb", "fjall", "lmdb"];

/// Reports of many kinds, by name. With `THALWEG_BENCH_PAGES=directory` the pages are also written there, to be seen.
fn reports() -> Vec<(&'static str, Report)> {
    let closed = |names: &[&'static str]| names.iter().map(|name| (*name, Pace::Closed)).collect::<Vec<_>>();
    let rates = [20e3, 60e3, 100e3, 140e3, 180e3].map(|rate| ("ycsb-a", sample::open(rate)));
    let many = closed(&["fillrandom", "overwrite", "readrandom", "readseq", "load", "ycsb-a", "ycsb-b", "ycsb-c"]);
    let mut open = sample::report(&FIVE[..3], &[&[("load", Pace::Closed)], &rates[..]].concat(), 3, 30);
    sample::sustained(&mut open, "ycsb-a");
    let mut paper = sample::report(&FIVE[..2], &closed(&["load", "ycsb-a", "ycsb-c"]), 3, 600);
    (paper.paper, paper.preset) = (Some(sample::paper()), Some("abc-e1".to_owned()));
    paper.runs[4].noisy = true;
    vec![
        ("five", sample::report(&FIVE, &many, 3, 60)),
        ("open", open),
        ("paper", paper),
        ("single", sample::report(&FIVE[..1], &closed(&["load", "ycsb-a"]), 1, 20)),
        ("short", sample::report(&FIVE[..2], &closed(&["ycsb-a"]), 1, 1)),
        ("long", sample::report(&FIVE, &closed(&["load", "ycsb-a"]), 3, 600)),
        ("nothing", sample::report(&FIVE[..1], &[], 1, 1)),
    ]
}

/// Whether every tag that opens closes, in order. Elements that never close end in `/>` here.
fn balanced(page: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.trim_start_matches("<!DOCTYPE html>");
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').ok_or("a tag without an end")? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if tag.starts_with('/') {
            match open.pop() {
                Some(last) if last == name => {}
                last => return Err(format!("</{name}> closes {last:?}")),
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        if !tag.matches('"').count().is_multiple_of(2) {
            return Err(format!("quotes: <{tag}>"));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} never closes")) }
}

#[test]
fn pages_are_well_formed_self_contained_and_small() {
    for (name, report) in reports() {
        let page = page(&Summary::of(&report));
        if let Some(directory) = std::env::var_os("THALWEG_BENCH_PAGES") {
            std::fs::write(std::path::Path::new(&directory).join(format!("{name}.html")), &page).unwrap();
        }
        balanced(&page).unwrap_or_else(|what| panic!("{name}: {what}"));
        for loaded in ["http://", "https://", "src=", "href=", "@import", "url(", "<script"] {
            assert!(!page.contains(loaded), "{name} has {loaded}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{name} has a figure that is none");
        assert!(page.len() < 1_000_000, "{name}: {} bytes", page.len());
    }
}

#[test]
fn the_checker_sees_what_is_not_well_formed() {
    assert!(balanced("<p><b>x</b></p>").is_ok());
    assert!(balanced("<p><b>x</p></b>").is_err() && balanced("<p>").is_err() && balanced("<p a=\"x>y</p>").is_err());
}

#[test]
fn names_cannot_become_tags() {
    let mut report = sample::report(&["<b>", "a\"b"], &[("<i>&", Pace::Closed)], 1, 3);
    report.command = "</pre><script>".to_owned();
    report.machine.cpu = "<cpu>".to_owned();
    report.paper = Some(sample::paper());
    report.paper.as_mut().unwrap().rows[0].cells[0] = "<td>".to_owned();
    report.engines[0].settings.insert("<k>".to_owned(), "<v>".to_owned());
    let page = page(&Summary::of(&report));
    balanced(&page).unwrap();
    for name in ["<b>", "<i>", "<script>", "<cpu>", "<k>", "<v>", "a\"b"] {
        assert!(!page.contains(name), "{name}");
    }
    assert!(page.contains("&lt;i&gt;&amp;") && page.contains("&lt;cpu&gt;"));
}

#[test]
fn an_engine_has_the_same_colour_in_every_plot() {
    let page = page(&Summary::of(&reports()[0].1));
    let lines: Vec<&str> = page.split("<path ").filter(|path| path.contains("<title>rocksdb:")).collect();
    assert!(lines.len() > 10, "{}", lines.len());
    assert!(lines.iter().all(|path| path.contains("class=\"l s1\"")));
}

#[test]
fn bytes_by_cause_are_medians_of_the_rounds() {
    let mut report = sample::report(&["a"], &[("ycsb-a", Pace::Closed)], 3, 2);
    for (run, bytes) in report.runs.iter_mut().zip([7 << 20, 9 << 20, 1 << 20]) {
        run.drained = None;
        run.usage.counters.written_bytes = [("compaction".to_owned(), bytes)].into();
    }
    let page = page(&Summary::of(&report));
    assert!(page.contains("<th>compaction</th></tr>") && page.contains("<td>7.00 MiB</td></tr>"));
}

#[test]
fn chains_are_drawn_for_the_engines_that_tell_of_them() {
    let pages = reports();
    let page = |wanted: &str| page(&Summary::of(&pages.iter().find(|(name, _)| *name == wanted).unwrap().1));
    let (five, nothing) = (page("five"), page("nothing"));
    let section = five.split("<h2>What a memtable waited for</h2>").nth(1).unwrap();
    let section = section.split("</section>").next().unwrap();
    assert!(section.contains("150 MiB") && section.contains("21.4 MiB"), "the mean of each");
    assert!(section.contains("out of level 1") && !section.contains("out of level 2"));
    assert!(section.contains("100 %") && section.contains("1.80"));
    assert!(!section.contains("leveldb: "), "it tells of none");
    assert!(!nothing.contains("What a memtable waited for"));
}

#[test]
fn a_page_says_what_ran_and_what_its_words_mean() {
    let pages = reports();
    let page = |wanted: &str| page(&Summary::of(&pages.iter().find(|(name, _)| *name == wanted).unwrap().1));
    let single = page("single");
    for words in
        ["load (preparation)", "What ran", "Tuning default", "every 100ms", "disk used", "153 MiB: table 114 MiB"]
    {
        assert!(single.contains(words), "{words}");
    }
    for word in ["W-amp", "foreign", "space", "peak RSS", "CPU/op", "stalls"] {
        assert!(single.contains(&format!("<dt>{word}</dt>")), "{word}");
    }
    assert!(single.contains("Memory over time") && single.contains("Read and written over time"));
    let five = page("five");
    assert!(five.contains("Throughput of loads") && five.contains("nothing completed for 120 ms"));
}
