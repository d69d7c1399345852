//! Gates in memory: which rules a request matches, changed rules, plans, observers, and what is theirs of bans and reports.

mod amend;
mod amend_walk;
mod ban;
mod figures;
mod figures_amended;
mod figures_walk;
mod holding;
mod ids;
mod observe;
#[path = "../common/packed/mod.rs"]
mod packed;
mod pitfalls;
mod reported;
mod reports;
mod requests;
#[path = "../common/tasks/mod.rs"]
mod tasks;
