//! Golden tests of the policy: a script of picks and ends of jobs in, drawings of the levels out. To bless:
//! `UPDATE_EXPECT=1`.

use super::session::Session;
use crate::compaction::shape::hull;
use expect_test::expect;

#[test]
fn level0_goes_down_whole_with_what_it_overlaps() {
    Session::new(&["c-m:8 a-f:8", "a-b:9 d-e:10 g-h:10 p-z:10"]).pick().finish().pick().check(expect![[r#"
        L0  [a———————————————————f]                      2 tables  16.0 KiB
                    [c———————————————————————m]
        L1  [a———b]     [d———e]     [g———h]     [p———z]  4 tables  39.0 KiB
        > pick: merge L0 [c—m] [a—f] with L1 [a—b] [d—e] [g—h], bottom
        > finish: into L1
        L0                                   empty
        L1  [a———c] [d———f] [g———m] [p———z]  4 tables  55.0 KiB
        debt 15.0 KiB
        > pick: move L1 [a—c], bottom
    "#]]);
}

#[test]
fn a_gap_between_level0_tables_takes_in_the_tables_below_it() {
    Session::new(&["a-b:8 y-z:8", "m-n:10"]).pick().check(expect![[r#"
        L0  [a———b]         [y———z]  2 tables  16.0 KiB
        L1          [m———n]          1 table  10.0 KiB
        > pick: move L0 [a—b], bottom
    "#]]);
}

#[test]
fn the_table_with_the_least_to_rewrite_for_its_size_is_picked() {
    Session::new(&["", "a-d:10 e-h:20 i-l:20", "a-b:10 c-d:10 e-f:10 g-h:9 i-j:10 k-l:10"])
        .pick()
        .finish()
        .pick()
        .check(expect![[r#"
            L0                                                   empty
            L1  [a———————————d] [e———————————h] [i———————————l]  3 tables  50.0 KiB
            L2  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l]  6 tables  59.0 KiB
            debt 10.0 KiB
            > pick: merge L1 [e—h] with L2 [e—f] [g—h], bottom
            > finish: into L2
            L0                                                   empty
            L1  [a———————————d]                 [i———————————l]  2 tables  30.0 KiB
            L2  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l]  6 tables  79.0 KiB
            > pick: nothing to do
        "#]]);
}

#[test]
fn of_equal_tables_the_first_is_picked() {
    Session::new(&["", "a-b:20 c-d:20 e-f:20", "a-b:20 c-d:20 e-f:20"]).pick().check(expect![[r#"
        L0                           empty
        L1  [a———b] [c———d] [e———f]  3 tables  60.0 KiB
        L2  [a———b] [c———d] [e———f]  3 tables  60.0 KiB
        debt 20.0 KiB
        > pick: merge L1 [a—b] with L2 [a—b], bottom
    "#]]);
}

#[test]
fn a_table_above_nothing_moves() {
    Session::new(&["", "a-d:20 e-h:20 i-l:20", "a-d:10 i-l:10"]).pick().finish().pick().check(expect![[r#"
        L0                           empty
        L1  [a———d] [e———h] [i———l]  3 tables  60.0 KiB
        L2  [a———d]         [i———l]  2 tables  20.0 KiB
        debt 20.0 KiB
        > pick: move L1 [e—h], bottom
        > finish: into L2
        L0                           empty
        L1  [a———d]         [i———l]  2 tables  40.0 KiB
        L2  [a———d] [e———h] [i———l]  3 tables  40.0 KiB
        > pick: merge L1 [a—d] with L2 [a—d], bottom
    "#]]);
}

#[test]
fn a_table_of_level_1_between_those_of_level_2_moves_though_no_level_is_due() {
    Session::new(&["", "a-b:4 e-f:4 g-h:5", "a-d:20 i-l:20"]).pick().finish().pick().check(expect![[r#"
        L0                                       empty
        L1  [a———b]     [e———f] [g———h]          3 tables  13.0 KiB
        L2  [a———————d]                 [i———l]  2 tables  40.0 KiB
        > pick: move L1 [g—h], bottom
        > finish: into L2
        L0                                       empty
        L1  [a———b]     [e———f]                  2 tables  8.0 KiB
        L2  [a———————d]         [g———h] [i———l]  3 tables  45.0 KiB
        > pick: nothing to do
    "#]]);
    // Above an empty level it stays: it would only begin a level.
    Session::new(&["", "a-b:4 e-h:4", "", "a-d:20 i-l:20"]).pick().check(expect![[r#"
        L0                               empty
        L1  [a———b]     [e———h]          2 tables  8.0 KiB
        L2                               empty
        L3  [a———————d]         [i———l]  2 tables  40.0 KiB
        > pick: nothing to do
    "#]]);
}

#[test]
fn tables_above_nothing_move_together_as_far_as_their_level_is_too_large() {
    let above_nothing = "a-b:20 c-d:20 e-f:20 g-h:20 i-j:20 k-l:20";
    Session::new(&["", above_nothing]).pick().finish().pick().check(expect![[r#"
        L0                                                   empty
        L1  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l]  6 tables  120.0 KiB
        debt 80.0 KiB
        > pick: move L1 [a—b] [c—d] [e—f] [g—h], bottom
        > finish: into L2
        L0                                                   empty
        L1                                  [i———j] [k———l]  2 tables  40.0 KiB
        L2  [a———b] [c———d] [e———f] [g———h]                  4 tables  80.0 KiB
        > pick: move L1 [i—j] [k—l], bottom
    "#]]);
    Session::new(&["", above_nothing, "e-f:20"]).pick().finish().pick().finish().pick().check(expect![[r#"
        L0                                                   empty
        L1  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l]  6 tables  120.0 KiB
        L2                  [e———f]                          1 table  20.0 KiB
        debt 80.0 KiB
        > pick: move L1 [a—b] [c—d], bottom
        > finish: into L2
        L0                                                   empty
        L1                  [e———f] [g———h] [i———j] [k———l]  4 tables  80.0 KiB
        L2  [a———b] [c———d] [e———f]                          3 tables  60.0 KiB
        debt 40.0 KiB
        > pick: move L1 [g—h] [i—j] [k—l], bottom
        > finish: into L2
        L0                                                   empty
        L1                  [e———f]                          1 table  20.0 KiB
        L2  [a———b] [c———d] [e———f] [g———h] [i———j] [k———l]  6 tables  120.0 KiB
        > pick: nothing to do
    "#]]);
}

#[test]
fn sequential_flushes_move_down_without_a_rewrite() {
    Session::new(&["a-b:8 c-d:8"]).pick().finish().flush("e-f:8").pick().finish().pick().check(expect![[r#"
        L0  [a———b] [c———d]  2 tables  16.0 KiB
        > pick: move L0 [a—b], bottom
        > finish: into L1
        L0          [c———d]  1 table  8.0 KiB
        L1  [a———b]          1 table  8.0 KiB
        > flush e-f:8
        > pick: move L0 [c—d], bottom
        > finish: into L1
        L0                  [e———f]  1 table  8.0 KiB
        L1  [a———b] [c———d]          2 tables  16.0 KiB
        > pick: nothing to do
    "#]]);
}

#[test]
fn overlapping_level0_tables_are_merged_though_nothing_is_below() {
    Session::new(&["a-d:8 c-f:8"]).pick().finish().check(expect![[r#"
        L0      [c———————f]  2 tables  16.0 KiB
            [a———————d]
        > pick: rewrite L0 [a—d] [c—f], bottom
        > finish: into L1
        L0                   empty
        L1  [a———c] [d———f]  2 tables  16.0 KiB
    "#]]);
}

#[test]
fn tombstones_above_nothing_are_rewritten_away() {
    Session::new(&["", "a-d:20† e-h:20 i-l:20", "", "e-h:10 i-l:10"]).pick().finish().check(expect![[r#"
        L0                           empty
        L1  [a———d] [e———h] [i———l]  3 tables  60.0 KiB
        L2                           empty
        L3          [e———h] [i———l]  2 tables  20.0 KiB
        debt 20.0 KiB
        > pick: rewrite L1 [a—d], bottom
        > finish: into L2
        L0                   empty
        L1  [e———h] [i———l]  2 tables  40.0 KiB
        L2                   empty
        L3  [e———h] [i———l]  2 tables  20.0 KiB
    "#]]);
}

#[test]
fn tombstones_above_something_deeper_move_on() {
    Session::new(&["", "a-d:20† e-h:20 i-l:20", "e-h:10 i-l:10", "a-z:10"]).pick().finish().check(expect![[r#"
        L0                               empty
        L1  [a———d] [e———h] [i———l]      3 tables  60.0 KiB
        L2          [e———h] [i———l]      2 tables  20.0 KiB
        L3  [a———————————————————————z]  1 table  10.0 KiB
        debt 20.0 KiB
        > pick: move L1 [a—d]
        > finish: into L2
        L0                               empty
        L1          [e———h] [i———l]      2 tables  40.0 KiB
        L2  [a———d] [e———h] [i———l]      3 tables  40.0 KiB
        L3  [a———————————————————————z]  1 table  10.0 KiB
    "#]]);
}

#[test]
fn tombstones_that_hide_half_of_what_there_is_go_down_however_few_they_are() {
    Session::new(&["a-l:2† e-p:2†", "a-d:20", "", "a-d:10 e-h:10"]).pick().finish().pick().check(expect![[r#"
        L0          [e———————————p]  2 tables  4.0 KiB
            [a———————————————l]
        L1  [a———d]                  1 table  20.0 KiB
        L2                           empty
        L3  [a———d] [e———h]          2 tables  20.0 KiB
        > pick: merge L0 [a—l] [e—p] with L1 [a—d]
        > finish: into L1
        L0                           empty
        L1  [a———————e]     [l———p]  2 tables  24.0 KiB
        L2                           empty
        L3  [a———d] [e———h]          2 tables  20.0 KiB
        > pick: nothing to do
    "#]]);
    Session::new(&["a-l:2†", "a-d:20", "", "a-d:10 e-h:10"]).pick().check(expect![[r#"
        L0  [a———————————————l]  1 table  2.0 KiB
        L1  [a———d]              1 table  20.0 KiB
        L2                       empty
        L3  [a———d] [e———h]      2 tables  20.0 KiB
        > pick: nothing to do
    "#]]);
}

#[test]
fn disjoint_jobs_run_side_by_side_and_others_wait() {
    Session::new(&["a-h:8 a-h:8", "a-d:40 e-h:40 q-t:40", "a-h:10 p-z:10"])
        .pick()
        .pick()
        .pick()
        .finish()
        .pick()
        .finish()
        .pick()
        .check(expect![[r#"
            L0  [a———————————h]                  2 tables  16.0 KiB
                [a———————————h]
            L1  [a———d] [e———h]     [q———t]      3 tables  120.0 KiB
            L2  [a———————————h] [p———————————z]  2 tables  20.0 KiB
            debt 80.0 KiB
            > pick: merge L1 [a—d] [e—h] with L2 [a—h], bottom
            > pick: merge L1 [q—t] with L2 [p—z], bottom
            > pick: nothing to do
            > finish: into L2
            L0  [a———————————h]                  2 tables  16.0 KiB
                [a———————————h]
            L1                      [q———t]      1 table  40.0 KiB
            L2  [a———d] [e———h] [p———————————z]  3 tables  100.0 KiB
            > pick: rewrite L0 [a—h] [a—h]
            > finish: into L2
            L0  [a———————————h]                  2 tables  16.0 KiB
                [a———————————h]
            L1                                   empty
            L2  [a———d] [e———h] [p———q] [t———z]  4 tables  140.0 KiB
            > pick: nothing to do
        "#]]);
}

#[test]
fn one_job_at_a_time_takes_from_level0() {
    Session::new(&["a-b:8 a-c:8"]).pick().flush("x-y:8").flush("x-z:8").pick().finish().pick().check(expect![[r#"
        L0  [a———————c]  2 tables  16.0 KiB
            [a———b]
        > pick: rewrite L0 [a—b] [a—c], bottom
        > flush x-y:8
        > flush x-z:8
        > pick: nothing to do
        > finish: into L1
        L0          [x———————z]  2 tables  16.0 KiB
                    [x———y]
        L1  [a———c]              1 table  16.0 KiB
        > pick: rewrite L0 [x—y] [x—z], bottom
    "#]]);
}

#[test]
fn a_shorter_prefix_of_level0_goes_when_the_whole_cannot() {
    Session::new(&["", "d-h:50 s-u:10", "e-f:10 s-u:50"]).pick().flush("a-t:8").flush("b-f:8").pick().finish().check(
        expect![[r#"
            L0                           empty
            L1  [d———————————h] [s———u]  2 tables  60.0 KiB
            L2      [e———f]     [s———u]  2 tables  60.0 KiB
            debt 20.0 KiB
            > pick: merge L1 [d—h] with L2 [e—f], bottom
            > flush a-t:8
            > flush b-f:8
            > pick: nothing to do
            > finish: into L2
            L0      [b———————————f]                  2 tables  16.0 KiB
                [a———————————————————————————t]
            L1                          [s———————u]  1 table  10.0 KiB
            L2          [d———e] [f———h] [s———————u]  3 tables  110.0 KiB
        "#]],
    );
    Session::new(&["", "d-h:50 s-u:10", "e-f:10 s-u:50"]).pick().flush("s-u:8").flush("b-f:8").pick().finish().check(
        expect![[r#"
            L0                           empty
            L1  [d———————————h] [s———u]  2 tables  60.0 KiB
            L2      [e———f]     [s———u]  2 tables  60.0 KiB
            debt 20.0 KiB
            > pick: merge L1 [d—h] with L2 [e—f], bottom
            > flush s-u:8
            > flush b-f:8
            > pick: merge L0 [s—u] with L1 [s—u]
            > finish: into L2
            L0  [b———————————f]     [s———u]  2 tables  16.0 KiB
            L1                      [s———u]  1 table  10.0 KiB
            L2      [d———e] [f———h] [s———u]  3 tables  110.0 KiB
        "#]],
    );
}

#[test]
fn a_deeper_level_that_is_due_goes_first_unless_level0_is_urgent() {
    let levels = ["a-l:8 a-l:8", "a-d:55 e-h:55", "a-d:40 e-h:40 i-l:150", "m-p:100"];
    Session::new(&levels).pick().pick().check(expect![[r#"
        L0  [a———————————————————l]          2 tables  16.0 KiB
            [a———————————————————l]
        L1  [a———d] [e———h]                  2 tables  110.0 KiB
        L2  [a———d] [e———h] [i———l]          3 tables  230.0 KiB
        L3                          [m———p]  1 table  100.0 KiB
        debt 9.5 KiB
        > pick: move L2 [a—d], bottom
        > pick: merge L1 [e—h] with L2 [e—h], bottom
    "#]]);
    let urgent = [["a-l:8"; 8].join(" ").leak(), levels[1], levels[2], levels[3]];
    Session::new(&urgent).pick().check(expect![[r#"
        L0  [a———————————————————l]          8 tables  64.0 KiB
            [a———————————————————l]
            [a———————————————————l]
            [a———————————————————l]
            [a———————————————————l]
            [a———————————————————l]
            [a———————————————————l]
            [a———————————————————l]
        L1  [a———d] [e———h]                  2 tables  110.0 KiB
        L2  [a———d] [e———h] [i———l]          3 tables  230.0 KiB
        L3                          [m———p]  1 table  100.0 KiB
        debt 57.5 KiB
        > pick: merge L0 [a—l] [a—l] [a—l] [a—l] [a—l] [a—l] [a—l] [a—l] with L1 [a—d] [e—h]
    "#]]);
}

#[test]
fn level1_starts_no_job_while_a_fuller_level0_waits_for_it() {
    Session::new(&["", "a-d:30 e-h:30 i-l:30", "a-d:10 e-h:20 i-l:20"])
        .pick()
        .flush("a-l:8")
        .flush("a-l:8")
        .flush("a-l:8")
        .flush("a-l:8")
        .flush("a-l:8")
        .flush("a-l:8")
        .flush("a-l:8")
        .flush("a-l:8")
        .pick()
        .finish()
        .pick()
        .check(expect![[r#"
            L0                           empty
            L1  [a———d] [e———h] [i———l]  3 tables  90.0 KiB
            L2  [a———d] [e———h] [i———l]  3 tables  50.0 KiB
            debt 50.0 KiB
            > pick: merge L1 [a—d] with L2 [a—d], bottom
            > flush a-l:8
            > flush a-l:8
            > flush a-l:8
            > flush a-l:8
            > flush a-l:8
            > flush a-l:8
            > flush a-l:8
            > flush a-l:8
            > pick: nothing to do
            > finish: into L2
            L0  [a———————————————————l]  8 tables  64.0 KiB
                [a———————————————————l]
                [a———————————————————l]
                [a———————————————————l]
                [a———————————————————l]
                [a———————————————————l]
                [a———————————————————l]
                [a———————————————————l]
            L1          [e———h] [i———l]  2 tables  60.0 KiB
            L2  [a———d] [e———h] [i———l]  3 tables  80.0 KiB
            debt 68.0 KiB
            > pick: merge L0 [a—l] [a—l] [a—l] [a—l] [a—l] [a—l] [a—l] [a—l] with L1 [e—h] [i—l]
        "#]]);
}

#[test]
fn the_last_level_is_never_a_source() {
    Session::new(&["", "", "", "a-z:9000"]).pick().check(expect![[r#"
        L0           empty
        L1           empty
        L2           empty
        L3  [a———z]  1 table  8.7 MiB
        > pick: nothing to do
    "#]]);
}

#[test]
fn an_empty_partition_has_nothing_to_do() {
    Session::new(&["", "", ""]).pick().check(expect![[r#"
        no tables
        > pick: nothing to do
    "#]]);
}

#[test]
fn levels_deeper_than_allowed_still_count() {
    Session::new(&["a-c:8 b-d:8", "", "", "", "", "b-c:8"]).pick().check(expect![[r#"
        L0      [b———————d]  2 tables  16.0 KiB
            [a———————c]
        L1                   empty
        L2                   empty
        L3                   empty
        L4                   empty
        L5      [b———c]      1 table  8.0 KiB
        > pick: rewrite L0 [a—c] [b—d]
    "#]]);
}

#[test]
fn many_tables_are_drawn_as_strips() {
    let many: Vec<String> = (0..90).map(|i| format!("{:03}-{:03}:1", 3 * i, 3 * i + 1)).collect();
    Session::new(&["000-100:8 050-200:8", &many.join(" ")]).check(expect![[r#"
        L0  ···········1111111111111111111111111111111111111················  2 tables  16.0 KiB
            111111111111111111111111········································
        L1  2222221222211222222122222222222122222212222222222221222222222221  90 tables  90.0 KiB
            000                                                          268
        debt 50.0 KiB
    "#]]);
}

#[test]
fn keys_are_escaped_and_cut_short() {
    let mut session = Session::new(&[""]);
    let tables = [(&b""[..], &b"\x00\xff"[..]), (b"12345678", b"12345678"), (b"123456789", b"tab\there")];
    for (min, max) in tables {
        let table = session.table(min, max, 1, 0);
        session.levels[0].push(table);
    }
    assert!(hull(&session.levels[0]).is_some());
    session.draw().check(expect![[r#"
        no tables
        L0  [""———\x00\xff] [12345678] [1234567…———tab\the…]  3 tables  3 B
        debt 1 B
    "#]]);
}
