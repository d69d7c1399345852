//! Permits of rules in memory: each caller returns its own, and a late renewal is reported. Many callers at once are in
//! `tests/conformance/held.rs`.

use std::time::Duration;

use tidegate::{
    AlgorithmKind, Descriptor, Gate, KeyedLimiter, Limiter, ManualClock, Mode, Policy, Request,
    RuleSpec, Spec, Taken,
};

const LIFE: Duration = Duration::from_secs(30);
const ADA: (&str, &[(&str, &str)]) = ("default", &[("user", "ada")]);

fn spec(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::Concurrency, limit, LIFE)
}

/// A rule of permits for each user, next to a rule of a hundred requests a minute.
fn gate(limit: u64, clock: &ManualClock) -> Gate<ManualClock> {
    let rules = vec![
        RuleSpec::new("jobs", spec(limit)).key(["user"]),
        RuleSpec::new("requests", Spec::per_minute(100).algorithm(AlgorithmKind::SlidingLog)),
    ];
    Gate::with_clock(Policy::new(rules).unwrap(), clock.clone())
}

/// The units that each rule has left.
fn left(gate: &Gate<ManualClock>) -> Vec<u64> {
    gate.peek(ADA).matched().iter().map(|one| one.decision().remaining).collect()
}

#[test]
fn a_settlement_returns_the_permit_and_changes_the_other_rule_by_what_the_work_did_cost() {
    let clock = ManualClock::new();
    let gate = gate(3, &clock);
    let taken = Taken::from(&gate.check(ADA));
    assert_eq!(left(&gate), [2, 99]);
    let _ = gate.settle(ADA, &taken, &[11]);
    assert_eq!(left(&gate), [3, 89]);
    let _ = gate.settle(ADA, &taken, &[1]);
    assert_eq!(left(&gate), [3, 89], "a second return does nothing to permits");
}

#[test]
fn a_crashed_holder_gives_way_after_a_life_and_a_late_renewal_is_reported() {
    let clock = ManualClock::new();
    let gate = gate(1, &clock);
    let charge = gate.hold(ADA).unwrap();
    let token = charge.answer().matched()[0].token().unwrap();
    clock.advance(LIFE - Duration::from_micros(1));
    assert!(!gate.check(ADA).is_allowed());
    assert!(charge.renew());
    clock.advance(LIFE - Duration::from_micros(1));
    assert!(!gate.check(ADA).is_allowed());
    clock.advance(Duration::from_micros(1));
    assert!(!charge.renew(), "its life is over");
    let next = gate.check(ADA);
    assert!(next.is_allowed() && next.matched()[0].token().unwrap() > token);
    charge.release();
    assert!(!gate.check(ADA).is_allowed(), "the permit is another's by now");
}

#[test]
fn permits_stay_out_under_other_values_and_are_renewed_by_them() {
    let clock = ManualClock::new();
    let gate = gate(2, &clock);
    let (one, two) = (Taken::from(&gate.check(ADA)), Taken::from(&gate.check(ADA)));
    let mut shorter = spec(1);
    shorter.window = Some(Duration::from_secs(5));
    gate.replace(Policy::new(vec![RuleSpec::new("jobs", shorter).key(["user"])]).unwrap()).unwrap();
    clock.advance(Duration::from_secs(29));
    assert!(!gate.check(ADA).is_allowed() && gate.renew(ADA, &one), "they have their lives");
    let _ = gate.settle(ADA, &two, &[0]);
    clock.advance(Duration::from_secs(4));
    assert!(!gate.check(ADA).is_allowed(), "renewed for five seconds");
    clock.advance(Duration::from_secs(1));
    assert!(gate.check(ADA).is_allowed() && !gate.renew(ADA, &one));
}

#[test]
fn a_shadow_rule_that_is_removed_lets_the_permits_of_others_be_renewed() {
    let clock = ManualClock::new();
    let tried = RuleSpec::new("tried", spec(1)).key(["user"]).mode(Mode::Shadow);
    let jobs = RuleSpec::new("jobs", spec(1)).key(["user"]);
    let gate = Gate::with_clock(Policy::new(vec![tried, jobs.clone()]).unwrap(), clock.clone());
    let taken = Taken::from(&gate.check(ADA));
    assert_eq!(taken.tokens().count(), 2);
    gate.replace(Policy::new(vec![jobs]).unwrap()).unwrap();
    clock.advance(LIFE - Duration::from_micros(1));
    assert!(gate.renew(ADA, &taken));
    clock.advance(LIFE - Duration::from_micros(1));
    assert!(!gate.check(ADA).is_allowed());
    gate.replace(Policy::new(vec![RuleSpec::new("requests", "9/h")]).unwrap()).unwrap();
    assert!(!gate.renew(ADA, &taken), "the rule that enforced its permit is gone");
}

#[test]
fn a_repeated_answer_holds_no_permit_to_renew() {
    let clock = ManualClock::new();
    let rule = RuleSpec::new("jobs", spec(2)).key(["user"]).dedupe(LIFE);
    let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock.clone());
    let request = Request::from(Descriptor::new(&[("user", "ada")])).with_id("job-1").unwrap();
    let first = gate.hold(request).unwrap();
    let again = gate.hold(request).unwrap();
    assert!(again.answer().is_repeated());
    assert!(first.renew() && !again.renew());
}

#[test]
fn limiters_by_themselves_return_and_renew_their_permits() {
    let clock = ManualClock::new();
    let one = Limiter::with_clock(spec(2), clock.clone()).unwrap();
    let many = KeyedLimiter::with_clock(spec(2), clock.clone()).unwrap();
    let (a, b) = (one.reserve(2).unwrap(), many.reserve("ada", 2).unwrap());
    assert!(one.reserve(1).is_err() && many.reserve("ada", 1).is_err());
    assert!(a.token().is_some() && b.token().is_some());
    clock.advance(LIFE / 2);
    assert!(one.renew(&a) && many.renew("ada", &b));
    clock.advance(LIFE / 2);
    assert_eq!((one.peek(1).remaining, many.peek("ada", 1).remaining), (0, 0));
    assert_eq!((one.settle(a, 7).remaining, many.settle("ada", b, 1).remaining), (2, 2));
    let late = one.reserve(1).unwrap();
    clock.advance(LIFE);
    assert!(!one.renew(&late));
}

#[test]
fn permits_are_in_a_snapshot_with_their_tokens() {
    let clock = ManualClock::new();
    let old = gate(2, &clock);
    let taken = Taken::from(&old.check(ADA));
    let mut written = Vec::new();
    let _ = old.write_snapshot(&mut written).unwrap();
    let (new, _) = gate(2, &clock).with_snapshot(&*written).unwrap();
    assert_eq!(left(&new)[0], 1);
    assert!(new.renew(ADA, &taken));
    let _ = new.settle(ADA, &taken, &[0]);
    assert_eq!(left(&new)[0], 2);
}
