//! Changed values in the scripts, by examples: what is stored, and for how long. Walks that compare decisions with gates
//! in memory and with models are in `several.rs`, `giving_back.rs` and `tests/conformance/changed_values`.

mod revisions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use tidegate::script::{Call, CallResult, ScriptLimiter, ScriptStep, Surplus};
use tidegate::{
    AlgorithmKind, Clock, Decision, Descriptor, Gate, Limit, Policy, Request, RequestLimit, Rule,
    RuleSpec, Spec, Timestamp,
};

use crate::server::policies::ten;
use crate::server::{Client, one};
use crate::several::Hand;

const MINUTE: Duration = Duration::from_secs(60);
const MINUTE_US: u64 = 60_000_000;

/// So many seconds after a time of our days.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_763_700_000_000_000 + seconds * 1_000_000)
}

/// A rule of so many units a minute.
fn minute(algorithm: AlgorithmKind, limit: u64) -> Rule {
    Rule::new(Spec::new(algorithm, limit, MINUTE)).unwrap()
}

/// The rule with 7 units in its window.
fn seven(rule: &Rule) -> Rule {
    let mut spec = *rule.spec();
    spec.limit = Limit::Units(7);
    spec.capacity = spec.capacity.map(|_| 6);
    Rule::new(spec).unwrap()
}

#[test]
fn a_refused_request_or_a_look_leaves_what_is_stored_as_it_was() {
    let client = Client::start();
    let full = minute(AlgorithmKind::FixedWindow, 1);
    let window = minute(AlgorithmKind::SlidingWindow, 5);
    for (name, rule) in ten(MINUTE) {
        let key = name.as_bytes();
        for second in 0..4 {
            let one = one(key, &rule, 1);
            assert!(client.step(&[one], ScriptStep::Ask, Some(at(second))).allowed);
        }
        let stored = || client.run(&[b"DUMP", key]).unwrap();
        let before = stored();
        for other in [seven(&rule), window.clone()] {
            let limiter = |cost| one(key, &other, cost);
            let from_request = |cost| limiter(cost).from_request();
            for (one, step, allowed) in [
                (from_request(4), ScriptStep::Ask, false),
                (from_request(4), ScriptStep::Decide, false),
                (from_request(0), ScriptStep::Ask, true),
                (limiter(0).looked_up(), ScriptStep::Ask, true),
                (from_request(1), ScriptStep::Peek, true),
                (limiter(1).looked_up(), ScriptStep::Peek, true),
            ] {
                assert_eq!(client.step(&[one], step, Some(at(5))).allowed, allowed, "{name}");
            }
            let refusing = one("full", &full, 2);
            let answer = client.step(&[from_request(1), refusing], ScriptStep::Ask, Some(at(5)));
            assert!(!answer.allowed && answer.decisions[0].is_allowed());
            assert_eq!(stored(), before, "{name}");
        }
        // A rule that was changed, or another plan, takes effect when it is denied.
        let planned = one(key, &window, 4).looked_up();
        assert!(!client.step(&[planned], ScriptStep::Ask, Some(at(5))).allowed);
        let followed = stored();
        assert_ne!(followed, before);
        let found_changed = client.changed.get();
        for _ in 0..2 {
            let changed = one(key, &rule, 8);
            assert!(!client.step(&[changed], ScriptStep::Ask, Some(at(5))).allowed);
            assert_ne!(stored(), followed);
        }
        assert_eq!(client.changed.get(), found_changed + 1, "{name}: amended once and for all");
    }
}

#[test]
fn what_a_clock_that_went_back_has_moved_expires_by_the_time_of_the_server() {
    let client = Client::start();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    let ahead = Timestamp::from_micros(now + 2 * 3_600_000_000);
    for (name, rule) in ten(MINUTE) {
        let other = seven(&rule);
        for (how, from_request, step) in [
            ("from a request", true, ScriptStep::Ask),
            ("verdict", true, ScriptStep::Decide),
            ("looked up", false, ScriptStep::Peek),
        ] {
            let key = format!("{name}: {how}");
            let limiter = |rule, cost| one(&key, rule, cost);
            assert!(client.step(&[limiter(&rule, 8)], ScriptStep::Ask, Some(ahead)).allowed);
            let asked = limiter(&other, 4);
            let asked = if from_request { asked.from_request() } else { asked.looked_up() };
            assert!(!client.step(&[asked], step, None).allowed);
            let lives_ms = client.int(&["PTTL", &key]);
            assert!((1..=120_000).contains(&lives_ms), "{key}: {lives_ms}");
            let after = client.step(&[limiter(&rule, 1)], ScriptStep::Peek, None);
            let Decision { limit, remaining, .. } = after.decisions[0];
            assert!((limit, remaining <= 3) == (10, true), "{key}: {after:?}");
        }
    }
}

#[test]
fn a_bucket_that_begins_with_too_few_tokens_begins_when_it_is_denied() {
    let client = Client::start();
    let window = minute(AlgorithmKind::FixedWindow, 10);
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(10));
    spec.initial = Some(1);
    let bucket = Rule::new(spec).unwrap();
    let own = RequestLimit::new(bucket.clone());
    let clock = Hand(Arc::new(AtomicU64::new(at(0).as_micros())));
    let rule = RuleSpec::new("all", *window.spec()).limit_from_request();
    let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock.clone());
    for (own, cost, seconds) in
        [(None, 3, 0), (Some(&own), 5, 1), (Some(&own), 5, 7), (Some(&own), 5, 1)]
    {
        clock.0.fetch_add(seconds * 1_000_000, SeqCst);
        let descriptor = Descriptor::new(&[]).cost(cost);
        let descriptors = [own.map_or(descriptor, |own| descriptor.limit(own))];
        let here = gate.check(&Request::new("default", &descriptors));
        let limiter = ScriptLimiter::new(b"begins", own.map_or(&window, |_| &bucket), cost);
        let limiter = limiter.map(|one| if own.is_some() { one.from_request() } else { one });
        let there = client.step(&[limiter.unwrap()], ScriptStep::Ask, Some(clock.now()));
        assert_eq!(there.decisions, [*here.matched()[0].decision()]);
        assert_eq!(there.allowed, here.is_allowed(), "it fills from when it was denied");
    }
}

#[test]
fn a_wait_for_other_values_is_remembered_with_the_answer() {
    let client = Client::start();
    let log = minute(AlgorithmKind::SlidingLog, 5);
    let other = minute(AlgorithmKind::SlidingWindow, 3);
    let five = one("shadow", &log, 5);
    assert!(client.step(&[five], ScriptStep::Ask, Some(at(0))).allowed);
    let shadow = one("shadow", &other, 1).from_request().shadow();
    let both = [shadow, one("enforced", &log, 1)];
    let ask = |seconds| {
        let call = Call::new(&both, ScriptStep::Ask, Some(at(seconds)));
        let mut call = call.remembering(b"answer".to_vec(), MINUTE.into(), None);
        if call.answer(&both, &client.ask(&call)) == Ok(CallResult::Changed) {
            call = call.amending();
        }
        client.decide(&call, &both)
    };
    let (first, again) = (ask(20), ask(30));
    assert!(first.allowed && !first.repeated && again.repeated);
    let wait = first.decisions[0].retry_after();
    assert_eq!(wait, Some(Duration::from_secs(40)), "when the log has let go of what it counts");
    assert_eq!(first.decisions, again.decisions);
}

#[test]
fn nothing_is_given_back_where_one_of_the_keys_holds_what_is_not_known() {
    let client = Client::start();
    let rule = minute(AlgorithmKind::SlidingLog, 10);
    let (known, unknown) = (b"known".as_slice(), b"unknown".as_slice());
    let seven = one(known, &rule, 7);
    assert!(client.step(&[seven], ScriptStep::Ask, Some(at(0))).allowed);
    let stored = || client.run(&[b"DUMP", known]).unwrap();
    let before = stored();
    let give_back = || {
        let surplus = [known, unknown].map(|key| Surplus { key, units: 5, ..Surplus::default() });
        let call = Call::giving_back(&surplus, Some(at(0)));
        call.given_back(&client.ask(&call))
    };
    // The version that stored states of now begin with.
    let ask = Call::new(&[one(known, &rule, 1)], ScriptStep::Ask, None);
    let version = ask.args[0][0];
    // A later version, a later kind, and bytes of no program.
    for (foreign, other) in [([9, 1], Some(9)), ([version, 31], None), ([b'x', b'y'], None)] {
        let foreign = [&foreign[..], &[0; 60]].concat();
        client.run(&[b"SET", unknown, &foreign]).unwrap();
        assert_eq!(give_back().unwrap_err().other_version(), other);
        assert_eq!(stored(), before, "{other:?}");
    }
    client.run(&[b"DEL", unknown]).unwrap();
    give_back().unwrap();
    let look = one(known, &rule, 1);
    assert_eq!(client.step(&[look], ScriptStep::Peek, Some(at(0))).decisions[0].remaining, 8);
}

/// Units that were taken before the level was lowered come off what makes no caller wait.
#[test]
fn what_was_taken_before_a_lower_plan_does_not_come_off_the_level_that_it_left() {
    let client = Client::start();
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let [high, low] = [1_000, 10].map(|capacity| {
            let mut spec = Spec::new(algorithm, 60, MINUTE);
            spec.capacity = Some(capacity);
            Rule::new(spec).unwrap()
        });
        let limiter = |rule, units| one(algorithm.name(), rule, units).looked_up();
        let ask = |rule, cost, seconds| {
            client.step(&[limiter(rule, cost)], ScriptStep::Ask, Some(at(seconds))).decisions[0]
        };
        let undo = |units, since, seconds| {
            let limiter = limiter(&low, units).turned_out(0).taken_at(Some(at(since)));
            let answer = client.step(&[limiter], ScriptStep::Undo, Some(at(seconds)));
            answer.settled().next().unwrap().returned
        };
        assert!(ask(&high, 500, 0).is_allowed());
        assert_eq!(ask(&low, 1, 1).retry_after(), Some(MINUTE), "{algorithm}");
        assert_eq!(undo(100, 0, 1), 99, "one has drained");
        assert_eq!(ask(&low, 1, 1).retry_after(), Some(MINUTE), "{algorithm}: as before");
        assert!(ask(&low, 1, 61).is_allowed() && !ask(&low, 1, 61).is_allowed());
        assert_eq!(undo(1, 61, 61), 1);
        assert!(ask(&low, 1, 61).is_allowed(), "{algorithm}: units taken since come back");
        // Of 499 units 99 came back, 60 drained, and a unit was taken.
        assert_eq!(ask(&high, 0, 61).remaining, 1_000 - (499 - 99 - 60 + 1), "{algorithm}");
    }
}

/// A limiter expires when all usage has drained, even if no unit is used any more by its level.
#[test]
fn a_lowered_level_expires_when_nothing_would_count_under_a_higher_plan() {
    use AlgorithmKind::{LeakyBucket, LeakyQueue, TokenBucket};
    let client = Client::start();
    let now_us = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    for algorithm in [TokenBucket, LeakyBucket, LeakyQueue] {
        let key = algorithm.name();
        for (limit, cost) in [(10_000, 2_600), (60, 1)] {
            let rule = minute(algorithm, limit);
            let one = one(&key, &rule, cost).looked_up();
            let _ = client.step(&[one], ScriptStep::Ask, None);
        }
        let expires_ms = client.int(&["PEXPIRETIME", key]) as u64;
        let drained_ms = now_us / 1_000 + 2_599 * 1_000;
        assert!(expires_ms.abs_diff(drained_ms) < 60_000, "{algorithm}: {expires_ms}");
    }
}

/// A clock that stepped back to the epoch has moved the lowered window before it, and its excess is none of the first.
#[test]
fn an_excess_of_the_window_before_the_epoch_is_taken_off_the_first_window() {
    let client = Client::start();
    let [high, low] = [100, 10].map(|limit| minute(AlgorithmKind::SlidingCounter, limit));
    let ask = |rule, cost, at_us| {
        let one = one("epoch", rule, cost).looked_up();
        client.step(&[one], ScriptStep::Ask, Some(Timestamp::from_micros(at_us))).decisions[0]
    };
    assert!(ask(&high, 100, 5 * MINUTE_US).is_allowed());
    assert!(!ask(&low, 1, 5 * MINUTE_US).is_allowed());
    // Ten of the hundred units count, and half of their window is still inside.
    assert!(ask(&low, 5, 6 * MINUTE_US + MINUTE_US / 2).is_allowed());
    let decision = ask(&low, 0, 0);
    assert_eq!((decision.remaining, decision.reset_after.as_micros()), (0, 2 * MINUTE_US));
    assert_eq!(ask(&low, 0, MINUTE_US - 1).remaining, 4);
}

/// Units that come back to a level which a lower limit has eased, and which is empty, do not fill it.
#[test]
fn an_eased_level_that_was_empty_stays_empty_when_units_come_back_and_the_clock_steps_back() {
    let client = Client::start();
    let [high, low] = [1_000, 10].map(|capacity| {
        let mut spec = *minute(AlgorithmKind::TokenBucket, 60).spec();
        spec.capacity = Some(capacity);
        Rule::new(spec).unwrap()
    });
    let step = |rule: &Rule, cost, step, seconds| {
        let one = one("eased", rule, cost);
        client.step(&[one], step, Some(at(seconds))).decisions[0]
    };
    assert!(step(&high, 500, ScriptStep::Ask, 0).is_allowed());
    step(&low, 0, ScriptStep::Ask, 0);
    let left_at_80 = || step(&low, 1, ScriptStep::Peek, 80).remaining;
    assert_eq!(left_at_80(), 10);
    step(&low, 2, ScriptStep::Settle, 100);
    assert_eq!(left_at_80(), 10);
}
