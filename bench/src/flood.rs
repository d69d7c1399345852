//! The command `flood`: millions of keys that never come again, through a table with a cap.
//!
//! A caller uses up its limit; then hostile keys arrive, each once, each of them in use for longer
//! than the flood lasts, so that none can be dropped. Now and then the caller asks again: it must be
//! refused each time, and the table may not grow beyond its cap.

use crate::cases::Rule;
use crate::clock::Reading;
use crate::harness::{Case, Entry, Options, Sample};
use crate::heap;
use crate::pace::Pace;
use crate::subjects::{self, Flooded, Subject};
use crate::table::{Column, median_of};
use crate::workload::Ask;
use std::time::Duration;

/// Ten units an hour: one unit taken is back after six minutes.
const RULE: Rule = Rule { capacity: 10, every: Duration::from_secs(360) };
/// Hostile keys between two requests of the caller.
const CHUNK: u64 = 1_000;
const COLUMNS: &[Column] = &[
    median_of("admitted", "hostile keys admitted", 0),
    median_of("asked", "caller asked", 0),
    median_of("freed", "freed", 0),
    median_of("mb_at_cap", "MB at the cap", 1),
    median_of("mb", "MB at the end", 1),
    median_of("per_s_to_cap", "decisions per CPU second, up to the cap", 0),
    median_of("per_s_beyond", "beyond it", 0),
];
const FLOOD: Flood = Flood { keys: 10_000_000, cap: 1_000_000 };

/// So many hostile keys, through a table that may hold so many.
#[derive(Clone, Copy)]
struct Flood {
    keys: u64,
    cap: u64,
}

/// The flood of each table.
pub fn cases(_: &Options) -> Vec<Case> {
    let flooded = subjects::flooded(RULE, FLOOD.cap).into_iter();
    let subjects = flooded
        .map(|flooded| Entry::each(flooded.candidate.name, move |_| FLOOD.through(&flooded)));
    vec![Case::once("ten million hostile keys", COLUMNS, subjects.collect())]
}

impl Flood {
    /// Floods a table.
    ///
    /// # Errors
    /// When the limited caller was freed, or more hostile keys were admitted than have a place.
    fn through(self, flooded: &Flooded) -> Result<Sample, String> {
        let (story, _) = heap::grown_by(|| self.flood(&*flooded.candidate.build()));
        if story.freed > 0 {
            return Err(format!("its limited caller was freed {} times", story.freed));
        }
        match flooded.most_admitted {
            Some(most) if story.admitted > most => {
                Err(format!("{} hostile keys were admitted, not {most}", story.admitted))
            }
            _ => Ok(self.values(&story)),
        }
    }

    fn flood(self, subject: &dyn Subject) -> Story {
        let caller = Ask::of(u64::MAX);
        let mut story = Story::default();
        while subject.decide(&caller) {}
        for from in (0..self.keys).step_by(CHUNK as usize) {
            let until = self.keys.min(from + CHUNK);
            story.hostile(subject, from, until, self.cap);
            story.asked += 1;
            story.freed += u64::from(subject.decide(&caller));
        }
        story.bytes_at_end = heap::growth();
        story
    }

    fn values(self, story: &Story) -> Sample {
        let to_cap = self.keys.min(self.cap);
        vec![
            ("admitted", story.admitted as f64),
            ("asked", story.asked as f64),
            ("freed", story.freed as f64),
            ("mb_at_cap", story.bytes_at_cap as f64 / 1e6),
            ("mb", story.bytes_at_end as f64 / 1e6),
            ("per_s_to_cap", to_cap as f64 / story.to_cap.as_secs_f64()),
            ("per_s_beyond", (self.keys - to_cap) as f64 / story.beyond.as_secs_f64()),
        ]
    }
}

/// The course of a flood.
#[derive(Default)]
struct Story {
    admitted: u64,
    asked: u64,
    freed: u64,
    bytes_at_cap: i64,
    bytes_at_end: i64,
    to_cap: Duration,
    beyond: Duration,
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
    fn a_small_flood_frees_no_caller_and_fills_the_table_alone() {
        let small = Flood { keys: 30_000, cap: 3_000 };
        for flooded in subjects::flooded(RULE, small.cap) {
            let story = small.flood(&*flooded.candidate.build());
            assert_eq!((story.asked, story.freed), (30, 0));
            let admitted = flooded.most_admitted.unwrap_or(small.keys);
            assert_eq!(story.admitted, admitted, "{}", flooded.candidate.name);
            small.through(&flooded).unwrap();
            let less = Flooded { most_admitted: Some(admitted - 1), ..flooded };
            assert!(small.through(&less).unwrap_err().contains("hostile keys were admitted"));
        }
    }
}
