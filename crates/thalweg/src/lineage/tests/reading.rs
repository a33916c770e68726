//! Reading manifests: whole, torn, rotten, and against what the log says.

use super::*;
use crate::lineage::manifest::fragments::frame;
use crate::lineage::manifest::header::{HEADER_BYTES, ManifestHeader};
use crate::lineage::manifest::record::Record;
use crate::lineage::manifest::write::image;
use crate::lineage::recovery::{self, Verdict};
use crate::log::DamagePolicy;

const HEADER: ManifestHeader = ManifestHeader { number: 3, generation: 0xfeed };

struct Written {
    bytes: Vec<u8>,
    /// After the snapshot and after each record: where it ends, and what an open finds there.
    ends: Vec<(usize, State, EditId)>,
}

/// A snapshot, ten edits, each settled; every record says how far the file was durable: to before the record before.
fn written() -> Written {
    let mut state = sample_state();
    let mut bytes = image(HEADER, &state, std::iter::empty());
    let mut ends = vec![(bytes.len(), state.clone(), state.edit)];
    let mut synced = bytes.len();
    let mut settled = state.edit;
    for number in 0..10 {
        let edit = edit(vec![add(0, 0, table(300 + number, "a", "b")), flushed(0, 100 + number)]);
        let id = EditId(state.edit.0 + 1);
        state.apply(&edit, id).unwrap();
        for record in [Record::Edit { id, edit }, Record::Settled { edit: id }] {
            if let Record::Settled { edit } = record {
                settled = edit;
            }
            let at = bytes.len();
            frame(&mut bytes, HEADER.generation, at as u64, &record.payload(synced as u64));
            ends.push((bytes.len(), state.clone(), settled));
            synced = at;
        }
    }
    Written { bytes, ends }
}

fn read(bytes: &[u8], durable: usize) -> Result<Contents> {
    Contents::read(Path::new("manifest-00000003"), bytes, durable as u64)
}

fn last(contents: &Contents) -> State {
    contents.last(Path::new("manifest-00000003")).unwrap()
}

#[test]
fn a_manifest_says_what_was_written_to_it() {
    let Written { bytes, ends } = written();
    let contents = read(&bytes, ends[0].0).unwrap();
    let (end, state, settled) = ends.last().unwrap();
    assert_eq!((contents.header, contents.end as usize), (HEADER, *end));
    assert_eq!((&last(&contents), contents.settled.edit), (state, *settled));
    assert!(contents.lost.is_none() && contents.tail.is_none());
}

#[test]
fn unsettled_edits_come_back_verbatim() {
    let base = sample_state();
    let edit = edit(vec![add(0, 0, table(300, "a", "b")), flushed(0, 300)]);
    let id = EditId(base.edit.0 + 1);
    let contents = read(&image(HEADER, &base, [(id, &edit)].into_iter()), 0).unwrap();
    assert_eq!(contents.settled, base);
    assert_eq!(contents.unsettled, [(id, edit)]);
}

#[test]
fn a_tail_torn_at_any_byte_gives_the_records_before_it() {
    let Written { bytes, ends } = written();
    for len in ends[0].0..=bytes.len() {
        let contents = read(&bytes[..len], ends[0].0).unwrap();
        let (end, state, settled) = ends.iter().rev().find(|(end, ..)| *end <= len).unwrap();
        assert_eq!((contents.end as usize, contents.settled.edit), (*end, *settled), "{len}");
        assert_eq!(last(&contents), *state);
        assert!(contents.lost.is_none(), "{len}");
        assert_eq!(contents.tail.is_some(), *end != len);
    }
}

#[test]
fn a_tail_of_zeros_is_torn_too() {
    let Written { mut bytes, ends } = written();
    let (end, state, _) = &ends[ends.len() - 2];
    bytes[*end..].fill(0);
    bytes.resize(100_000, 0);
    let contents = read(&bytes, 0).unwrap();
    assert!(contents.lost.is_none());
    assert_eq!(last(&contents), *state);
}

#[test]
fn a_manifest_shorter_than_its_durable_part_or_its_snapshot_is_corruption() {
    let Written { bytes, ends } = written();
    for len in 0..ends[0].0 {
        assert_eq!(read(&bytes[..len], 0).unwrap_err().kind(), ErrorKind::Corruption, "{len}");
    }
    for (len, ..) in &ends[..ends.len() - 1] {
        assert!(read(&bytes[..*len], *len).unwrap().lost.is_none());
        assert!(read(&bytes[..*len], *len + 1).unwrap().lost.is_some());
    }
}

#[test]
fn a_flipped_byte_below_what_was_durable_is_corruption_and_above_it_a_torn_tail() {
    let Written { bytes, ends } = written();
    let durable = ends[ends.len() - 3].0;
    for at in 0..bytes.len() {
        let mut rotten = bytes.clone();
        rotten[at] ^= 0x04;
        match read(&rotten, 0) {
            Err(error) => assert!(error.kind() == ErrorKind::Corruption && at < ends[0].0, "{at}: {error}"),
            Ok(contents) if at < durable => {
                let Some(Error::Corruption(damage)) = contents.lost else { panic!("{at} was not noticed") };
                assert!(damage.offset as usize <= at && at >= ends[0].0, "{damage:?}");
            }
            Ok(contents) => {
                assert!(contents.lost.is_none() && contents.tail.is_some(), "{at}");
                let states: Vec<_> = ends[ends.len() - 3..].iter().map(|(_, state, _)| state).collect();
                assert!(states.contains(&&last(&contents)));
            }
        }
    }
}

#[test]
fn a_record_out_of_place_is_corruption() {
    let base = sample_state();
    let begin = || image(HEADER, &base, std::iter::empty());
    let next = EditId(base.edit.0 + 1);
    let settled = |edit| Record::Settled { edit };
    let closed = |edit| Record::Closed { log_end: mark(1), edit };
    let edit = |id| Record::Edit { id, edit: Edit::default() };
    let end = Record::SnapshotEnd { keyspaces: 0, tables: 0 };
    let wrong = [
        vec![edit(EditId(next.0 + 1))],
        vec![edit(base.edit)],
        vec![edit(EditId(u64::MAX))],
        vec![settled(next)],
        vec![edit(next), settled(EditId(1))],
        vec![edit(next), closed(next)],
        vec![closed(next)],
        vec![closed(base.edit), settled(base.edit)],
        vec![end],
        Record::snapshot(&base),
    ];
    for records in wrong {
        let mut bytes = begin();
        for record in &records {
            let at = bytes.len() as u64;
            frame(&mut bytes, HEADER.generation, at, &record.payload(0));
        }
        assert_eq!(read(&bytes, 0).unwrap_err().kind(), ErrorKind::Corruption, "{records:?}");
    }
}

#[test]
fn a_snapshot_that_contradicts_itself_is_corruption() {
    let records = Record::snapshot(&sample_state());
    for left_out in 0..records.len() {
        let mut bytes = HEADER.encode();
        for (_, record) in records.iter().enumerate().filter(|(index, _)| *index != left_out) {
            let at = bytes.len() as u64;
            frame(&mut bytes, HEADER.generation, at, &record.payload(0));
        }
        assert!(bytes.len() as u64 > HEADER_BYTES);
        assert_eq!(read(&bytes, 0).unwrap_err().kind(), ErrorKind::Corruption, "{left_out}");
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let Written { bytes, .. } = written();
    let mut random = 1u64;
    for _ in 0..2_000 {
        let mut rotten = bytes.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % rotten.len();
            rotten[at] = random as u8;
            rotten.truncate(rotten.len() - (random >> 60) as usize);
        }
        fuzz_manifest(&rotten);
    }
    fuzz_manifest(&[]);
}

fn against(reach: Reach, contents: &Contents, policy: DamagePolicy) -> (Result<()>, usize) {
    let mut verdict = Verdict { policy, dropped: Vec::new() };
    let path = Path::new("manifest");
    let result = verdict.reaches(path, contents, reach.settled);
    let result = result.and_then(|()| reach.check(path, contents, Path::new("log"), &mut verdict));
    (result, verdict.dropped.len())
}

#[test]
fn what_the_log_says_of_the_manifest_must_be_true() {
    let Written { bytes, .. } = written();
    let contents = read(&bytes, 0).unwrap();
    let (settled, len) = (contents.settled.edit, bytes.len() as u64);
    let good = Reach { end: LogMark { seq: SeqNo(200), ..mark(9) }, settled, closed: Some((3, len)) };
    assert!(against(good, &contents, DamagePolicy::Strict).0.is_ok());
    let older = Reach { closed: Some((2, len + 1)), settled: EditId(0), ..good };
    assert!(against(older, &contents, DamagePolicy::Strict).0.is_ok());
    let wrong = [
        Reach { settled: EditId(settled.0 + 1), ..good },
        Reach { closed: Some((3, len + 1)), ..good },
        Reach { closed: Some((4, 0)), ..good },
    ];
    for reach in wrong {
        let (strict, _) = against(reach, &contents, DamagePolicy::Strict);
        assert_eq!(strict.unwrap_err().kind(), ErrorKind::Corruption, "{reach:?}");
        let (lenient, dropped) = against(reach, &contents, DamagePolicy::PointInTime);
        assert!(lenient.is_ok() && dropped == 1);
    }
    let short = Reach { end: LogMark { seq: SeqNo(108), ..mark(9) }, ..good };
    for policy in [DamagePolicy::Strict, DamagePolicy::PointInTime] {
        assert_eq!(against(short, &contents, policy).0.unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_root_without_current_is_no_database_unless_it_holds_log_or_tables() {
    let world = World::new();
    let current = Path::new(ROOT).join("CURRENT");
    let fresh = Fake::default();
    assert!(recover(&fresh).unwrap().is_none());
    world.disk.remove(&current).unwrap();
    world.disk.remove(&Path::new(ROOT).join("log/00000000.log")).unwrap();
    assert!(recover(&world.disk).unwrap().is_none(), "an interrupted creation");
    world.disk.put(&table_path(1), vec![1]);
    assert_eq!(recover(&world.disk).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn an_unsettled_edit_counts_only_with_its_outputs_and_its_log_and_nothing_after_it_does() {
    let base = sample_state();
    let edits: Vec<_> = (0..3)
        .map(|number| {
            let changes = vec![add(0, 0, table(300 + number, "a", "b")), flushed(0, 100 + number)];
            (EditId(base.edit.0 + 1 + number), edit(changes))
        })
        .collect();
    let contents = read(&image(HEADER, &base, edits.iter().map(|(id, edit)| (*id, edit))), 0).unwrap();
    let disk = Fake::default();
    let mut names: Vec<_> = base.tables().cloned().collect();
    names.extend(edits.iter().flat_map(|(_, edit)| edit.outputs().map(|(_, meta)| meta.clone())));
    for directory in ["/db", "/db/tables"] {
        disk.create_directory(Path::new(directory)).unwrap();
    }
    names.iter().for_each(|meta| disk.put(&table_path(meta.id.0), vec![0; meta.bytes as usize]));
    let choose = |seq: u64, missing: u64| {
        let log = Reach { end: LogMark { seq: SeqNo(seq), ..mark(9) }, settled: EditId(0), closed: None };
        let mut verify = |_, _: &Path, meta: &TableMeta| Ok(meta.id.0 != missing);
        let state =
            choose(&disk, Homes::of(Path::new(ROOT)), Path::new("manifest"), &contents, &log, &mut verify).unwrap();
        assert_eq!((state.edit, state.next_table), (EditId(base.edit.0 + 3), TableId(303)), "numbers are not reused");
        state.tables().filter(|meta| meta.id.0 >= 300).count()
    };
    assert_eq!([choose(102, 0), choose(101, 0), choose(100, 0), choose(99, 0)], [3, 2, 1, 0]);
    assert_eq!([choose(102, 300), choose(102, 301), choose(102, 302)], [0, 1, 2]);
    disk.remove(&table_path(3)).unwrap();
    let log = Reach { end: mark(999), settled: EditId(0), closed: None };
    let gone =
        recovery::choose(&disk, Homes::of(Path::new(ROOT)), Path::new("manifest"), &contents, &log, &mut |_, _, _| {
            Ok(true)
        });
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::Corruption, "a settled table must be there");
}

#[test]
fn a_dump_prints_every_record_and_check_is_content() {
    let world = World::new();
    world.thread.run(world.install(edit(vec![create(1, &["m"]), flushed(0, 0)]))).unwrap();
    world.thread.run(world.install(edit(vec![add(1, 0, table(1, "m", "z")), flushed(1, 1)]))).unwrap();
    let mut text = String::new();
    for path in [Path::new(ROOT).join("CURRENT"), world.manifest()] {
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            text += &format!("{arguments}\n");
            Ok(())
        };
        dump(&world.disk, &path, &mut line).unwrap();
    }
    for part in [
        "current: manifest 1",
        "snapshot at edit 0",
        "create keyspace 1 \"k1\"",
        "add 1/1 level 0 table 1",
        "settled: edit 2",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let (environment, _) = environment(&world.disk);
    let mut faults = Vec::new();
    let mut fault = |error| faults.push(error);
    assert_eq!(check(&environment, Path::new(ROOT), &mut fault).unwrap(), Some(world.lineage.state()));
    assert!(faults.is_empty());
}

#[test]
fn check_tells_of_a_rotten_manifest() {
    let world = World::new().start();
    world.thread.run(world.install(edit(vec![create(1, &[])]))).unwrap();
    world.thread.run(world.install(edit(vec![add(0, 0, table(1, "a", "z"))]))).unwrap();
    world.lineage.settle().unwrap();
    let faults = |disk: &Fake| {
        let (environment, _) = environment(disk);
        let mut faults = Vec::new();
        check(&environment, Path::new(ROOT), &mut |error| faults.push(error)).unwrap();
        faults.len()
    };
    assert_eq!(faults(&world.disk), 0);
    let rotten = world.disk.after_death();
    let end = rotten.disk().content(&world.manifest()).len();
    rotten.disk().content(&world.manifest())[60] ^= 1;
    assert_eq!(faults(&rotten), 1);
    assert!(end > 60);
}

#[test]
fn a_manifest_put_aside_survives_a_power_cut_and_may_be_put_aside_again() {
    let world = World::new();
    let content = world.disk.disk().content(&world.manifest()).clone();
    for _ in 0..2 {
        recovery::put_aside(&world.disk, Path::new(ROOT), 1).unwrap();
        let left = world.disk.after_power_cut();
        assert_eq!(*left.disk().content(&Path::new(ROOT).join("lost/manifest-00000001")), content);
    }
}
