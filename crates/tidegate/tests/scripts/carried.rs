//! Units that are carried to a server that may have lost them: the script keeps the state that the core keeps.

use std::slice::from_ref;
use std::time::Duration;

use testkit::model;
use testkit::traffic::{self, Rng};
use tidegate::script::{Call, CallBatch, CallResult, Each, ScriptStep};
use tidegate::{Rule, Timestamp};
use tidegate_core::{Algorithm, Held, KnownUnits, Visitor};

use crate::server::policies::{laid_out, layouts, ten};
use crate::server::{Client, long, one};

const SEED: u64 = 20_261_129;
const STEPS: usize = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// Compares the script with the core, under the rule of a policy.
struct Compare<'a> {
    client: &'a Client,
    rng: &'a mut Rng,
    rule: &'a Rule,
    policy: &'a model::Policy,
    key: String,
}

impl Visitor for Compare<'_> {
    /// The number of states that were replaced, and that stayed.
    type Out = [u64; 2];

    fn visit<R: Algorithm>(self, algorithm: &R) -> [u64; 2] {
        let Self { client, rng, rule, policy, key } = self;
        let limiter = |cost| one(&key, rule, cost);
        let mut now = Timestamp::EPOCH;
        let mut trace = traffic::trace(rng, policy, 2 * STEPS);
        let later = trace.split_off(STEPS);
        let mut lost = None;
        let mut slot = None;
        let mut used = Vec::new();
        let mut last = Timestamp::EPOCH;
        let share = rng.below(101);
        for (at_us, cost) in trace {
            now = now.max(Timestamp::from_micros(at_us));
            let cost = cost.min(1 << 30);
            let mut held = Held::new(algorithm, &mut lost, cost);
            let _ = held.ask(now);
            (used, last) = held.used_units();
            // The server has a part of them.
            if rng.chance(share) {
                let _ = Held::new(algorithm, &mut slot, cost).ask(now);
                client.step(&[limiter(cost)], ScriptStep::Ask, Some(now));
            }
        }
        let used = rule.known_units(&[], used, now);
        // The units that still count then are carried, as a store reports them.
        let mut counts = [0, 0];
        for (at_us, cost) in later {
            now = now.max(Timestamp::from_micros(at_us));
            let carries = rng.chance(30);
            let limiter = limiter(cost.min(1 << 30));
            let last = Some(last).filter(|_| rng.chance(50));
            let known = KnownUnits { used: &used, reported: now, last };
            let limiter = if carries { limiter.carrying(known) } else { limiter };
            let done = client.step(&[limiter], ScriptStep::Ask, Some(now));
            let mut held = Held::new(algorithm, &mut slot, cost.min(1 << 30));
            let replaces = carries && held.carry(known, now);
            let _ = held.ask(now);
            let context = || format!("{key}: {cost} at {now:?}, {replaces}; {:?}", rule.spec());
            if carries {
                assert_eq!(done.carried.count(), u64::from(replaces), "{}", context());
                counts[usize::from(!replaces)] += 1;
            }
            assert_eq!(done.decisions, [held.report()], "{}", context());
        }
        counts
    }
}

#[test]
fn the_script_keeps_the_state_that_the_core_keeps() {
    let client = &Client::start();
    let rng = &mut Rng::new(SEED);
    for (algorithm, layout) in layouts() {
        let mut counts = [0, 0];
        for number in 0..if long() { 2_000 } else { 60 } {
            // A bucket that begins with fewer tokens begins so in a state that was never asked.
            let policy = model::Policy { initial: None, ..traffic::policy(rng, algorithm) };
            let rule = &laid_out(&policy, layout);
            let key = format!("{}:{layout:?}:{number}", algorithm.name());
            let compare = Compare { client, rng, rule, policy: &policy, key };
            let more = rule.visit(compare).unwrap();
            counts = [counts[0] + more[0], counts[1] + more[1]];
        }
        assert!(counts[0] > 5 && counts[1] > 5, "{algorithm:?}: {counts:?}");
    }
}

#[test]
fn a_known_limiter_without_a_state_is_lost_in_every_form_of_a_call() {
    let client = &Client::start();
    for (key, rule) in &ten(MINUTE) {
        let limiter = one(&key, rule, 1);
        let known = || vec![limiter.clone().known()];
        for step in [ScriptStep::Ask, ScriptStep::Peek, ScriptStep::Settle, ScriptStep::Report] {
            let call = Call::new(&known(), step, None);
            assert_eq!(
                call.answer(&known(), &client.ask(&call)),
                Ok(CallResult::Lost(vec![0])),
                "{key} {step:?}"
            );
        }
        let call = Call::new(&known(), ScriptStep::Ask, None);
        let batch = CallBatch::of(&[(&call, 2)]);
        let replies = batch.replies(client.eval(&batch.script, &batch.keys, &batch.args)).unwrap();
        let each = Each::of(&[&call]);
        let reply = each.replies(client.eval(&each.script, &each.keys, &each.args)).unwrap();
        for reply in [replies[0][0].reply.clone(), reply[0].clone()] {
            let answer = call.answer(&known(), &reply.unwrap());
            assert_eq!(answer, Ok(CallResult::Lost(vec![0])), "{key}");
        }
        assert_eq!(client.int(&["EXISTS", key]), 0, "{key}: nothing was done");
        // It has a state by now.
        assert!(client.step(from_ref(&limiter), ScriptStep::Ask, None).allowed);
        assert!(client.step(&known(), ScriptStep::Ask, None).allowed, "{key}");
    }
}

#[test]
fn one_lost_limiter_of_several_stops_the_step() {
    let client = &Client::start();
    let rules = ten(MINUTE);
    let limiters: Vec<_> = rules.iter().map(|(key, rule)| one(key, rule, 1)).collect();
    let mut known = limiters.clone();
    known[2] = known[2].clone().known();
    let call = Call::new(&known, ScriptStep::Ask, None);
    assert_eq!(call.answer(&known, &client.ask(&call)), Ok(CallResult::Lost(vec![2])));
    assert_eq!(client.int(&["DBSIZE"]), 0);
}

/// A node that knows of units does not take a key for lost from which another node gave units back.
#[test]
fn a_key_that_got_units_back_lives_as_long_as_with_them() {
    let client = &Client::start();
    for (key, rule) in ten(MINUTE).iter().filter(|(key, _)| key != "sorted_set") {
        let limiter = |cost| one(&key, rule, cost);
        let taken = client.step(&[limiter(4)], ScriptStep::Ask, None);
        let lives = client.int(&["PTTL", key]);
        let token = rule.spec().algorithm.holds_permits().then_some(taken.at.as_micros());
        let settles = limiter(4).taken_at(Some(taken.at));
        let settles = settles.of_permit(token.and_then(tidegate::Token::from_micros));
        client.step(&[settles], ScriptStep::Settle, None);
        // Also if more comes back than there was.
        let again = limiter(4).taken_at(Some(taken.at));
        client.step(&[again], ScriptStep::Settle, None);
        // Also if a caller asks for more than there ever is.
        assert!(!client.step(&[limiter(11)], ScriptStep::Ask, None).allowed, "{key}");
        let left = client.int(&["PTTL", key]);
        assert!(left > lives - 2_000, "{key}: {left} ms of {lives} ms");
        let full = client.step(&[limiter(10).known()], ScriptStep::Ask, None);
        assert!(full.allowed, "{key}");
    }
}

/// A sorted set cannot be empty, so it leaves a note when all of its units came back.
#[test]
fn units_that_all_came_back_to_a_sorted_set_are_not_carried() {
    let client = &Client::start();
    let rules = ten(MINUTE);
    let (key, rule) = rules.iter().find(|(key, _)| key == "sorted_set").unwrap();
    let limiter = |cost| one(&key, rule, cost);
    let taken = client.step(&[limiter(10)], ScriptStep::Ask, None);
    let used = [tidegate::UsedUnits { since: taken.at, units: 10 }];
    let known = KnownUnits { used: &used, reported: taken.now, last: None };
    client.step(&[limiter(10).taken_at(Some(taken.at))], ScriptStep::Settle, None);
    assert_eq!(client.int(&["EXISTS", key]), 0);
    let done = client.step(&[limiter(10).carrying(known)], ScriptStep::Ask, None);
    assert!(done.allowed && done.carried.count() == 0);
}

/// Of two limiters one is missing: if all of its units came back, the server has lost nothing, and keeps the state of the
/// other, whose units came back in part.
#[test]
fn a_server_that_reported_the_units_keeps_its_state_unless_it_lost_another() {
    let client = &Client::start();
    let rules = ten(MINUTE);
    let (first, first_rule) = rules.iter().find(|(key, _)| key == "sorted_set").unwrap();
    for (key, rule) in rules.iter().filter(|(key, _)| key != first) {
        for is_lost in [false, true] {
            client.int(&["DEL", first, key]);
            client.int(&["DEL", &format!("{{{first}}}?taken"), &format!("{{{key}}}?taken")]);
            let pair = |units: u64| {
                [(first, first_rule, units), (key, rule, units)]
                    .map(|(key, rule, units)| one(key, rule, units))
            };
            let taken = client.step(&pair(6), ScriptStep::Ask, None);
            let used = [tidegate::UsedUnits { since: taken.at, units: 6 }];
            let known = KnownUnits { used: &used, reported: taken.now, last: None };
            client.int(&["DEL", key]);
            if is_lost {
                client.int(&["DEL", first]);
            } else {
                let back = one(&first, first_rule, 6);
                client.step(&[back.taken_at(Some(taken.at))], ScriptStep::Settle, None);
            }
            let begun = one(&key, rule, 1);
            client.step(&[begun], ScriptStep::Ask, None);
            let asked = pair(2).map(|one| one.carrying(known).of_own());
            let done = client.step(&asked, ScriptStep::Ask, None);
            assert_eq!(done.carried.count(), if is_lost { 2 } else { 0 }, "{key}");
            let more = one(&key, rule, 7);
            let more = client.step(&[more], ScriptStep::Ask, None);
            assert_eq!(more.allowed, !is_lost, "{key}: 3 of 10 are in use, or 8");
        }
    }
}

#[test]
fn units_that_were_reported_before_a_reset_are_not_carried() {
    let client = &Client::start();
    for (key, rule) in &ten(MINUTE) {
        let limiter = |cost| one(&key, rule, cost);
        let taken = client.step(&[limiter(10)], ScriptStep::Ask, None);
        let used = [tidegate::UsedUnits { since: taken.at, units: 10 }];
        let call = Call::reset(vec![key.clone().into_bytes()], Vec::new(), None);
        client.ask(&call);
        let known = KnownUnits { used: &used, reported: taken.now, last: None };
        let carried = limiter(10).carrying(known);
        let done = client.step(&[carried], ScriptStep::Ask, None);
        assert!(done.allowed && done.carried.count() == 0, "{key}");
    }
}

/// The units are carried before the script finds that another limiter is lost.
#[test]
fn a_reply_that_names_a_lost_limiter_says_what_was_carried() {
    let client = &Client::start();
    for (key, rule) in &ten(MINUTE) {
        let taken = client.step(&[one(&key, rule, 6)], ScriptStep::Ask, None);
        client.int(&["DEL", key]);
        let used = [tidegate::UsedUnits { since: taken.at, units: 6 }];
        let known = KnownUnits { used: &used, reported: taken.now, last: None };
        let missing = format!("{key}:missing");
        let asked = [one(&missing, rule, 1).known(), one(&key, rule, 1).carrying(known)];
        let call = Call::new(&asked, ScriptStep::Ask, None);
        let reply = client.ask(&call);
        assert_eq!(call.answer(&asked, &reply), Ok(CallResult::Lost(vec![0])), "{key}");
        let carried = call.carried(&reply);
        assert!(carried.has(1) && carried.count() == 1, "{key}: {carried:?}");
    }
}
