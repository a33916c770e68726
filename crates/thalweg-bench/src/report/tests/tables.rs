//! The printed tables, as golden texts.

use super::sample;
use crate::plan::Pace;
use crate::report::table::{remarks, text};
use crate::report::{Look, Report, Summary};
use expect_test::expect;

fn printed(report: &Report, width: usize) -> String {
    text(&Summary::of(report), &Look { terminal: false, width })
}

#[test]
fn several_engines_have_a_row_each_and_an_overview() {
    let steps = [("load", Pace::Closed), ("ycsb-a", Pace::Closed), ("ycsb-c", sample::open(20e3))];
    let mut report = sample::report(&["thalweg", "rocksdb"], &steps, 3, 3);
    report.runs.last_mut().unwrap().noisy = true;
    sample::sustained(&mut report, "ycsb-a");
    report.paper = Some(sample::paper());
    expect![[r#"
        load (preparation), closed loop, 2 threads, 1.00 M records
        | engine  | throughput |        to thalweg | latency |     P50 |     P99 |  P99.9 |    max | foreign |
        |---------|------------|-------------------|---------|---------|---------|--------|--------|---------|
        | thalweg |    236 k/s |             1.00× |  insert | 10.0 µs | 48.4 µs | 137 µs | 633 µs |   1.4 % |
        | rocksdb |    167 k/s | 0.73× (0.69–0.73) |  insert | 11.6 µs |  121 µs | 344 µs | 867 µs |   1.2 % |

        | engine  |  CPU/op | written/op | W-amp | syncs | peak RSS |   space |     stalls |
        |---------|---------|------------|-------|-------|----------|---------|------------|
        | thalweg | 6.96 µs |      422 B |  3.02 |    40 |  350 MiB | 153 MiB |          0 |
        | rocksdb | 9.86 µs |      662 B |  4.73 |    50 |  450 MiB | 181 MiB | 3 (130 ms) |

        ycsb-a, closed loop, 2 threads, 1.00 M records
        | engine  | throughput |        to thalweg | latency |     P50 |     P99 |  P99.9 |     max | foreign |
        |---------|------------|-------------------|---------|---------|---------|--------|---------|---------|
        | thalweg |    176 k/s |             1.00× |     get | 22.4 µs | 87.2 µs | 314 µs | 1.46 ms |   1.5 % |
        |         |            |                   |  update | 10.0 µs | 41.2 µs | 150 µs |  584 µs |         |
        | rocksdb |    128 k/s | 0.73× (0.69–0.73) |     get | 26.0 µs |  281 µs | 798 µs | 1.91 ms |   1.5 % |
        |         |            |                   |  update | 11.6 µs |  129 µs | 344 µs |  645 µs |         |

        | engine  |  CPU/op | written/op | W-amp | syncs | peak RSS |   space |     stalls |
        |---------|---------|------------|-------|-------|----------|---------|------------|
        | thalweg | 6.96 µs |      419 B |  2.99 |    40 |  350 MiB | 153 MiB |          0 |
        | rocksdb | 9.86 µs |      658 B |  4.70 |    50 |  450 MiB | 181 MiB | 3 (130 ms) |

        ycsb-c, open loop, 20.0 k/s, 2 threads, 1.00 M records
        | engine  | throughput |        to thalweg | latency |     P50 |     P99 |  P99.9 |     max | foreign |
        |---------|------------|-------------------|---------|---------|---------|--------|---------|---------|
        | thalweg |   20.3 k/s |             1.00× |     get | 9.36 µs | 39.4 µs | 128 µs |  703 µs |   1.5 % |
        | rocksdb |   19.9 k/s | 0.97× (0.96–0.99) |     get | 13.1 µs | 95.5 µs | 393 µs | 3.92 ms |   1.7 % |

        | engine  |  CPU/op | written/op | dev reads/read | syncs | peak RSS |   space |     stalls |
        |---------|---------|------------|----------------|-------|----------|---------|------------|
        | thalweg | 6.00 µs |        0 B |         0.0500 |    40 |  350 MiB | 153 MiB |          0 |
        | rocksdb | 8.50 µs |        0 B |          0.100 |    50 |  450 MiB | 181 MiB | 3 (130 ms) |

        Throughput, more is better; thalweg is 1
        | workload           |           rocksdb |
        |--------------------|-------------------|
        | ycsb-a             | 0.73× (0.69–0.73) |
        | ycsb-c at 20.0 k/s | 0.97× (0.96–0.99) |

        CPU time of an operation, less is better; thalweg is 1
        | workload           |           rocksdb |
        |--------------------|-------------------|
        | ycsb-a             | 1.42× (1.42–1.42) |
        | ycsb-c at 20.0 k/s | 1.42× (1.42–1.42) |

        Bytes written for an operation, less is better; thalweg is 1
        | workload |           rocksdb |
        |----------|-------------------|
        | ycsb-a   | 1.57× (1.56–1.59) |

        Sustained rate
        | workload | thalweg | rocksdb |
        |----------|---------|---------|
        | ycsb-a   | 152 k/s | 117 k/s |

        Tuning default (--tuning).
        thalweg, durability: the log is synced every 100ms.
        thalweg, memory: block cache 128 MiB.
        thalweg, tables: of 64 MiB.
        thalweg, memory used: 260 MiB resident at most: 230 MiB of its own (caches, memtables, the
          instrument), 30.0 MiB mapped files (tables, log, program), which are page cache and go when memory
          is short; 120 MiB of page cache in its control group at most (ycsb-c at 20.0 k/s).
        thalweg, disk used: 153 MiB: table 114 MiB, log 38.1 MiB (ycsb-c at 20.0 k/s).
        rocksdb, durability: the log is synced every 100ms.
        rocksdb, memory: block cache 128 MiB.
        rocksdb, tables: of 64 MiB.
        rocksdb, memory used: 260 MiB resident at most: 230 MiB of its own (caches, memtables, the
          instrument), 30.0 MiB mapped files (tables, log, program), which are page cache and go when memory
          is short; 120 MiB of page cache in its control group at most (ycsb-c at 20.0 k/s).
        rocksdb, disk used: 153 MiB: table 114 MiB, log 38.1 MiB (ycsb-c at 20.0 k/s).
        Medians of 3 rounds; ratios are of paired rounds (least–greatest).
        Bytes written are as counted by the block device, until the engine had nothing left to do.
        The instrument itself takes 61 ns of an operation in a closed loop.

        The paper's own figures: YCSB, 100 M records of 1 KiB
        | ABC-E1, table 3 | LevelDB | RocksDB | theirs |
        |-----------------|---------|---------|--------|
        | ycsb-a, kop/s   |      21 |      87 |    134 |
        | ycsb-c, kop/s   |      41 |     152 |    160 |
        Here: A tenth of the records, and 2 processors instead of 32.
    "#]]
    .assert_eq(&printed(&report, 120));
}

#[test]
fn one_engine_has_a_column_for_each_step() {
    let steps = [("load", Pace::Closed), ("ycsb-a", Pace::Closed), ("ycsb-c", sample::open(20e3))];
    expect![[r#"
        thalweg 1.2.3, 2 threads, 1.00 M records
        | thalweg         |          load |        ycsb-a | ycsb-c at 20.0 k/s |
        |-----------------|---------------|---------------|--------------------|
        | throughput      |       232 k/s |       178 k/s |           20.5 k/s |
        | over the rounds | 228 k–236 k/s | 176 k–181 k/s |    20.2 k–20.8 k/s |
        | get P50         |             – |       22.4 µs |            9.38 µs |
        | get P99         |             – |       78.2 µs |            35.1 µs |
        | get P99.9       |             – |        313 µs |             125 µs |
        | get max         |             – |       1.49 ms |             732 µs |
        | insert P50      |       10.0 µs |             – |                  – |
        | insert P99      |       49.5 µs |             – |                  – |
        | insert P99.9    |        140 µs |             – |                  – |
        | insert max      |        629 µs |             – |                  – |
        | update P50      |             – |       9.99 µs |                  – |
        | update P99      |             – |       39.8 µs |                  – |
        | update P99.9    |             – |        144 µs |                  – |
        | update max      |             – |        598 µs |                  – |
        | CPU/op          |       6.96 µs |       6.96 µs |            6.00 µs |
        | written/op      |         419 B |         425 B |                0 B |
        | W-amp           |          2.99 |          3.03 |                  – |
        | dev reads/read  |             – |             – |             0.0500 |
        | syncs           |            40 |            40 |                 40 |
        | peak RSS        |       350 MiB |       350 MiB |            350 MiB |
        | space           |       153 MiB |       153 MiB |            153 MiB |
        | faults/op       |        0.0200 |        0.0200 |             0.0200 |
        | stalls          |             0 |             0 |                  0 |
        | foreign CPU     |         1.5 % |         1.3 % |              1.7 % |

        Tuning default (--tuning).
        Durability: the log is synced every 100ms.
        Memory: block cache 128 MiB.
        Tables: of 64 MiB.
        Memory used: 260 MiB resident at most: 230 MiB of its own (caches, memtables, the instrument), 30.0
          MiB mapped files (tables, log, program), which are page cache and go when memory is short; 120 MiB
          of page cache in its control group at most (ycsb-c at 20.0 k/s).
        Disk used: 153 MiB: table 114 MiB, log 38.1 MiB (ycsb-c at 20.0 k/s).
        Medians of 2 rounds; ratios are of paired rounds (least–greatest).
        Bytes written are as counted by the block device, until the engine had nothing left to do.
        The instrument itself takes 61 ns of an operation in a closed loop.
    "#]]
    .assert_eq(&printed(&sample::report(&["thalweg"], &steps, 2, 3), 100));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let workloads = ["fillrandom", "overwrite", "readrandom", "readseq", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-e"];
    let steps = workloads.map(|workload| (workload, Pace::Closed));
    let engines = ["thalweg", "rocksdb", "leveldb", "fjall", "lmdb"];
    for (engines, width) in [(&engines[..], 100), (&engines[..], 120), (&engines[..1], 80)] {
        let text = printed(&sample::report(engines, &steps, 3, 2), width);
        for line in text.lines().filter(|line| line.starts_with('|')) {
            assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
        }
        let tables: String = text.lines().filter(|line| line.starts_with('|') || line.contains("loop")).collect();
        assert_eq!(tables.matches("ycsb-e").count(), if engines.len() > 1 { 4 } else { 1 }, "{text}");
    }
}

#[test]
fn who_falls_behind_the_offered_rate_is_named() {
    let mut report = sample::report(&["a", "b"], &[("ycsb-a", sample::open(20e3))], 1, 3);
    report.runs[0].operations_per_second = 19_900.0;
    report.runs[1].operations_per_second = 15e3;
    let remarks = remarks(&Summary::of(&report));
    let late: Vec<_> = remarks.iter().filter(|remark| remark.starts_with("Fell behind")).collect();
    assert!(late.len() == 1 && late[0].ends_with(": b (ycsb-a at 20.0 k/s)."), "{remarks:?}");
}

#[test]
fn settings_that_an_engine_has_no_use_for_are_named() {
    let report = sample::report(&["thalweg", "lmdb"], &[("ycsb-a", sample::open(20e3))], 1, 1);
    let remarks = remarks(&Summary::of(&report));
    let ignoring: Vec<_> = remarks.iter().filter(|remark| remark.contains("has no use")).collect();
    assert_eq!(ignoring, ["lmdb has no use for memtable-bytes."]);
}

#[test]
fn only_a_terminal_gets_lines_and_colour() {
    let report = sample::report(&["thalweg", "rocksdb"], &[("ycsb-a", Pace::Closed)], 2, 2);
    let summary = Summary::of(&report);
    let (plain, drawn) = [false, true].map(|terminal| text(&summary, &Look { terminal, width: 120 })).into();
    assert!(!plain.contains(['\x1b', '│', '\u{2061}', '\u{2063}']) && plain.contains("0.7"));
    assert!(drawn.contains("\x1b[31m0.7") && drawn.contains('│') && !drawn.contains('\u{2063}'));
}
