//! [`ignored`]: settings of Thalweg that have no effect in combination with the others.

use crate::settings::{FastTierMode, Keyspace, Policy, Settings, Structures};

/// Returns the settings that are given but have no effect in combination with the others.
pub(super) fn ignored(settings: &Settings) -> Vec<String> {
    let given = match settings.policy {
        Some(Policy::Vlsm) => vec![("level1_bytes", settings.level1_bytes.is_some())],
        _ => vec![
            ("phi", settings.phi.is_some()),
            ("overlap", settings.overlap.is_some()),
            ("debt_bytes", settings.debt_bytes.is_some()),
        ],
    };
    let is_directory = settings.keyspace == Some(Keyspace::Directory);
    let is_paper = is_directory && settings.structures == Some(Structures::Paper);
    let of_directories = vec![
        ("structures", settings.structures.is_some() && !is_directory),
        ("f_cache_bytes", settings.f_cache_bytes.is_some() && !is_paper),
    ];
    let (has_tier, is_ssd) = (settings.fast_tier_bytes.is_some(), settings.fast_tier_mode == Some(FastTierMode::Ssd));
    let of_tiers = vec![
        ("fast_tier_bytes", has_tier && (is_ssd || is_directory)),
        ("fast_tier_files", settings.fast_tier_files && !has_tier),
        ("fast_tier_log_bytes", settings.fast_tier_log_bytes.is_some() && (!has_tier || settings.fast_tier_files)),
        ("fast_tier_mode", settings.fast_tier_mode.is_some() && !has_tier && !is_ssd),
        ("fast_tier_forms", settings.fast_tier_forms.is_some() && !has_tier),
    ];
    given
        .into_iter()
        .chain(of_directories)
        .chain(of_tiers)
        .filter(|(_, is_given)| *is_given)
        .map(|(name, _)| name.to_owned())
        .collect()
}
