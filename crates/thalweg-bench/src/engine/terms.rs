//! [`terms`]: what a reader must know of Thalweg's settings before any figure.

use crate::report::number;
use crate::settings::{Backend, FastTierMode, Settings};
use std::collections::BTreeMap;

/// The terms of the comparison, from the settings that the builder reports.
pub(super) fn terms(settings: &Settings, told: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let text = |name: &str| told.get(name).map_or("", String::as_str);
    let bytes = |name: &str| number::bytes(text(name).parse().unwrap_or(0.0));
    let weak = matches!(settings.backend, Some(Backend::None | Backend::Paper));
    let durability = match (settings.sync, text("log_sync_interval")) {
        _ if weak => format!("backend {}: a power cut may lose data that was durable before", text("backend")),
        (true, _) => "each write is durable before it returns".to_owned(),
        (false, "none") => {
            "the log is not synced by the clock: a power cut may take all that no flush has written".to_owned()
        }
        (false, interval) => {
            format!(
                "the log is synced every {interval}: a power cut takes no more than that and one sync, a crash of the \
                 process nothing"
            )
        }
    };
    let memtables = text("sealed_memtables_max").parse().unwrap_or(0) + 1;
    let memory = format!(
        "block cache {}, up to {memtables} memtables of {}; tables that are read are mapped, and count as resident",
        bytes("block_cache_bytes"),
        bytes("memtable_bytes")
    );
    let has_tier = settings.fast_tier_mode != Some(FastTierMode::Ssd);
    let tier = settings.fast_tier_bytes.filter(|_| has_tier).map(|bytes| number::bytes(bytes as f64));
    let place = if settings.fast_tier_files { "files" } else { "memory" };
    let memory = tier.as_ref().map_or(memory.clone(), |bytes| format!("{memory}; a fast tier of {bytes} in {place}"));
    let tables = format!("of {}, compression {}", bytes("table_bytes"), text("compression"));
    let log = match tier {
        Some(_) if !settings.fast_tier_files => format!(
            "log until what it holds is in tables, up to {} for what is in the fast tier",
            bytes("fast_tier_log_bytes_max")
        ),
        _ => "log until what it holds is in tables".to_owned(),
    };
    let space = format!("{log}; replaced tables until those in their place are durable");
    let terms = [("durability", durability), ("memory", memory), ("space", space), ("tables", tables)];
    terms.map(|(name, is)| (name.to_owned(), is)).into()
}
