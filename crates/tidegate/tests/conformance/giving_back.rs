//! Giving back what was taken before: over everything that limits in memory, under every algorithm.

use std::time::Duration;

use tidegate::{ManualClock, Spec};

use crate::kit::every_subject_in_memory;
use crate::subjects::{Case, InMemory};

every_subject_in_memory! { what_was_taken_long_ago_is_not_given_back_to_the_window_of_today }

const SECOND: Duration = Duration::from_secs(1);

fn what_was_taken_long_ago_is_not_given_back_to_the_window_of_today(case: &Case<'_, dyn InMemory>) {
    let clock = ManualClock::new();
    let subject = case.by(&clock, Spec::new(case.algorithm, 10, SECOND));
    let key = subject.keys()[0];
    let held: Vec<_> = (0..15)
        .map(|_| {
            let held = subject.reserve(key, 10).ok().unwrap();
            clock.advance(2 * SECOND);
            held
        })
        .collect();
    assert!(subject.check(key, 10).is_allowed());
    for settle in held {
        let _ = settle(0);
        assert!(!subject.check(key, 10).is_allowed(), "it was taken seconds ago");
    }
}
