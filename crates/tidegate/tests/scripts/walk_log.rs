//! Logs with many entries, in rings that wrap, grow and go back to being few, held equal to the core.
//!
//! `TIDEGATE_LONG=1` walks 200,000 steps.

use crate::server::{Client, held, long, one};
use std::time::Duration;
use testkit::traffic::Rng;
use tidegate::script::ScriptStep;
use tidegate::{AlgorithmKind, Layout, Rule, Spec, Timestamp};

/// A time of our days.
const TODAY_US: u64 = 1_763_700_000_000_000;

struct Shape {
    limit: u64,
    window_us: u64,
    resolution_us: u64,
    /// Most that passes between two requests.
    pause_us: u64,
    layout: Layout,
    /// True if the clock jumps, so that all units leave.
    pauses: bool,
}

fn rule(shape: &Shape) -> Rule {
    let window = Duration::from_micros(shape.window_us);
    let mut spec = Spec::new(AlgorithmKind::SlidingLog, shape.limit, window);
    spec.resolution = Some(Duration::from_micros(shape.resolution_us));
    spec.layout = Some(shape.layout);
    Rule::new(spec).unwrap()
}

/// The next reading of the clock: mostly a little later, sometimes late enough for most units to leave, sometimes
/// earlier.
fn next(rng: &mut Rng, shape: &Shape, at_us: u64) -> u64 {
    match rng.below(1000) {
        975..986 | 995 if !shape.pauses => at_us + rng.below(shape.pause_us + 1),
        0..975 => at_us + rng.below(shape.pause_us + 1),
        975..985 => at_us + rng.below(shape.window_us),
        985 => at_us + 2 * shape.window_us,
        986..995 => at_us - rng.below(shape.window_us / 4),
        995 => at_us - 2 * shape.window_us,
        _ => at_us,
    }
}

/// Walks; returns the maximum bytes that the log took during the walk.
fn walk(client: &Client, key: &str, shape: &Shape, steps: usize) -> i64 {
    let rng = &mut Rng::new(shape.limit);
    let mut rule = rule(shape);
    let mut core = held::limiter(&rule);
    let (mut at_us, mut most_bytes) = (TODAY_US, 0);
    for turn in 0..steps {
        at_us = next(rng, shape, at_us);
        let at = Timestamp::from_micros(at_us);
        if rng.below(2_000) == 0 {
            let limit = rng.pick([shape.limit, shape.limit / 3, shape.limit * 2]);
            let next = self::rule(&Shape { limit, ..*shape });
            if next != rule {
                core = core.amend(at, &next);
            }
            rule = next;
        }
        let cost = rng.pick([1, 1, 1, 1, 1, 1, 2, 3, 17, shape.limit / 10]);
        let (step, actual) = match rng.below(100) {
            0..50 => (ScriptStep::Ask, cost),
            50..80 => (ScriptStep::Decide, cost),
            80..90 => (ScriptStep::Peek, cost),
            90..98 => (ScriptStep::Settle, rng.below(cost)),
            _ => (ScriptStep::Settle, cost + rng.below(30)),
        };
        let limiter = one(&key, &rule, cost).turned_out(actual);
        let answer = client.step(&[limiter], step, Some(at));
        let (allowed, decision) = core.step(step, at, cost, actual);
        let context = || format!("{key} turn {turn}: {step:?} {cost} ({actual}) at {at_us}");
        assert_eq!(answer.allowed, allowed, "{}", context());
        if step != ScriptStep::Decide {
            assert_eq!(answer.decisions, [decision], "{}", context());
        }
        if turn % 64 == 0 {
            most_bytes = bytes(client, key, shape).max(most_bytes);
        }
    }
    most_bytes
}

/// The size of the log: bytes of the string, or members.
fn bytes(client: &Client, key: &str, shape: &Shape) -> i64 {
    let command = if shape.layout == Layout::String { "STRLEN" } else { "ZCARD" };
    client.int(&[command, key])
}

#[test]
fn logs_of_many_entries_are_those_of_the_core() {
    let client = Client::start();
    let steps = if long() { 50_000 } else { 4_000 };
    for (limit, window_us, resolution_us, pause_us) in [
        (150, 1_000_000, 1, 9_000),
        (400, 1_000_000, 1_000, 3_000),
        (1_000, 1_000_000, 1, 1_500),
        (20_000, 1_000_000, 1, 300),
        (20_000, 60_000_000, 1, 10_000),
    ] {
        let layout = Layout::String;
        let shape = Shape { limit, window_us, resolution_us, pause_us, layout, pauses: true };
        let most = walk(&client, &format!("log:{limit}:{window_us}"), &shape, steps);
        assert!(most > 1_000, "no ring was there: {most} bytes");
    }
}

#[test]
fn sorted_sets_of_many_members_are_those_of_the_core() {
    let client = Client::start();
    let steps = if long() { 100_000 } else { 4_000 };
    for (limit, resolution_us, pause_us) in [(150, 1, 9_000), (1_000, 1_000, 1_500)] {
        let (window_us, layout) = (1_000_000, Layout::SortedSet);
        let shape = Shape { limit, window_us, resolution_us, pause_us, layout, pauses: true };
        let most = walk(&client, &format!("set:{limit}"), &shape, steps);
        assert!(most > 50, "few were there: {most} members");
    }
}

/// Entries are counted from a base that moves on before 48 bits are full, in the tenth year.
#[test]
fn a_log_that_never_pauses_for_ten_years_goes_on() {
    let client = Client::start();
    let day_us = 86_400_000_000;
    let (window_us, pause_us) = (300 * day_us, 2 * day_us);
    let layout = Layout::String;
    let shape = Shape { limit: 300, window_us, resolution_us: 1, pause_us, layout, pauses: false };
    assert!(walk(&client, "log:years", &shape, 8_000) > 1_000);
}
