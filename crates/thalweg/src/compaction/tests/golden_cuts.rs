//! Golden tests of how vLSM cuts level 1: keys and a level 2 in, drawings of the tables out, good and poor marked.
//!
//! `S_M` is 8 KiB, `f` is 4, so `S_m` is 2 KiB, and a good table lies over 32 KiB of level 2 at most (by count). To
//! bless: `UPDATE_EXPECT=1`.

use crate::compaction::draw::{draw_shape, human, label};
use crate::compaction::look_ahead::{Cut, LookAhead, Overlap, OverlapLimit};
use crate::compaction::shape::Shape;
use crate::format::{SeqNo, TableId};
use crate::table::TableMeta;
use expect_test::{Expect, expect};

const KIB: u64 = 1024;

pub(in crate::compaction) fn table(min: &str, max: &str, bytes: u64) -> TableMeta {
    TableMeta {
        id: TableId(1),
        bytes,
        checksum: 0,
        entries: 100,
        tombstones: 0,
        keys: 100,
        seq_min: SeqNo(1),
        seq_max: SeqNo(1),
        key_min: min.as_bytes().into(),
        key_max: max.as_bytes().into(),
    }
}

/// Cuts entries, given as `key:KiB`, above tables of level 2, given as `min-max:KiB`.
fn cut(overlap: Overlap, level2: &str, entries: &str) -> String {
    let kib = |text: &str| text.parse::<u64>().unwrap() * KIB;
    let level2 = level2.split_whitespace().map(|spec| {
        let (range, size) = spec.split_once(':').unwrap();
        let (min, max) = range.split_once('-').unwrap();
        table(min, max, kib(size))
    });
    let mut levels = vec![Vec::new(), Vec::new(), level2.collect::<Vec<_>>()];
    let limit = OverlapLimit { overlap, factor: 4, size_max: 8 * KIB };
    let mut cut = Cut::LookAhead(LookAhead::new(limit, 2 * KIB, &Shape::of_metas(&levels), b"", b"~"));
    let mut level1: Vec<TableMeta> = Vec::new();
    for spec in entries.split_whitespace() {
        let (key, size) = spec.split_once(':').unwrap();
        match level1.last_mut().filter(|last| cut.has_room(key.as_bytes(), last.bytes)) {
            Some(last) => *last = table(std::str::from_utf8(&last.key_min).unwrap(), key, last.bytes + kib(size)),
            None => {
                cut.begin(key.as_bytes());
                level1.push(table(key, key, kib(size)));
            }
        }
    }
    levels[1] = level1;
    let shape = Shape::of_metas(&levels);
    let mut out = draw_shape(&shape);
    for table in shape.level(1) {
        let below = shape.overlapping(2, &table.key_min, &table.key_max);
        let bytes = shape.level(2)[below.clone()].iter().map(|table| table.bytes).sum();
        out += &format!(
            "{} [{}—{}] {} over {} of level 2, {}\n",
            if limit.is_good(&shape, table) { "good" } else { "poor" },
            label(&table.key_min),
            label(&table.key_max),
            human(table.bytes),
            below.len(),
            human(bytes)
        );
    }
    out
}

fn check(found: &str, expected: Expect) {
    expected.assert_eq(found);
}

/// Eight full tables, evenly over the alphabet's first letters.
const EVEN: &str = "a-b:8 c-d:8 e-f:8 g-h:8 i-j:8 k-l:8 m-n:8 o-p:8";

#[test]
fn a_table_ends_before_the_key_that_would_take_it_over_one_table_too_many() {
    check(
        &cut(Overlap::Count, EVEN, "a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1 i:1 j:1 k:1 l:1 m:1"),
        expect![[r#"
        L0                                                                   empty
        L1  [a———————————————————————————h] [i———————————————m]              2 tables  13.0 KiB
        L2  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l] [m———n] [o———p]  8 tables  64.0 KiB
        good [a—h] 8.0 KiB over 4 of level 2, 32.0 KiB
        good [i—m] 5.0 KiB over 3 of level 2, 24.0 KiB
    "#]],
    );
}

#[test]
fn a_table_over_few_of_level_2_grows_to_its_full_size() {
    check(
        &cut(Overlap::Count, EVEN, "a:3 aa:3 ab:3 b:3 c:3 d:3 e:3"),
        expect![[r#"
        L0                                                                        empty
        L1  [a———ab] [b———————d] [e]                                              3 tables  21.0 KiB
        L2  [a————————b] [c———d] [e———f] [g———h] [i———j] [k———l] [m———n] [o———p]  8 tables  64.0 KiB
        good [a—ab] 9.0 KiB over 1 of level 2, 8.0 KiB
        good [b—d] 9.0 KiB over 2 of level 2, 16.0 KiB
        good [e—e] 3.0 KiB over 1 of level 2, 8.0 KiB
    "#]],
    );
}

#[test]
fn a_thin_range_makes_a_poor_table_that_ends_at_the_least_size() {
    check(
        &cut(Overlap::Count, EVEN, "a:1 p:1 q:1 r:1 s:1"),
        expect![[r#"
        L0                                                                           empty
        L1  [a———————————————————————————————————————————————————————————p] [q———s]  2 tables  5.0 KiB
        L2  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l] [m———n] [o———p]          8 tables  64.0 KiB
        poor [a—p] 2.0 KiB over 8 of level 2, 64.0 KiB
        good [q—s] 3.0 KiB over 0 of level 2, 0 B
    "#]],
    );
}

#[test]
fn nothing_below_and_keys_beyond_the_last_table_make_full_tables() {
    check(
        &cut(Overlap::Count, "", "a:4 b:4 c:4 d:4 e:1"),
        expect![[r#"
        L0                       empty
        L1  [a———b] [c———d] [e]  3 tables  17.0 KiB
        good [a—b] 8.0 KiB over 0 of level 2, 0 B
        good [c—d] 8.0 KiB over 0 of level 2, 0 B
        good [e—e] 1.0 KiB over 0 of level 2, 0 B
    "#]],
    );
    check(
        &cut(Overlap::Count, "a-b:40", "a:1 b:1 c:1 d:4 e:4 f:1"),
        expect![[r#"
        L0                       empty
        L1  [a———b] [c———e] [f]  3 tables  12.0 KiB
        L2  [a———b]              1 table  40.0 KiB
        poor [a—b] 2.0 KiB over 1 of level 2, 40.0 KiB
        good [c—e] 9.0 KiB over 0 of level 2, 0 B
        good [f—f] 1.0 KiB over 0 of level 2, 0 B
    "#]],
    );
}

#[test]
fn a_key_in_a_gap_of_level_2_lies_over_nothing() {
    check(
        &cut(Overlap::Count, "a-c:32 x-z:32", "b:1 d:1 m:1 w:1 x:1 y:1 z:1"),
        expect![[r#"
        L0                           empty
        L1      [b———————w] [x———z]  2 tables  7.0 KiB
        L2  [a———————c]     [x———z]  2 tables  64.0 KiB
        good [b—w] 4.0 KiB over 1 of level 2, 32.0 KiB
        good [x—z] 3.0 KiB over 1 of level 2, 32.0 KiB
    "#]],
    );
}

#[test]
fn measured_as_a_ratio_only_dense_tables_are_good() {
    check(
        &cut(Overlap::Ratio, EVEN, "a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1"),
        expect![[r#"
        L0                                                                   empty
        L1  [a———b] [c———d] [e———f] [g———h]                                  4 tables  8.0 KiB
        L2  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l] [m———n] [o———p]  8 tables  64.0 KiB
        good [a—b] 2.0 KiB over 1 of level 2, 8.0 KiB
        good [c—d] 2.0 KiB over 1 of level 2, 8.0 KiB
        good [e—f] 2.0 KiB over 1 of level 2, 8.0 KiB
        good [g—h] 2.0 KiB over 1 of level 2, 8.0 KiB
    "#]],
    );
    check(
        &cut(Overlap::Ratio, EVEN, "a:1 d:1 e:1 h:1 i:4 j:4 k:1"),
        expect![[r#"
        L0                                                                   empty
        L1  [a———————————d] [e———————————h] [i———j] [k]                      4 tables  13.0 KiB
        L2  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l] [m———n] [o———p]  8 tables  64.0 KiB
        poor [a—d] 2.0 KiB over 2 of level 2, 16.0 KiB
        poor [e—h] 2.0 KiB over 2 of level 2, 16.0 KiB
        good [i—j] 8.0 KiB over 1 of level 2, 8.0 KiB
        poor [k—k] 1.0 KiB over 1 of level 2, 8.0 KiB
    "#]],
    );
}
