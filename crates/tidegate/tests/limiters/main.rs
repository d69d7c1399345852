//! Limiters in memory, alone and by key: walks beside the models, races, caps, changes.

mod amend;
mod bounded;
mod caps;
mod full_table;
mod growth;
mod large_debts;
mod late_reading;
mod options;
#[path = "../common/packed/mod.rs"]
mod packed;
mod planned;
mod planned_room;
mod races;
mod races_by_key;
mod reserve;
mod reset_at_once;
mod walk;
