//! Plans that fall and rise again, by examples: no caller waits longer than one new window, and the store forgets nothing.

use std::time::Duration;

use tidegate::script::{DecidedStep, ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Decision, Micros, Rule, Spec, Timestamp};

use crate::server::Client;

const NOW_US: u64 = 1_763_700_000_000_000;
const MINUTE_US: u64 = 60_000_000;
const LEVELS: [AlgorithmKind; 3] =
    [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue];

/// A limiter whose plan a caller looks up.
struct Planned<'c> {
    client: &'c Client,
    key: Vec<u8>,
    at_us: u64,
}

impl<'c> Planned<'c> {
    fn new(client: &'c Client, key: &str) -> Self {
        Self { client, key: key.as_bytes().to_vec(), at_us: NOW_US }
    }

    fn step(&self, one: ScriptLimiter<'_>, step: ScriptStep) -> DecidedStep {
        self.client.step(&[one.looked_up()], step, Some(Timestamp::from_micros(self.at_us)))
    }

    fn ask(&self, rule: &Rule, cost: u64) -> Decision {
        self.step(ScriptLimiter::new(&self.key, rule, cost).unwrap(), ScriptStep::Ask).decisions[0]
    }
}

fn rule(algorithm: AlgorithmKind, limit: u64, capacity: u64) -> Rule {
    let mut spec = Spec::new(algorithm, limit, Duration::from_secs(60));
    spec.capacity = LEVELS.contains(&algorithm).then_some(capacity);
    Rule::new(spec).unwrap()
}

fn wait_us(decision: &Decision) -> u64 {
    decision.retry_after_micros().map_or(u64::MAX, Micros::as_micros)
}

/// Units that were taken before the level was lowered come off what makes no caller wait.
#[test]
fn what_was_taken_before_a_lower_plan_does_not_come_off_the_level_that_it_left() {
    let client = Client::start();
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let mut one = Planned::new(&client, &format!("before:{algorithm:?}"));
        let (high, low) = (rule(algorithm, 60, 1_000), rule(algorithm, 60, 10));
        let of = |one: &Planned<'_>, rule, units, since_us, step| {
            let limiter = ScriptLimiter::new(&one.key, rule, units).unwrap();
            let since = Timestamp::from_micros(since_us);
            let answer = one.step(limiter.turned_out(0).taken_at(Some(since)), step);
            answer.settled().next().unwrap().returned
        };
        let taken_us = one.at_us;
        assert!(one.ask(&high, 500).is_allowed());
        one.at_us += 1_000_000;
        let wait = wait_us(&one.ask(&low, 1));
        assert_eq!(wait, MINUTE_US, "{algorithm}");
        assert_eq!(of(&one, &low, 100, taken_us, ScriptStep::Undo), 99, "one has drained");
        assert_eq!(wait_us(&one.ask(&low, 1)), MINUTE_US, "{algorithm}: as before");
        one.at_us += MINUTE_US;
        let taken_us = one.at_us;
        assert!(one.ask(&low, 1).is_allowed() && !one.ask(&low, 1).is_allowed());
        assert_eq!(of(&one, &low, 1, taken_us, ScriptStep::Undo), 1);
        assert!(one.ask(&low, 1).is_allowed(), "{algorithm}: units taken since come back");
        // Of 499 units 99 came back, 60 drained, and a unit was taken.
        assert_eq!(one.ask(&high, 0).remaining, 1_000 - (499 - 99 - 60 + 1), "{algorithm}");
    }
}

/// A limiter expires when all usage has drained, even if no unit is used any more by its level.
#[test]
fn a_lowered_level_expires_when_nothing_would_count_under_a_higher_plan() {
    let client = Client::start();
    let now_us = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    for algorithm in LEVELS {
        let key = format!("expires:{algorithm:?}");
        let (high, low) = (rule(algorithm, 10_000, 10_000), rule(algorithm, 60, 60));
        for (rule, cost) in [(&high, 2_600), (&low, 1)] {
            let one = ScriptLimiter::new(key.as_bytes(), rule, cost).unwrap().looked_up();
            let _ = client.step(&[one], ScriptStep::Ask, None);
        }
        let expires_ms = client.int(&["PEXPIRETIME", &key]) as u64;
        let drained_ms = now_us / 1_000 + 2_599 * 1_000;
        assert!(expires_ms.abs_diff(drained_ms) < 60_000, "{algorithm}: {expires_ms}");
    }
}

/// A clock that stepped back to the epoch has moved the lowered window before it, and its excess is none of the first.
#[test]
fn an_excess_of_the_window_before_the_epoch_is_taken_off_the_first_window() {
    let client = Client::start();
    let mut one = Planned::new(&client, "epoch");
    let high = rule(AlgorithmKind::SlidingCounter, 100, 0);
    let low = rule(AlgorithmKind::SlidingCounter, 10, 0);
    one.at_us = 5 * MINUTE_US;
    assert!(one.ask(&high, 100).is_allowed());
    assert!(!one.ask(&low, 1).is_allowed());
    // Ten of the hundred units count, and half of their window is still inside.
    one.at_us = 6 * MINUTE_US + MINUTE_US / 2;
    assert!(one.ask(&low, 5).is_allowed());
    one.at_us = 0;
    let decision = one.ask(&low, 0);
    assert_eq!((decision.remaining, decision.reset_after.as_micros()), (0, 2 * MINUTE_US));
    one.at_us = MINUTE_US - 1;
    assert_eq!(one.ask(&low, 0).remaining, 4);
}
