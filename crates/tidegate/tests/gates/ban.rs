//! Bans after a number of refusals, without a gate and at a gate.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::asks::{DAY, HOUR, ask, policy};
use crate::packed::{TODAY_US, TestClock, together};
use std::time::Duration;
use tidegate::{AlgorithmKind, Ban, Gate, ManualClock, Micros, RuleSpec, Setup, Spec, Timestamp};

const MINUTE: Duration = Duration::from_secs(60);

fn log(limit: u64, window: Duration) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, window)
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
    clock.advance(Duration::from_micros(Micros::from(HOUR).as_micros() - 1));
    assert_eq!(ban.is_banned("ada"), Some(Duration::from_micros(1)));
    clock.advance(Duration::from_micros(1));
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
    clock.advance(Duration::from_micros(Micros::from(MINUTE).as_micros() - 1));
    assert_eq!(ban.refused("ada"), Some(HOUR));
}

#[test]
fn a_ban_is_not_made_longer_by_coming_back_and_afterwards_all_is_forgotten() {
    let clock = ManualClock::new();
    let ban = Ban::with_clock(2, HOUR, MINUTE, clock.clone()).unwrap();
    assert_eq!((ban.refused("ada"), ban.refused("ada")), (None, Some(MINUTE)));
    for seconds_left in (1..60).rev() {
        clock.advance(Duration::from_secs(1));
        assert_eq!(ban.refused("ada"), Some(Duration::from_secs(seconds_left)));
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!((ban.refused("ada"), ban.refused("ada")), (None, Some(MINUTE)));
    ban.lift("ada");
    assert_eq!((ban.is_banned("ada"), ban.refused("ada")), (None, None));
}

#[test]
fn keys_without_space_are_not_banned_for_what_others_did() {
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
    assert!(Ban::new(1, Duration::ZERO, HOUR).is_err());
    assert!(Ban::new(1, HOUR, Duration::ZERO).is_err());
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
    clock.pass(Micros::from(HOUR).as_micros());
    let refused: Vec<_> = (0..50).map(|_| ban.refused("ada")).collect();
    assert!(refused[..49].iter().all(Option::is_none), "all was forgotten");
    assert_eq!(refused[49], Some(HOUR));
}

#[test]
fn a_ban_goes_by_the_time_that_a_request_brings() {
    let rules = vec![RuleSpec::new("user", log(1, MINUTE)).key(["user"])];
    let ban = Ban::with_clock(1, MINUTE, HOUR, Timestamp::EPOCH).unwrap();
    let setup = Setup::new(policy(rules)).ban("default", "user", ban).unwrap();
    let gate = Gate::with_clock(setup, Timestamp::EPOCH);
    let at = |seconds: u64| Timestamp::from_micros(TODAY_US + seconds * 1_000_000);
    let asked = [0, 1, 100, 3_600, 3_601]
        .map(|seconds| ask("ada", 1, |request| gate.check_at(request, at(seconds)).is_allowed()));
    assert_eq!(asked, [true, false, false, false, true]);
}

#[test]
fn a_ban_needs_a_rule() {
    let error = Setup::new(policy([RuleSpec::new("user", log(1, MINUTE))]))
        .ban("default", "usr", ban(1, &ManualClock::new()))
        .unwrap_err();
    assert!(error.to_string().contains("\"usr\"") && error.to_string().contains("\"default\""));
}
