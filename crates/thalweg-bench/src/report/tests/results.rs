//! The page of results: a golden text, and what is refused.

use super::sample;
use crate::plan::Pace;
use crate::report::results::Results;
use crate::report::{Report, json};
use expect_test::expect;
use std::collections::BTreeMap;

const QUESTIONS: &str = r#"
title = "Results"
introduction = "Medians of rounds."

[[question]]
title = "How fast are writes?"
conclusion = "They are fast."
baseline = "rocksdb"
columns = ["throughput", "rounds", "ratio", "cpu", "written", "p99"]
[[question.report]]
file = "writes.json"
label = "16 + 100 B"

[[question]]
title = "How fast are mixed loads?"
conclusion = "They are, too."
columns = ["throughput", "ratio", "p999", "chain", "space"]
[[question.report]]
file = "mixed.json"
"#;

fn report(steps: &[(&str, Pace)], rounds: u32) -> Report {
    Report { commit: Some("abc".to_owned()), ..sample::report(&["thalweg", "rocksdb"], steps, rounds, 2) }
}

fn reports() -> BTreeMap<String, Report> {
    let writes = report(&[("fillrandom", Pace::Closed)], 3);
    let mixed = report(&[("load", Pace::Closed), ("ycsb-a", sample::open(20e3))], 1);
    [("writes.json".to_owned(), writes), ("mixed.json".to_owned(), mixed)].into()
}

fn refusal(questions: &str, reports: BTreeMap<String, Report>) -> String {
    match Results::new(questions, reports) {
        Ok(_) => panic!("the page was made"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_page_has_a_build_and_for_each_question_a_table_and_commands() {
    let page = Results::new(QUESTIONS, reports()).unwrap().markdown().unwrap();
    expect![[r#"
        # Results

        Medians of rounds.

        - **Commit**: `abc`
        - **Engines**: rocksdb 1.2.3, thalweg 1.2.3
        - **Machine**: 2 processors (Some Processor @ 2.40GHz), 8.00 GiB, Linux 6.1.0
        - **File system**: ext4 (rw,noatime), read-ahead 128 KiB
        - **Measured**: 2026-01-02

        ## How fast are writes?

        They are fast.

        | workload | engine | operations | least–greatest | ratio | CPU/op | written/op | P99 |
        |---|---|--:|--:|--:|--:|--:|--:|
        | fillrandom, 16 + 100 B | thalweg | 157 k/s | 152 k–167 k/s | 1.45× (1.37–1.50) | 6.96 µs | 415 B | 30.0 µs |
        | fillrandom, 16 + 100 B | rocksdb | 111 k/s | 105 k–115 k/s | 1.00× | 9.86 µs | 655 B | 37.2 µs |

            thalweg bench ycsb-a --engines thalweg,rocksdb --rounds 3

        ## How fast are mixed loads?

        They are, too.

        | workload | engine | operations | ratio | P99.9 | chain | space |
        |---|---|--:|--:|--:|--:|--:|
        | ycsb-a at 20.0 k/s | thalweg | 19.9 k/s | 1.00× | get 132 µs, update 57.8 µs | 150 MiB | 153 MiB |
        | ycsb-a at 20.0 k/s | rocksdb | 18.5 k/s | 0.93× | get 375 µs, update 176 µs | 21.4 MiB | 181 MiB |

            thalweg bench ycsb-a --engines thalweg,rocksdb --rounds 3
    "#]]
    .assert_eq(&page);
}

#[test]
fn a_brief_report_makes_the_same_page() {
    let brief = reports().into_iter().map(|(name, report)| (name, report.brief())).collect();
    let whole = Results::new(QUESTIONS, reports()).unwrap().markdown().unwrap();
    assert_eq!(Results::new(QUESTIONS, brief).unwrap().markdown().unwrap(), whole);
}

#[test]
fn a_brief_report_has_no_series_and_no_preparations() {
    let whole = report(&[("load", Pace::Closed), ("ycsb-a", Pace::Closed)], 3);
    let brief = whole.clone().brief();
    assert_eq!((whole.runs.len(), brief.runs.len()), (12, 6));
    let (whole, brief) = (json::text(&whole).unwrap(), json::text(&brief).unwrap());
    assert!(brief.len() * 4 < whole.len(), "{} of {} bytes", brief.len(), whole.len());
}

#[test]
fn reports_of_different_commits_are_refused() {
    let mut reports = reports();
    reports.get_mut("writes.json").unwrap().commit = Some("def".to_owned());
    assert_eq!(refusal(QUESTIONS, reports), "writes.json is of commit def, mixed.json of commit abc");
}

#[test]
fn a_report_without_a_commit_is_refused() {
    let mut reports = reports();
    reports.get_mut("writes.json").unwrap().commit = None;
    assert!(refusal(QUESTIONS, reports).starts_with("writes.json has no commit"));
}

#[test]
fn reports_of_different_machines_are_refused() {
    let mut reports = reports();
    reports.get_mut("writes.json").unwrap().machine.cpus = 64;
    assert!(refusal(QUESTIONS, reports).ends_with("are of different machines"));
}

#[test]
fn a_report_of_a_run_that_was_cut_short_is_refused() {
    let mut reports = reports();
    reports.get_mut("mixed.json").unwrap().notes = vec!["stopped in round 2; what follows is missing".to_owned()];
    assert!(refusal(QUESTIONS, reports).starts_with("mixed.json is not whole: stopped in round 2"));
}

#[test]
fn files_and_questions_must_fit() {
    let mut fewer = reports();
    fewer.remove("mixed.json");
    assert_eq!(refusal(QUESTIONS, fewer), "the report mixed.json is missing");
    let mut more = reports();
    more.insert("old.json".to_owned(), report(&[("ycsb-a", Pace::Closed)], 1));
    assert_eq!(refusal(QUESTIONS, more), "no question has the report old.json");
    assert!(refusal(&QUESTIONS.replace("\"cpu\"", "\"cups\""), reports()).contains("unknown variant `cups`"));
    let baseline = QUESTIONS.replace("\"rocksdb\"", "\"lmdb\"");
    let refused = Results::new(&baseline, reports()).unwrap().markdown().unwrap_err().to_string();
    assert!(refused.contains("the baseline `lmdb` is not among the engines"), "{refused}");
}

#[test]
fn a_conclusion_is_short() {
    let long = QUESTIONS.replace("\"They are fast.\"", &format!("\"\"\"\n{}\"\"\"", "More.\n".repeat(11)));
    assert!(refusal(&long, reports()).contains("has 11 lines of prose; 10 are allowed"));
    let wide = QUESTIONS.replace("They are fast.", &"wide ".repeat(30));
    assert!(refusal(&wide, reports()).contains("a line of more than 120 characters"));
}

#[test]
fn a_question_takes_the_workloads_that_it_names() {
    let mut reports = reports();
    reports.insert("mixed.json".to_owned(), report(&[("readrandom", Pace::Closed), ("readseq", Pace::Closed)], 1));
    let questions = QUESTIONS.replace("file = \"mixed.json\"", "file = \"mixed.json\"\nworkloads = [\"readseq\"]");
    let page = Results::new(&questions, reports).unwrap().markdown().unwrap();
    assert!(page.contains("| readseq |") && !page.contains("readrandom"), "{page}");
}

#[test]
fn a_long_command_is_broken_where_a_shell_allows_it() {
    let mut reports = reports();
    reports.get_mut("mixed.json").unwrap().command = "thalweg bench --records 1M ".repeat(10).trim().to_owned();
    let page = Results::new(QUESTIONS, reports).unwrap().markdown().unwrap();
    let prose = page.lines().filter(|line| !line.starts_with('|'));
    assert!(prose.clone().all(|line| line.chars().count() <= 120), "{page}");
    assert_eq!(prose.filter(|line| line.starts_with("        ")).count(), 2, "{page}");
}
