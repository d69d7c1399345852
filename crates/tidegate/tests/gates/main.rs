//! Gates in memory: which rules a request meets, several at once, reports, bans, outcomes.

mod amend;
mod amend_walk;
mod ban;
mod figures;
mod figures_amended;
mod figures_walk;
mod holding;
mod ids;
mod observe;
mod outcome;
#[path = "../common/packed/mod.rs"]
mod packed;
mod pitfalls;
mod replace;
mod replace_history;
mod replace_waiting;
mod replace_walk;
mod reported;
mod reports;
mod requests;
mod several;
#[path = "../common/tasks/mod.rs"]
mod tasks;
