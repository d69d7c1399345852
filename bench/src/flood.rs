//! The command `flood`: millions of keys that never come again, through a table with a cap.
//!
//! A caller uses up its limit; then hostile keys arrive, each once, each of them in use for longer
//! than the flood lasts, so that none can be dropped. Now and then the caller asks again: it must be
//! refused each time, and the table may not grow beyond its cap.

use crate::cases::Rule;
use crate::clock::Reading;
use crate::heap;
use crate::pace::Pace;
use crate::report;
use crate::subjects::{self, Flooded, Subject};
use crate::workload::Ask;
use clap::Args;
use std::time::Duration;

/// Ten units an hour: one unit taken is back after six minutes.
const RULE: Rule = Rule { capacity: 10, every: Duration::from_secs(360) };
/// Hostile keys between two requests of the caller.
const CHUNK: u64 = 1_000;
const HEADINGS: [&str; 7] = [
    "subject",
    "hostile keys admitted",
    "caller asked, freed",
    "MB at the cap",
    "MB at the end",
    "decisions per CPU second, up to the cap",
    "beyond it",
];

/// The options of this command.
#[derive(Args)]
pub struct Flood {
    /// Hostile keys.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// The most keys that a table may hold.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(2..))]
    cap: u64,
}

/// The result of one subject.
#[derive(Default)]
struct Story {
    admitted: u64,
    caller_asked: u64,
    caller_freed: u64,
    bytes_at_cap: i64,
    bytes_at_end: i64,
    to_cap: Duration,
    beyond: Duration,
}

/// Floods each subject, and prints how it came through.
///
/// # Errors
/// When a limited caller was freed, or more hostile keys were admitted than have a place.
pub fn run(wanted: &Flood) -> Result<(), String> {
    let mut rows = Vec::new();
    for flooded in subjects::flooded(RULE, wanted.cap) {
        let (story, _) = heap::grown_by(|| wanted.flood(&*flooded.candidate.build()));
        wanted.judge(&flooded, &story)?;
        rows.push(wanted.row(flooded.candidate.name, &story));
    }
    println!("\n{}", report::ruled(HEADINGS.map(str::to_owned).to_vec(), rows));
    Ok(())
}

impl Flood {
    fn flood(&self, subject: &dyn Subject) -> Story {
        let caller = Ask::of(u64::MAX);
        let mut story = Story::default();
        while subject.decide(&caller) {}
        for from in (0..self.keys).step_by(CHUNK as usize) {
            let until = self.keys.min(from + CHUNK);
            story.hostile(subject, from, until, self.cap);
            story.caller_asked += 1;
            story.caller_freed += u64::from(subject.decide(&caller));
        }
        story.bytes_at_end = heap::growth();
        story
    }

    fn judge(&self, flooded: &Flooded, story: &Story) -> Result<(), String> {
        let name = flooded.candidate.name;
        if story.caller_freed > 0 {
            return Err(format!("{name} freed its limited caller {} times", story.caller_freed));
        }
        match flooded.most_admitted {
            Some(most) if story.admitted > most => {
                Err(format!("{name} admitted {} hostile keys, not {most}", story.admitted))
            }
            _ => Ok(()),
        }
    }

    fn row(&self, name: &str, story: &Story) -> Vec<String> {
        let to_cap = self.keys.min(self.cap);
        vec![
            name.to_owned(),
            story.admitted.to_string(),
            format!("{}, {}", story.caller_asked, story.caller_freed),
            format!("{:.1}", story.bytes_at_cap as f64 / 1e6),
            format!("{:.1}", story.bytes_at_end as f64 / 1e6),
            format!("{:.0}", to_cap as f64 / story.to_cap.as_secs_f64()),
            format!("{:.0}", (self.keys - to_cap) as f64 / story.beyond.as_secs_f64()),
        ]
    }
}

impl Story {
    /// Hostile keys from `from` to before `until`, each once.
    fn hostile(&mut self, subject: &dyn Subject, from: u64, until: u64, cap: u64) {
        let asks: Vec<Ask> = (from..until).map(Ask::of).collect();
        let began = Reading::now();
        self.admitted += subject.run(&asks, Pace::Apart);
        let took = began.until_now().cpu;
        drop(asks);
        if from < cap {
            self.to_cap += took;
            self.bytes_at_cap = heap::growth();
        } else {
            self.beyond += took;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_flood_frees_nobody_and_fills_the_table_alone() {
        let wanted = Flood { keys: 30_000, cap: 3_000 };
        for flooded in subjects::flooded(RULE, wanted.cap) {
            let story = wanted.flood(&*flooded.candidate.build());
            assert_eq!((story.caller_asked, story.caller_freed), (30, 0));
            let admitted = flooded.most_admitted.unwrap_or(wanted.keys);
            assert_eq!(story.admitted, admitted, "{}", flooded.candidate.name);
            wanted.judge(&flooded, &story).unwrap();
        }
    }
}
