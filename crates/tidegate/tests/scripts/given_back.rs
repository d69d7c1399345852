//! Units that scripts give back, in single cases: the room they make, and the part that is kept.

use std::time::Duration;

use crate::server::policies::ten;
use crate::server::{Client, one};
use testkit::model::{self, Model, Policy};
use tidegate::script::{
    Call, CallResult, DecidedStep, RedisReply, Revision, ScriptLimiter, ScriptStep, Surplus,
};
use tidegate::{AlgorithmKind, Rule, Spec, Timestamp, Token};

/// A time of our days, at the beginning of a second.
const TODAY_US: u64 = 1_763_700_000_000_000;
const S: u64 = 1_000_000;

fn step(client: &Client, limiter: ScriptLimiter<'_>, step: ScriptStep, at_us: u64) -> DecidedStep {
    client.step(&[limiter], step, Some(Timestamp::from_micros(at_us)))
}

/// A successor that lost the state may have a clock that runs late. Then the time of the units that it never took lies
/// ahead.
#[test]
fn what_a_lost_state_took_is_not_given_back_under_a_clock_that_stepped_back() {
    let client = &Client::start();
    for (key, rule) in ten(Duration::from_secs(1)) {
        let limiter = |cost| one(&key, &rule, cost);
        assert!(step(client, limiter(8), ScriptStep::Ask, TODAY_US).allowed, "{key}");
        let lost_us = TODAY_US + 3_600 * S;
        let settles = limiter(6).taken_at(Some(Timestamp::from_micros(lost_us)));
        let settles = settles.of_permit(Token::from_micros(lost_us));
        for settles in [settles.clone(), settles.clone().reserving(), settles.leased()] {
            let settled = step(client, settles, ScriptStep::Settle, TODAY_US + 1);
            assert_eq!(settled.settled().next().unwrap().returned, 0, "{key}");
            assert!(!step(client, limiter(4), ScriptStep::Ask, TODAY_US + 1).allowed, "{key}");
        }
    }
}

/// A bar stands next to the state, in the same slot, and is gone when it is.
#[test]
fn what_is_kept_of_a_reset_expires_with_what_it_forgot() {
    let client = &Client::start();
    // The server's own clock passes: a window of a second may end between two commands.
    for (key, rule) in ten(Duration::from_secs(3_600)) {
        let limiter = one(&key, &rule, 3);
        assert!(client.step(&[limiter], ScriptStep::Ask, None).allowed);
        let lives = client.int(&["PTTL", &key]);
        let call = Call::reset(vec![key.clone().into_bytes()], Vec::new(), None);
        assert_eq!(client.ask(&call), RedisReply::Int(1));
        assert_eq!(client.int(&["EXISTS", &key]), 0, "{key}");
        let bar = format!("{key}{{{key}}}?taken");
        assert!((0..=lives).contains(&client.int(&["PTTL", &bar])), "{key}");
        let (script, keys) = Call::remove(vec![key.clone().into_bytes()]);
        client.eval(&script, &keys, &[]);
        assert_eq!(client.int(&["EXISTS", &bar]), 0, "{key}");
    }
}

/// A key lives as long as the units that came back would have: a node that knows of them would take it for lost.
#[test]
fn a_later_revision_of_the_same_values_moves_no_expiry_back() {
    let client = &Client::start();
    for (key, rule) in ten(Duration::from_secs(3_600)) {
        let limiter = |cost, revision| {
            let revision = Revision::new(0, Timestamp::from_micros(revision));
            one(&key, &rule, cost).of_revision(revision)
        };
        let took = client.step(&[limiter(8, 1)], ScriptStep::Ask, None);
        let settles = limiter(8, 1).turned_out(2).taken_at(Some(took.at));
        let settles = settles.of_permit(Token::from_micros(took.at.as_micros()));
        client.step(&[settles], ScriptStep::Settle, None);
        let lives = client.int(&["PTTL", &key]);
        assert!(client.step(&[limiter(1, 2)], ScriptStep::Ask, None).allowed, "{key}");
        // Some of it has passed; units of a bucket would take half an hour less.
        assert!(client.int(&["PTTL", &key]) > lives - 60_000, "{key}");
    }
}

#[test]
fn each_limiter_of_a_settlement_has_its_own_time() {
    let client = &Client::start();
    let rules = ten(Duration::from_secs(1));
    let window = |name: &str| &rules.iter().find(|(key, _)| key == name).unwrap().1;
    let (fixed, log) = (window("fixed_window"), window("sliding_log"));
    let limiter = |key: &'static str, rule, cost| one(key, rule, cost);
    let at_us = TODAY_US + 900_000;
    step(client, limiter("one", fixed, 4), ScriptStep::Ask, at_us);
    step(client, limiter("other", log, 4), ScriptStep::Ask, at_us + 150_000);
    let since = |us| Some(Timestamp::from_micros(us));
    let both = [
        limiter("one", fixed, 4).taken_at(since(at_us)),
        limiter("other", log, 4).taken_at(since(at_us + 150_000)),
    ];
    let at = Timestamp::from_micros(at_us + 150_001);
    let call = Call::new(&both, ScriptStep::Settle, Some(at));
    let answer = client.decide(&call, &both);
    let returned: Vec<_> = answer.settled().map(|one| one.returned).collect();
    assert_eq!(returned, [0, 4], "the window of the first has ended");
}

/// A bucket of a minute.
fn bucket(limit: u64) -> Rule {
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(60));
    spec.capacity = Some(60);
    Rule::new(spec).unwrap()
}

#[test]
fn a_rule_that_changed_meanwhile_gives_nothing_back() {
    let client = Client::start();
    let of = |rule, cost| one("changed", rule, cost);
    let (old, new) = (bucket(60), bucket(120));
    assert!(step(&client, of(&old, 4), ScriptStep::Ask, TODAY_US).allowed);
    let since = Timestamp::from_micros(TODAY_US);
    let limiters = [of(&new, 4)];
    let call = Call::undo(&limiters, &[since], Some(since));
    assert_eq!(call.answer(&limiters, &client.ask(&call)), Ok(CallResult::Changed));
    let left = step(&client, of(&old, 0), ScriptStep::Ask, TODAY_US).decisions[0].remaining;
    assert_eq!(left, 56);
}

/// A reservation that is older than the time to fill the bucket is open when the limit changes for the first time: the
/// level was never low since, so all of it comes back.
#[test]
fn a_changed_limit_keeps_the_mark_of_an_old_reservation() {
    let client = &Client::start();
    let old = bucket(60);
    for limit in [61, 120, 30] {
        let (key, new) = (format!("k{limit}"), bucket(limit));
        let of = |rule, cost| one(&key, rule, cost);
        let mut policy = Policy::new(model::AlgorithmKind::TokenBucket, 60, 60 * S);
        policy.capacity = Some(60);
        let mut model = Model::new(policy.clone());
        let reserved = step(client, of(&old, 30).reserving(), ScriptStep::Ask, TODAY_US);
        assert!(reserved.allowed && model.reserve(TODAY_US, 30).allowed);
        for second in 0..130 {
            let (cost, at_us) = (if second == 0 { 30 } else { 1 }, TODAY_US + second * S);
            assert!(step(client, of(&old, cost), ScriptStep::Ask, at_us).allowed, "{key}");
            model.step(at_us, cost);
        }
        let at_us = TODAY_US + 130 * S;
        step(client, of(&new, 0), ScriptStep::Ask, at_us);
        policy.limit = limit;
        model.replace(at_us, policy);
        let settles = of(&new, 30).reserving().taken_at(Some(reserved.at));
        let settled =
            step(client, settles, ScriptStep::Settle, at_us + 1).settled().next().unwrap();
        let late = model.settle_since(at_us + 1, TODAY_US, 30, 0).late;
        assert_eq!((settled.returned, settled.late), (30, 0), "{key}");
        assert_eq!(late, 0, "{key}: in the model");
    }
}

/// Values of a newer revision that are dated back to the last unit keep what is known of a reservation.
#[test]
fn values_dated_back_keep_the_mark_of_a_reservation() {
    let client = &Client::start();
    let (old, new) = (bucket(60), bucket(120));
    for (key, next) in [("changed", (&new, 2)), ("same", (&old, 1))] {
        let limiter = |(rule, revision), cost| {
            let revision = Revision::new(0, Timestamp::from_micros(revision));
            one(&key, rule, cost).of_revision(revision)
        };
        let reserved = step(client, limiter((&old, 1), 30).reserving(), ScriptStep::Ask, TODAY_US);
        assert!(reserved.allowed, "{key}");
        for second in 0..50 {
            let (cost, at_us) = (if second == 0 { 30 } else { 1 }, TODAY_US + second * S);
            assert!(
                step(client, limiter((&old, 1), cost), ScriptStep::Ask, at_us).allowed,
                "{key}"
            );
        }
        // Less than a unit has drained at the old limit, and more at the new limit.
        let at_us = TODAY_US + 49 * S + 900_000;
        let admits = step(client, limiter(next, 1), ScriptStep::Ask, at_us).allowed;
        assert_eq!(admits, key == "changed");
        let settles = limiter(next, 30).reserving().taken_at(Some(reserved.at));
        let settled =
            step(client, settles, ScriptStep::Settle, at_us + 1).settled().next().unwrap();
        assert_eq!((settled.returned, settled.late), (30, 0), "{key}");
    }
}

/// A rule that has no limit any more gives back what a check took, and the reservation of another caller stays open.
#[test]
fn a_check_that_is_settled_without_a_limit_ends_no_reservation_of_another_caller() {
    let client = &Client::start();
    let rule = bucket(60);
    for (key, reserved, returned) in [("check", false, 29), ("reservation", true, 0)] {
        let of = |cost| one(&key, &rule, cost);
        let open = step(client, of(30).reserving(), ScriptStep::Ask, TODAY_US);
        assert!(open.allowed && step(client, of(30), ScriptStep::Ask, TODAY_US).allowed, "{key}");
        for second in 1..130 {
            assert!(step(client, of(1), ScriptStep::Ask, TODAY_US + second * S).allowed, "{key}");
        }
        let at = Timestamp::from_micros(TODAY_US + 129 * S);
        let surplus =
            Surplus { key: key.as_bytes(), units: 1, since: Some(at), reserved, token: None };
        let call = Call::giving_back(&[surplus], Some(at));
        call.given_back(&client.ask(&call)).unwrap();
        assert!(step(client, of(1), ScriptStep::Ask, at.as_micros()).allowed, "{key}");
        let settles = of(30).reserving().taken_at(Some(open.at));
        let settled = step(client, settles, ScriptStep::Settle, at.as_micros() + 1);
        assert_eq!(settled.settled().next().unwrap().returned, returned, "{key}");
    }
}
