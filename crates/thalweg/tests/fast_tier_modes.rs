//! The fast tier with parts of PM-Blade left out, as its ablation has it (PMB-E10): each mode reads the same and does
//! what its name says, in memory and in a directory, and a database may be opened with another mode each time.

#![cfg(feature = "experiments")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tiered;

use fastrand::Rng;
use thalweg::{CompactionScheduling, Database, FastTier, FastTierForms, FastTierMode, FastTierStatistics};
use tiered::{Model, TIER_BYTES, builder, copied, verify, write};

const MODES: [FastTierMode; 6] =
    [FastTierMode::Full, FastTierMode::P, FastTierMode::Pic, FastTierMode::Ssd, FastTierMode::Pi, FastTierMode::Pm];

/// What a mode is to do beside minor compactions: internal compactions, and evictions of a partition at a time.
fn uses_the_models(mode: FastTierMode) -> bool {
    matches!(mode, FastTierMode::Pi | FastTierMode::Pic | FastTierMode::Full)
}

fn tier(database: &Database) -> FastTierStatistics {
    database.statistics().fast_tier.unwrap()
}

#[test]
fn each_mode_reads_the_same_and_does_what_its_name_says() {
    for (forms, in_files) in [(FastTierForms::Sound, false), (FastTierForms::Sound, true), (FastTierForms::Paper, true)]
    {
        // That for temporary files may be in memory, which cannot be a tier in a directory.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (mut model, mut random) = (Model::new(), Rng::with_seed(11));
        for mode in MODES {
            let medium =
                || if in_files { FastTier::Directory(directory.path().join("fast")) } else { FastTier::Memory };
            let options = builder(&directory.path().join("db")).partitions_max(16).fast_tier(medium(), TIER_BYTES);
            let database = options.fast_tier_mode(mode).fast_tier_forms(forms).open().unwrap();
            let keyspace = database.keyspace("data").unwrap();
            write(&keyspace, &mut model, &mut random, 20_000);
            verify(&keyspace, &model);
            if mode == FastTierMode::Ssd {
                // What the mode before has left in a directory leaves first.
                database.flush().unwrap();
                let minor = || database.statistics().fast_tier.map_or(0, |tier| tier.minor_compactions);
                let before = minor();
                write(&keyspace, &mut model, &mut random, 5_000);
                assert_eq!(minor(), before);
                assert!(database.statistics().fast_tier.is_none_or(|tier| tier.bytes == 0));
            } else {
                let did = tier(&database);
                assert!(did.minor_compactions > 5 && did.evictions > 0, "{mode:?} {forms:?}: {did:?}");
                assert!(uses_the_models(mode) || did.internal_compactions == 0, "{mode:?} {forms:?}: {did:?}");
                let forced = forms == FastTierForms::Sound && uses_the_models(mode);
                assert!(!forced || did.internal_compactions > 0, "{mode:?} {forms:?}: {did:?}");
            }
            if !in_files {
                // Killed, and opened with everything.
                let copy = tempfile::tempdir().unwrap();
                copied(&directory.path().join("db"), copy.path());
                let reopened = builder(copy.path()).fast_tier(FastTier::Memory, TIER_BYTES).open().unwrap();
                verify(&reopened.keyspace("data").unwrap(), &model);
            }
            drop(keyspace);
            database.close().unwrap();
        }
    }
}

#[test]
fn a_mode_says_how_compactions_run_unless_the_caller_does() {
    let described = |mode: Option<FastTierMode>, scheduling: Option<CompactionScheduling>| {
        let mut options = builder("nowhere".as_ref()).fast_tier(FastTier::Memory, TIER_BYTES);
        if let Some(mode) = mode {
            options = options.fast_tier_mode(mode);
        }
        if let Some(scheduling) = scheduling {
            options = options.compaction_scheduling(scheduling);
        }
        let described = options.described();
        let value = |name| described.iter().find(|(option, _)| *option == name).unwrap().1.clone();
        (value("compaction_scheduling"), value("fast_tier") != "none")
    };
    assert_eq!(described(None, None), ("PmBlade".to_owned(), true));
    assert_eq!(described(Some(FastTierMode::Pm), None), ("PmBlade".to_owned(), true));
    assert_eq!(described(Some(FastTierMode::Pic), None), ("Threads".to_owned(), true));
    assert_eq!(described(Some(FastTierMode::Ssd), None), ("Threads".to_owned(), false));
    let coroutines = Some(CompactionScheduling::Coroutines);
    assert_eq!(described(Some(FastTierMode::P), coroutines), ("Coroutines".to_owned(), true));
}
