//! Flags over parameters: a flag that is given replaces the value of a preset, a file or a default.

use super::args::{PaceArgs, RunArgs, WorkArgs};
use super::settings_args::SettingsArgs;
use crate::parameters::Parameters;
use crate::settings::Settings;

/// Puts the values of the given flags into `parameters`.
pub fn apply(parameters: &mut Parameters, args: &RunArgs) {
    if !args.workloads.is_empty() {
        parameters.workloads.clone_from(&args.workloads);
    }
    apply_work(parameters, &args.work);
    apply_pace(parameters, &args.pace);
    given_some(&mut parameters.memory_limit, args.machine.memory_limit);
    // The flag's value 0 removes the limit of a preset or a file: not every user may create control groups.
    parameters.memory_limit = parameters.memory_limit.filter(|bytes| *bytes > 0);
    parameters.warm &= !args.machine.no_warm;
    given(&mut parameters.ramp_seconds, args.machine.ramp);
    given(&mut parameters.rest_seconds, args.machine.rest);
    apply_settings(&mut parameters.settings, &args.settings);
}

fn apply_work(parameters: &mut Parameters, work: &WorkArgs) {
    given(&mut parameters.engines, work.engines.clone());
    given(&mut parameters.rounds, work.rounds);
    given_some(&mut parameters.records, work.records);
    given_some(&mut parameters.operations, work.operations);
    given_some(&mut parameters.seconds, work.seconds);
    given(&mut parameters.threads, work.threads);
    given_some(&mut parameters.key_bytes, work.key_bytes);
    given_some(&mut parameters.value_bytes, work.value_bytes);
    given_some(&mut parameters.directory_entries, work.directory_entries);
    given(&mut parameters.batch, work.batch);
    given_some(&mut parameters.distribution, work.distribution);
    given_some(&mut parameters.scan_entries_max, work.scan_entries_max);
    given(&mut parameters.mix, work.mix.clone().map(|shares| shares.into_iter().collect()));
    given(&mut parameters.compressible, work.compressible);
    given(&mut parameters.scale, work.scale);
    parameters.scale_settings |= work.scale_settings;
    given(&mut parameters.seed, work.seed);
}

fn apply_pace(parameters: &mut Parameters, pace: &PaceArgs) {
    given(&mut parameters.rates, pace.rate.clone());
    given(&mut parameters.arrival, pace.arrival);
    parameters.find_max |= pace.find_max;
    given(&mut parameters.percentages, pace.at.clone());
    given(&mut parameters.probe_seconds, pace.probe_seconds);
    given(&mut parameters.attempts, pace.attempts);
}

/// Puts the values of the given flags, or of a variant's keys, into `settings`.
pub fn apply_settings(settings: &mut Settings, args: &SettingsArgs) {
    given(&mut settings.tuning, args.tuning);
    given_some(&mut settings.memtable_bytes, args.memtable);
    given_some(&mut settings.memtables_max, args.memtables_max);
    given_some(&mut settings.table_bytes, args.table);
    given_some(&mut settings.cache_bytes, args.cache);
    given_some(&mut settings.filter_bits_per_key, args.filter_bits);
    given_some(&mut settings.compression, args.compression);
    given_some(&mut settings.background_jobs, args.background_jobs);
    given_some(&mut settings.compactions_a_worker, args.compactions_a_worker);
    given_some(&mut settings.io_depth, args.io_depth);
    given_some(&mut settings.scheduling, args.scheduling);
    settings.pin_workers |= args.pin_workers;
    given_some(&mut settings.level0_trigger, args.level0_trigger);
    given_some(&mut settings.level0_patience, args.level0_patience);
    given_some(&mut settings.level1_bytes, args.level1);
    given_some(&mut settings.growth_factor, args.growth_factor);
    given_some(&mut settings.partitions_max, args.partitions_max);
    given_some(&mut settings.fast_tier_bytes, args.fast_tier);
    settings.fast_tier_files |= args.fast_tier_files;
    given_some(&mut settings.fast_tier_log_bytes, args.fast_tier_log);
    given_some(&mut settings.fast_tier_mode, args.fast_tier_mode);
    given_some(&mut settings.fast_tier_forms, args.fast_tier_forms);
    given_some(&mut settings.keyspace, args.keyspace);
    given_some(&mut settings.structures, args.structures);
    given_some(&mut settings.f_cache_bytes, args.f_cache);
    given_some(&mut settings.policy, args.policy);
    given_some(&mut settings.phi, args.phi);
    given_some(&mut settings.overlap, args.overlap);
    given_some(&mut settings.debt_bytes, args.debt);
    given_some(&mut settings.log_sync_interval_ms, args.log_sync_interval);
    given_some(&mut settings.table_io, args.table_io);
    given_some(&mut settings.io, args.io);
    given_some(&mut settings.backend, args.backend);
    given_some(&mut settings.settle_interval_ms, args.settle_interval);
    given_some(&mut settings.flush_delay_us, args.flush_delay);
    given_some(&mut settings.partitions, args.partitions);
    settings.sync |= args.sync;
}

fn given<T>(parameter: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *parameter = value;
    }
}

fn given_some<T>(parameter: &mut Option<T>, flag: Option<T>) {
    if flag.is_some() {
        *parameter = flag;
    }
}
