//! `docs/migrate/governor.md`: both decide alike, row by row, on clocks that are moved together.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, FakeRelativeClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{InsufficientCapacity, Quota, RateLimiter};
use nonzero_ext::nonzero;
use tidegate::{KeyedLimiter, Limiter, ManualClock, Spec};

/// Numbers that look random, the same in each run.
struct Steps(u64);

impl Steps {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The pairs of a quota and what the page writes in its place.
fn rows() -> Vec<(Quota, Spec)> {
    let seven_seconds = Duration::from_secs(7);
    vec![
        (Quota::per_second(nonzero!(50_u32)), Spec::per_second(50)),
        (Quota::per_minute(nonzero!(30_u32)), Spec::per_minute(30)),
        (Quota::per_hour(nonzero!(90_u32)), Spec::per_hour(90)),
        (
            Quota::per_second(nonzero!(50_u32)).allow_burst(nonzero!(10_u32)),
            Spec::per_second(50).burst(10),
        ),
        (
            Quota::per_minute(nonzero!(60_u32)).allow_burst(nonzero!(90_u32)),
            Spec::per_minute(60).burst(90),
        ),
        (Quota::with_period(seven_seconds).unwrap(), Spec::per(1, seven_seconds)),
    ]
}

type Direct = RateLimiter<NotKeyed, InMemoryState, FakeRelativeClock, StateInformationMiddleware>;

#[test]
fn a_walk_over_each_quota_is_decided_alike_with_the_same_waits() {
    let mut refused = 0;
    for (quota, spec) in rows() {
        let (fake, clock) = (FakeRelativeClock::default(), ManualClock::new());
        let theirs: Direct = RateLimiter::direct_with_clock(quota, fake.clone()).with_middleware();
        let ours = Limiter::with_clock(spec, clock.clone()).unwrap();
        let every = u64::try_from(quota.replenish_interval().as_micros()).unwrap();
        let mut steps = Steps(1);
        for _ in 0..2_000 {
            let pause = Duration::from_micros(steps.below(2 * every));
            fake.advance(pause);
            clock.advance(pause);
            let cost = 1 + steps.below(3).min(u64::from(quota.burst_size().get()) - 1);
            let n = NonZeroU32::new(u32::try_from(cost).unwrap()).unwrap();
            let decision = ours.check(cost);
            match theirs.check_n(n).unwrap() {
                Ok(snapshot) => {
                    assert!(decision.is_allowed());
                    assert_eq!(decision.remaining, u64::from(snapshot.remaining_burst_capacity()));
                }
                Err(not_until) => {
                    refused += 1;
                    let wait = not_until.wait_time_from(fake.now());
                    assert_eq!(decision.retry_after(), Some(wait), "{spec:?}");
                }
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_cost_that_can_never_fit_is_an_error_there_and_never_here() {
    let theirs = RateLimiter::direct(Quota::per_second(nonzero!(5_u32)));
    assert!(matches!(theirs.check_n(nonzero!(6_u32)), Err(InsufficientCapacity(5))));
    let never = Limiter::new("5/s").unwrap().check(6);
    assert!(!never.is_allowed() && never.retry_after().is_none());
}

#[test]
fn keys_have_limits_of_their_own() {
    let fake = FakeRelativeClock::default();
    let quota = Quota::per_minute(nonzero!(2_u32));
    let store = DefaultKeyedStateStore::<&str>::default();
    let theirs: RateLimiter<_, _, _, StateInformationMiddleware> =
        RateLimiter::new(quota, store, fake.clone());
    let ours = KeyedLimiter::with_clock(Spec::per_minute(2), ManualClock::new()).unwrap();
    for key in ["ada", "ada", "bob", "ada", "bob", "bob"] {
        assert_eq!(ours.admits(key, 1), theirs.check_key(&key).is_ok(), "{key}");
    }
}
