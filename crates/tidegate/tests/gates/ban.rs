//! Bans after so many refusals, by themselves and at a gate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::packed::{TODAY_US, TestClock, together};
use crate::tasks::{Task, ms};
use tidegate::{
    AlgorithmKind, Answer, Ban, Clock, Descriptor, Gate, ManualClock, Micros, Mode, OnExcess,
    OnFull, Policy, Request, RuleSpec, Spec, Timestamp,
};

const DAY: Micros = Micros::from_secs(86_400);
const MINUTE: Micros = Micros::from_secs(60);
const HOUR: Micros = Micros::from_secs(3_600);

fn log(limit: u64, window: Micros) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, window)
}

fn gate<C: Clock>(rules: Vec<RuleSpec>, clock: C) -> Gate<C> {
    Gate::with_clock(Policy::new(rules).unwrap(), clock)
}

/// Asks for `cost` units as `user`.
fn ask<T>(user: &str, cost: u64, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    ask(&Request::new("default", &[Descriptor::new(&[("user", user)]).cost(cost)]))
}

fn left(answer: &Answer<'_>) -> Vec<u64> {
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

/// Refused by the limiter that keys without room share, a key pays for what others took: that is none of
/// the refusals for which it is to be shut out.
#[test]
fn nobody_is_banned_for_what_others_took() {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let clock = ManualClock::new();
        let rule = RuleSpec::new("user", log(1, MINUTE)).key(["user"]).max_keys(1, on_full);
        let gate = gate(vec![rule], clock.clone());
        let gate = gate.with_ban("default", "user", ban(2, &clock)).unwrap();
        for user in ["first", "second"] {
            ask(user, 1, |request| _ = gate.admits(request));
        }
        for user in ["first", "third"] {
            let refused =
                [(); 5].map(|()| ask(user, 1, |request| gate.check(request).retry_after()));
            let last = if user == "first" { HOUR } else { MINUTE };
            assert_eq!((refused[0], refused[4]), (Some(MINUTE), Some(last)), "{on_full:?} {user}");
        }
    }
}

fn ban(refusals: u64, clock: &ManualClock) -> Ban<ManualClock> {
    Ban::with_clock(refusals, MINUTE, HOUR, clock.clone()).unwrap()
}

#[test]
fn a_ban_begins_with_the_last_of_so_many_refusals_and_ends_to_the_microsecond() {
    let clock = ManualClock::new();
    let ban = ban(3, &clock);
    let refused = [(); 3].map(|()| ban.refused("ada"));
    assert_eq!(refused, [None, None, Some(HOUR)]);
    assert_eq!((ban.is_banned("ada"), ban.is_banned("bob")), (Some(HOUR), None));
    clock.advance(Micros::from_micros(HOUR.as_micros() - 1));
    assert_eq!(ban.is_banned("ada"), Some(Micros::from_micros(1)));
    clock.advance(Micros::from_micros(1));
    assert_eq!(ban.is_banned("ada"), None);
}

#[test]
fn refusals_are_counted_in_a_window_that_begins_with_the_first() {
    let clock = ManualClock::new();
    let ban = ban(2, &clock);
    for _ in 0..5 {
        assert_eq!(ban.refused("ada"), None);
        clock.advance(MINUTE);
    }
    assert_eq!(ban.refused("ada"), None);
    clock.advance(Micros::from_micros(MINUTE.as_micros() - 1));
    assert_eq!(ban.refused("ada"), Some(HOUR));
}

#[test]
fn a_ban_is_not_made_longer_by_coming_back_and_afterwards_all_is_forgotten() {
    let clock = ManualClock::new();
    let ban = Ban::with_clock(2, HOUR, MINUTE, clock.clone()).unwrap();
    assert_eq!((ban.refused("ada"), ban.refused("ada")), (None, Some(MINUTE)));
    for seconds_left in (1..60).rev() {
        clock.advance(Micros::from_secs(1));
        assert_eq!(ban.refused("ada"), Some(Micros::from_secs(seconds_left)));
    }
    clock.advance(Micros::from_secs(1));
    assert_eq!((ban.refused("ada"), ban.refused("ada")), (None, Some(MINUTE)));
    ban.lift("ada");
    assert_eq!((ban.is_banned("ada"), ban.refused("ada")), (None, None));
}

#[test]
fn keys_without_room_are_not_banned_for_what_others_did() {
    let ban = Ban::with_max_keys(2, DAY, DAY, 1).unwrap();
    assert_eq!(ban.refused("first"), None);
    for key in ["a", "b", "c", "c", "c"] {
        assert_eq!(ban.refused(key), None);
    }
    assert!(ban.refused("first").is_some());
    assert!(ban.is_banned("first").is_some() && ban.is_banned("c").is_none());
}

#[test]
fn no_refusals_count_as_one_and_impossible_times_are_errors() {
    let clock = ManualClock::new();
    assert_eq!(ban(0, &clock).refused("ada"), Some(HOUR));
    assert!(Ban::new(1, Micros::ZERO, HOUR).is_err());
    assert!(Ban::new(1, HOUR, Micros::ZERO).is_err());
}

#[test]
fn refusals_at_the_same_time_begin_one_ban_and_leave_nothing_behind() {
    let clock = TestClock::at(TODAY_US);
    let ban = Ban::with_clock(50, DAY, HOUR, clock.clone()).unwrap();
    let unbanned = AtomicU64::new(0);
    together(8, |_, _| {
        for _ in 0..20 {
            unbanned.fetch_add(u64::from(ban.refused("ada").is_none()), SeqCst);
        }
    });
    assert_eq!(ban.is_banned("ada"), Some(HOUR));
    assert!(unbanned.into_inner() < 50);
    clock.pass(HOUR.as_micros());
    let refused: Vec<_> = (0..50).map(|_| ban.refused("ada")).collect();
    assert!(refused[..49].iter().all(Option::is_none), "all was forgotten");
    assert_eq!(refused[49], Some(HOUR));
}

fn banning(limit: u64, mode: Mode) -> (Gate<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let rules = vec![
        RuleSpec::new("user", log(limit, MINUTE)).key(["user"]).mode(mode),
        RuleSpec::new("all", log(1_000, HOUR)),
    ];
    let gate = gate(rules, clock.clone());
    (gate.with_ban("default", "user", ban(2, &clock)).unwrap(), clock)
}

#[test]
fn a_banned_key_is_denied_before_any_limiter_is_asked() {
    let (gate, clock) = banning(1, Mode::Enforce);
    let verdicts = [(); 3].map(|()| ask("ada", 1, |request| gate.admits(request)));
    assert_eq!(verdicts, [true, false, false]);
    clock.advance(Micros::from_secs(61));
    let wait = Micros::from_secs(3_600 - 61);
    ask("ada", 1, |request| {
        assert_eq!(gate.peek(request).retry_after(), Some(wait));
        assert_eq!(gate.check(request).retry_after(), Some(wait), "its own limiter would admit it");
        assert!(!gate.admits(request) && !gate.acquire_blocking(request).is_allowed());
    });
    assert!(ask("ada", 0, |request| gate.check(request).is_allowed()), "what costs nothing");
    let others = ask("bob", 1, |request| left(&gate.check(request)));
    assert_eq!(others, [0, 998], "nothing was charged but what was admitted");
    clock.advance(wait);
    assert!(ask("ada", 1, |request| gate.admits(request)));
}

#[test]
fn a_reset_lifts_the_ban() {
    let (gate, _) = banning(1, Mode::Enforce);
    for _ in 0..5 {
        ask("ada", 1, |request| gate.check(request).is_allowed());
    }
    ask("ada", 1, |request| {
        assert_eq!(gate.reset(request), 2);
        assert!(gate.check(request).is_allowed());
        assert_eq!(gate.check(request).retry_after(), Some(MINUTE), "the first refusal");
    });
}

#[test]
fn a_rule_in_shadow_mode_bans_nobody_and_what_never_fits_is_told_so() {
    let (gate, clock) = banning(1, Mode::Shadow);
    assert!((0..9).all(|_| ask("ada", 1, |request| gate.admits(request))));
    for _ in 0..3 {
        assert!(!ask("ada", 999, |request| gate.admits(request)), "the other rule refuses as well");
    }
    clock.advance(MINUTE);
    assert!(ask("ada", 1, |request| gate.admits(request)));
    let (gate, _) = banning(3, Mode::Enforce);
    for _ in 0..3 {
        assert!(ask("ada", 4, |request| gate.check(request).is_never()));
    }
    assert_eq!(ask("ada", 1, |request| gate.check(request).retry_after()), Some(HOUR));
}

#[test]
fn another_rules_refusals_are_not_counted() {
    let clock = ManualClock::new();
    let rules = vec![
        RuleSpec::new("user", log(9, MINUTE)).key(["user"]),
        RuleSpec::new("all", log(1, MINUTE)),
    ];
    let gate = gate(rules, clock.clone()).with_ban("default", "user", ban(1, &clock)).unwrap();
    for _ in 0..5 {
        ask("ada", 1, |request| gate.check(request).is_allowed());
    }
    assert_eq!(ask("ada", 1, |request| gate.check(request).retry_after()), Some(MINUTE));
}

#[test]
fn one_who_waited_in_vain_is_counted_and_a_banned_one_does_not_wait() {
    let clock = ManualClock::new();
    let wait = OnExcess::Wait { wait: ms(10), max_waiters: 9 };
    let rules = vec![RuleSpec::new("user", log(1, MINUTE)).key(["user"]).on_excess(wait)];
    let gate = gate(rules, clock.clone()).with_ban("default", "user", ban(1, &clock)).unwrap();
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let request = Request::new("default", &descriptors);
    assert!(gate.check(&request).is_allowed());
    for wait in [MINUTE, HOUR] {
        let task = Task::begun(gate.acquire(&request), &clock);
        assert_eq!(task.end.unwrap().1.retry_after(), Some(wait));
    }
}

#[test]
fn a_ban_goes_by_the_time_that_a_request_brings() {
    let rules = vec![RuleSpec::new("user", log(1, MINUTE)).key(["user"])];
    let ban = Ban::with_clock(1, MINUTE, HOUR, Timestamp::EPOCH).unwrap();
    let gate = gate(rules, Timestamp::EPOCH).with_ban("default", "user", ban).unwrap();
    let at = |seconds: u64| Timestamp::from_micros(TODAY_US + seconds * 1_000_000);
    let asked = [0, 1, 100, 3_600, 3_601]
        .map(|seconds| ask("ada", 1, |request| gate.check_at(request, at(seconds)).is_allowed()));
    assert_eq!(asked, [true, false, false, false, true]);
}

#[test]
fn a_ban_needs_a_rule() {
    let (gate, clock) = banning(1, Mode::Enforce);
    let error = gate.with_ban("default", "usr", ban(1, &clock)).unwrap_err();
    assert!(error.to_string().contains("\"usr\"") && error.to_string().contains("\"default\""));
}

#[test]
fn what_was_admitted_under_an_id_is_answered_so_to_who_was_banned_since() {
    let clock = ManualClock::new();
    let rule = RuleSpec::new("user", log(1, MINUTE)).key(["user"]).dedupe(HOUR);
    let gate = gate(vec![rule], clock.clone());
    let gate = gate.with_ban("default", "user", ban(1, &clock)).unwrap();
    let under = |id, request: &Request<'_>| {
        let answer = gate.check(&request.with_id(id).unwrap());
        (answer.is_allowed(), answer.is_repeated(), answer.retry_after())
    };
    let first = ask("ada", 1, |request| under("a", request));
    let refused = ask("ada", 1, |request| under("b", request));
    let banned = ask("ada", 1, |request| under("b", request));
    assert_eq!((first.0, refused.2, banned.2), (true, Some(MINUTE), Some(HOUR)));
    assert_eq!(ask("ada", 1, |request| under("a", request)), (true, true, Some(Micros::ZERO)));
}
