//! The simulator of Thalweg: the production code on one thread, on a disk that loses, tears and refuses.
//!
//! `docs/simulator.md` describes how it works and how to read a violation.

mod answers;
mod bugs;
mod clients;
mod damage;
mod every_io;
mod faults;
mod keys;
mod loss;
mod oracle;
mod pace;
mod pacing;
mod parts;
mod plan;
mod rng;
mod runnable;
mod scheduler;
mod session;
mod sim;
mod slots;
mod spot;
mod stage;
mod tier_plan;
mod timers;
mod traced;
mod violation;
mod workload;
mod world;

pub use bugs::{BUGS, Catch, bug_named, catch_bug, table as bug_table};
pub use clients::Client;
pub use damage::{DamageReport, run as run_damage};
pub use every_io::{EveryIoReport, run as run_every_io};
pub use faults::{FaultsReport, run as run_faults};
pub use oracle::{Oracle, Survival};
pub use parts::in_processes;
pub use plan::{Plan, use_backend};
pub use rng::Rng;
pub use scheduler::{SimClock, SimEntropy, SimScheduler, environment};
pub use sim::{report, run_seed, run_seed_as_it_was, run_seed_with_defaults};
pub use slots::CLIENTS_MAX;
pub use tier_plan::TierPlan;
pub use world::{Hook, PATIENCE_STEPS, World};
