//! `thalweg bench` from outside, with sizes that take no time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;

use command::{Run, Scratch, command, thalweg};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// `bench` with these words, in a directory that is empty.
fn bench(directory: &Path, words: &[&str]) -> Run {
    let mut line: Vec<&dyn AsRef<OsStr>> = vec![&"bench", &"--directory", &directory, &"--no-warm", &"--quiet"];
    line.extend(words.iter().map(|word| word as &dyn AsRef<OsStr>));
    thalweg(&line)
}

fn empty(scratch: &Scratch) -> std::path::PathBuf {
    let directory = scratch.path("databases");
    std::fs::create_dir(&directory).unwrap();
    directory
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const SMALL: [&str; 5] = ["ycsb-a", "--records", "2000", "--operations", "3000"];

#[test]
fn a_run_leaves_a_table_a_report_a_page_and_no_database() {
    let scratch = Scratch::new();
    let directory = empty(&scratch);
    let (report, page) = (scratch.path("run.json"), scratch.path("run.html"));
    let files = ["--rounds", "2", "--json", report.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let run = bench(&directory, &[&SMALL[..], &files].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.text().contains("ycsb-a"), "{run:?}");
    assert_eq!(entries(&directory), 0, "a database was left");
    let report = json(&report);
    assert_eq!(report["schema"], 1);
    assert_eq!(report["parameters"]["rounds"], 2);
    assert!(report["command"].as_str().unwrap().starts_with("thalweg bench --directory "));
    let runs = report["runs"].as_array().unwrap();
    let asked: Vec<&Value> = runs.iter().filter(|run| run["workload"] == "ycsb-a").collect();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|run| run["operations"] == 3000 && run["engine"] == "thalweg"), "{asked:?}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("ycsb-a"));
}

#[test]
fn a_stored_report_is_shown_and_compared() {
    let scratch = Scratch::new();
    let directory = empty(&scratch);
    let (before, after) = (scratch.path("before.json"), scratch.path("after.json"));
    for path in [&before, &after] {
        let run = bench(&directory, &[&SMALL[..], &["--engines", "null", "--json", path.to_str().unwrap()]].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
    }
    assert!(thalweg(&[&"bench", &"show", &before]).ok().contains("ycsb-a"));
    assert!(thalweg(&[&"bench", &"compare", &before, &after]).ok().contains("b/a"));
    thalweg(&[&"bench", &"show", &before, &"--baseline", &"thalweg"]).fails(2, &["thalweg", "null"]);
    thalweg(&[&"bench", &"show", &scratch.path("missing.json")]).fails(2, &["cannot read", "missing.json"]);
    std::fs::write(&after, "{}").unwrap();
    thalweg(&[&"bench", &"compare", &before, &after]).fails(3, &["after.json"]);
}

#[test]
fn variants_run_beside_each_other_under_their_names() {
    let scratch = Scratch::new();
    let directory = empty(&scratch);
    let (report, page) = (scratch.path("run.json"), scratch.path("run.html"));
    let engines = ["--engines", "thalweg,thalweg:backend=sync-each-file:table=64K:flush-delay=2ms,null:cache=1M"];
    let slow = "thalweg:table=64K:backend=sync-each-file:flush-delay=2ms";
    let words = ["fillrandom", "--records", "20000", "--memtable", "256K", "--baseline", slow];
    let files = ["--json", report.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let run = bench(&directory, &[&words[..], &engines, &files].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.text().contains(&format!("to {slow}")) && run.text().contains("syncs, not the log's"), "{run:?}");
    assert!(std::fs::read_to_string(page).unwrap().contains(slow));
    let report = json(&report);
    let names: Vec<_> = report["runs"].as_array().unwrap().iter().map(|run| run["engine"].as_str().unwrap()).collect();
    assert_eq!(names, ["thalweg", slow, "null:cache=1M"]);
    let described = report["engines"].as_array().unwrap().iter().find(|engine| engine["name"] == slow).unwrap();
    let settings = &described["settings"];
    assert_eq!(settings["table_bytes"], "65536");
    assert_eq!((&settings["backend"], &settings["sync_delay"]), (&"SyncEachFile".into(), &"2ms".into()));
    assert_eq!(settings["memtable_bytes"], "262144", "a flag is every variant's");
    assert!(report["parameters"]["settings"]["backend"].is_null(), "a variant's settings are its own");
    let counters = |name: &str| {
        let runs = report["runs"].as_array().unwrap();
        runs.iter().find(|run| run["engine"] == name).unwrap()["drained"]["counters"].clone()
    };
    let slow = counters(slow);
    let kinds = slow["syncs_by_kind"].as_object().unwrap();
    let sum: u64 = kinds.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(slow["syncs"]["count"], sum);
    assert!(kinds["table"].as_u64().unwrap() > 0, "{slow}");
    assert!(slow["syncs"]["total_ns"].as_u64().unwrap() >= sum * 2_000_000, "{slow}");
    assert!(counters("thalweg")["other"]["settle rounds"].as_u64().unwrap() > 0);
    assert!(report["runs"][0]["drained"]["peaks"]["unsettled_edits"].is_u64());
}

#[test]
fn a_variant_that_makes_no_sense_is_wrong_usage() {
    let scratch = Scratch::new();
    let directory = empty(&scratch);
    let refused = |engines: &str, words: &[&str]| {
        bench(&directory, &[&SMALL[..], &["--engines", engines]].concat()).fails(2, words);
    };
    refused("thalweg:backnd=none", &["there is no setting `backnd`", "backend", "settle-interval"]);
    refused("thalweg:backend=fast", &["'fast'", "settle-rounds"]);
    refused("thalweg:table=1M:table=2M", &["`table` is given twice"]);
    refused("thalweg:table=1M,thalweg:table=1024K", &["thalweg:table=1024K is named twice"]);
    refused("leveldb:table=1M", &["no engine leveldb", "thalweg"]);
    let baseline = ["--engines", "thalweg,thalweg:table=1M", "--baseline", "thalweg:table=2M"];
    bench(&directory, &[&SMALL[..], &baseline].concat()).fails(2, &["thalweg:table=2M", "thalweg:table=1M"]);
}

#[test]
fn the_list_has_workloads_presets_and_engines() {
    let run = thalweg(&[&"bench", &"list"]);
    for word in ["fillrandom", "ycsb-a", "metadata-put", "nob-e2", "Engines: thalweg, null"] {
        assert!(run.ok().contains(word), "no {word} in {}", run.ok());
    }
}

#[test]
fn printed_parameters_run_the_same() {
    let scratch = Scratch::new();
    let words = ["--mix", "get=1,update=3", "--rate", "10k", "--memtable", "1M"];
    let directory = empty(&scratch);
    let printed = bench(&directory, &[&SMALL[..], &words, &["--print-config"]].concat()).ok().to_owned();
    let file = scratch.path("run.toml");
    std::fs::write(&file, &printed).unwrap();
    let again = bench(&directory, &["--config", file.to_str().unwrap(), "--print-config"]).ok().to_owned();
    assert_eq!(again, printed);
    std::fs::write(&file, printed.replace("threads", "thread")).unwrap();
    bench(&directory, &["--config", file.to_str().unwrap()]).fails(2, &["run.toml, line", "unknown field `thread`"]);
    assert_eq!(entries(&directory), 0);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_made() {
    let scratch = Scratch::new();
    let directory = empty(&scratch);
    bench(&directory, &["ycbs-a"]).fails(2, &["no workload", "ycbs-a", "ycsb-a"]);
    bench(&directory, &["ycsb-a", "--engines", "rocksdb"]).fails(2, &["no engine rocksdb", "thalweg, null", "peers"]);
    bench(&directory, &["ycsb-a", "--at", "60"]).fails(2, &["find-max"]);
    bench(&directory, &["ycsb-a", "--mix", "jump=1"]).fails(2, &["jump"]);
    bench(&directory, &["--preset", "nob-e99"]).fails(2, &["no preset nob-e99", "bench list"]);
    bench(&directory, &["ycsb-a", "--baseline", "null"]).fails(2, &["--baseline null"]);
    let missing = scratch.path("missing");
    bench(&missing, &SMALL).fails(2, &["no directory", "missing"]);
    let report = missing.join("run.json");
    for flag in ["--json", "--html"] {
        bench(&directory, &["ycsb-a", flag, report.to_str().unwrap()]).fails(2, &["cannot write", "run.json"]);
        bench(&directory, &["ycsb-a", flag, scratch.path("").to_str().unwrap()]).fails(2, &["cannot write"]);
    }
    let (file, same) = (scratch.path("run"), scratch.path("").join("./run"));
    let files = ["ycsb-a", "--json", file.to_str().unwrap(), "--html", same.to_str().unwrap()];
    bench(&directory, &files).fails(2, &["the same file"]);
    bench(&directory, &["ycsb-a", "--config", report.to_str().unwrap()]).fails(2, &["cannot read", "run.json"]);
    bench(&directory, &["ycsb-a", "--value-bytes", "65M"]).fails(2, &["value-bytes must be at most 64 MiB"]);
    bench(&directory, &["ycsb-a", "--compression", "snappy"]).fails(2, &["Snappy"]);
    bench(&directory, &["ycsb-a", "--settle-interval", "none"]).fails(2, &["settle_interval"]);
    let negative = bench(&directory, &["ycsb-a", "--debt", "-1"]);
    assert_eq!(negative.code, Some(2));
    assert!(negative.errors.contains("negative") && !negative.errors.contains("tip:"), "{negative:?}");
    assert_eq!(entries(&directory), 0);
    assert!(!missing.exists());
}

#[test]
fn ctrl_c_leaves_what_was_measured_and_nothing_else() {
    // A load that is asked for is a measurement, one that is only needed is none.
    for (name, code, is_asked) in [("INT", 130, true), ("TERM", 143, false), ("HUP", 129, true)] {
        let scratch = Scratch::new();
        let directory = empty(&scratch);
        let report = scratch.path("run.json");
        let load = is_asked.then_some("ycsb-load");
        // Under `nohup` the tests ignore a hang-up, and what they start would too.
        let child = std::process::Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_thalweg"), "bench"])
            .args(load.into_iter().chain(["ycsb-a", "--records", "2000", "--seconds", "60", "--no-warm"]))
            .args([OsStr::new("--directory"), directory.as_os_str(), OsStr::new("--json"), report.as_os_str()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        // Long enough to have loaded 2 000 records, far too short for a minute of workload A.
        std::thread::sleep(Duration::from_secs(3));
        let kill = format!("kill -{name} {}", child.id());
        assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let errors = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{errors}");
        assert!(start.elapsed() < Duration::from_secs(30), "it went on for {:?}", start.elapsed());
        assert!(errors.contains("stopped in round 1 at thalweg"), "{errors}");
        assert_eq!(entries(&directory), 0, "a database was left");
        assert!(is_asked || !report.exists(), "nothing was measured");
        // On a machine so slow that not even the load was done nothing is written either.
        if !report.exists() {
            continue;
        }
        let report = json(&report);
        assert_eq!(report["runs"].as_array().unwrap().len(), 1, "the load was measured");
        assert!(report["notes"].to_string().contains("is missing"));
        assert!(String::from_utf8(ended.stdout).unwrap().contains("is missing"));
    }
}

#[test]
fn what_a_killed_run_leaves_the_next_one_removes() {
    let scratch = Scratch::new();
    let directory = empty(&scratch);
    let mut child = command(&[&"bench", &"ycsb-a", &"--records", &"2000", &"--seconds", &"60", &"--no-warm"])
        .args([OsStr::new("--directory"), directory.as_os_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let database = || directory.join(format!("thalweg-bench-{}", child.id())).join("thalweg-1/database/log");
    while !database().exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "no database was made");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entries(&directory), 1, "nobody was there to remove it");
    // The worker ends with its parent, a moment later.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(bench(&directory, &SMALL).code, Some(0));
    assert_eq!(entries(&directory), 0, "the next run removes what it knows as a dead run's");
}
