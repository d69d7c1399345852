//! Debts that a packed state has no room for: nothing of them is cut off, because it would come back as a credit when
//! the limiter is refunded or its rule is changed.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::packed::{TODAY_US, TestClock, answered, long, spec_of, together};
use std::time::Duration;
use testkit::model::{self, Expected, Model};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Decision, Descriptor, Gate, KeyedLimiter, Limiter, Micros, Mode, OnFull, Policy,
    Request, RuleSpec, Spec,
};

const HOUR_US: u64 = 3_600_000_000;

/// The limiters whose states are packed, in one word or (the large limits) in two.
fn policies() -> Vec<model::Policy> {
    use model::AlgorithmKind::{FixedWindow, LeakyBucket, LeakyQueue, SlidingCounter, TokenBucket};
    let max_debt = Some(u64::MAX);
    let of = |algorithm, limit| model::Policy {
        max_debt,
        ..model::Policy::new(algorithm, limit, HOUR_US)
    };
    let mut all = Vec::new();
    for limit in [100, 1_000_000_000] {
        let packed = [FixedWindow, SlidingCounter, TokenBucket, LeakyBucket, LeakyQueue];
        all.extend(packed.map(|algorithm| of(algorithm, limit)));
        all.push(model::Policy { anchor_first_request: true, ..of(FixedWindow, limit) });
    }
    // A word that holds the end of a window has 14 bits for its count.
    all.push(model::Policy { anchor_first_request: true, ..of(FixedWindow, 1_000_000) });
    all
}

/// A limiter by itself, a key of many, and a key that a gate asks alone or with another rule.
struct All {
    alone: Limiter<TestClock>,
    keyed: KeyedLimiter<TestClock>,
    gate: Gate<TestClock>,
    model: Model,
    clock: TestClock,
}

const KEY: [(&str, &str); 1] = [("user", "ada")];
const KEY_AND_OTHER: [(&str, &str); 2] = [("user", "ada"), ("other", "x")];

/// A request about the key, of the rule alone or with another, in shadow mode, that owes as much.
fn with<T>(both: bool, cost: u64, verb: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries: &[(&str, &str)] = if both { &KEY_AND_OTHER } else { &KEY };
    verb(&Request::new(Request::DEFAULT_DOMAIN, &[Descriptor::new(entries).cost(cost)]))
}

impl All {
    fn new(policy: &model::Policy) -> Self {
        let (spec, clock) = (spec_of(policy), TestClock::at(TODAY_US));
        let other = Spec::new(AlgorithmKind::FixedWindow, 1_000_000_000, Duration::from_millis(1));
        let rules = vec![
            RuleSpec::new("own", spec).key(["user"]),
            RuleSpec::new("other", other).key(["other"]).mode(Mode::Shadow),
        ];
        let all = Self {
            alone: Limiter::with_clock(spec, clock.clone()).unwrap(),
            keyed: KeyedLimiter::with_clock(spec, clock.clone()).unwrap(),
            gate: Gate::with_clock(Policy::new(rules).unwrap(), clock.clone()),
            model: Model::new(policy.clone()),
            clock,
        };
        (0..50_u8).for_each(|other| assert!(all.keyed.admits([other], 1)));
        all
    }

    fn ask(&mut self, cost: u64, both: bool) -> bool {
        let want = self.model.step(self.clock.now_us(), cost);
        assert_eq!(answered(&self.alone.check(cost)), want);
        assert_eq!(self.keyed.admits("ada", cost), want.allowed);
        assert_eq!(with(both, cost, |request| self.gate.check(request).is_allowed()), want.allowed);
        want.allowed
    }

    fn settle(&mut self, actual: u64, both: bool) {
        self.model.settle(self.clock.now_us(), 0, actual);
        let _ = self.alone.settle(self.alone.reserve(0).unwrap(), actual);
        let _ = self.keyed.settle("ada", self.keyed.reserve("ada", 0).unwrap(), actual);
        let _ = with(both, 0, |request| self.gate.settle(request, None, &[actual]).is_allowed());
    }

    fn refund(&mut self, units: u64, both: bool) {
        self.model.refund(self.clock.now_us(), units);
        let _ = (self.alone.refund(units), self.keyed.refund("ada", units));
        let _ = with(both, units, |request| self.gate.refund(request).is_allowed());
    }

    /// All limiters equal the model.
    fn compare(&mut self) -> Expected {
        let want = self.model.peek(self.clock.now_us(), 1);
        let gate = with(false, 1, |request| *self.gate.peek(request).matched()[0].decision());
        let seen: [Decision; 3] = [self.alone.peek(1), self.keyed.peek("ada", 1), gate];
        assert_eq!(
            seen.map(|decision| answered(&decision)),
            [want; 3],
            "{:?}",
            self.model.policy()
        );
        want
    }

    fn used(&mut self) -> u64 {
        self.model.used(self.clock.now_us())
    }
}

#[test]
fn all_of_a_debt_has_to_be_given_back_before_a_unit_is_there() {
    for policy in policies() {
        for debt in [1_000_000, 1 << 33, 1 << 40] {
            is_given_back(&policy, debt);
        }
    }
}

/// The limiters are packed in one word, two and six. Their counters stop at 2^32 - 1, packed or not.
#[test]
fn all_of_a_debt_of_a_sliding_window_has_to_be_given_back_up_to_its_largest_counter() {
    for (limit, buckets) in [(3, 5), (100, 10), (1_000_000_000, 10)] {
        let mut policy = model::Policy::new(model::AlgorithmKind::SlidingWindow, limit, HOUR_US);
        policy.max_debt = Some(u64::MAX);
        for debt in [150, 1_000, 1_000_000, 4_000_000_000] {
            is_given_back(&model::Policy { buckets, ..policy.clone() }, debt.max(limit + 5));
        }
    }
}

fn is_given_back(policy: &model::Policy, debt: u64) {
    for both in [false, true] {
        let mut all = All::new(policy);
        all.settle(debt, both);
        assert_eq!((all.compare().remaining, all.used()), (debt_left(policy, debt), debt));
        let limit = policy.decision_limit();
        all.refund(debt.saturating_sub(limit), !both);
        all.compare();
        all.refund(3, both);
        assert!(all.compare().remaining >= 3, "{policy:?}, {debt}");
        assert!(all.ask(2, both));
        all.compare();
        all.refund(debt, both);
        assert_eq!(all.compare().remaining, limit, "{policy:?}, {debt}");
    }
}

fn debt_left(policy: &model::Policy, debt: u64) -> u64 {
    policy.decision_limit().saturating_sub(debt)
}

#[test]
fn all_of_a_debt_is_owed_under_the_rule_that_follows() {
    for policy in policies() {
        for next in policies() {
            let mut all = All::new(&policy);
            all.settle((1 << 33) + 5, false);
            for rule in [&next, &policy] {
                all.alone.amend(spec_of(rule)).unwrap();
                all.keyed.amend(spec_of(rule)).unwrap();
            }
            let given = (1 << 33) - policy.decision_limit() + 15;
            let _ = (all.alone.refund(given), all.keyed.refund("ada", given));
            let left = (all.alone.peek(1).remaining, all.keyed.peek("ada", 1).remaining);
            assert_eq!(left, (10, 10), "{policy:?} by way of {next:?}");
            assert_eq!(all.keyed.keys(), 51);
        }
    }
}

/// Debts, asks and refunds at random while time passes, also until all is idle again.
#[test]
fn limiters_with_debts_of_any_size_decide_as_the_models() {
    for seed in 0..if long() { 200 } else { 8 } {
        for policy in policies() {
            let rng = &mut Rng::new(seed);
            let mut all = All::new(&policy);
            for _ in 0..120 {
                let (cost, both) = (rng.between(1, 60), rng.chance(50));
                match rng.below(100) {
                    0..35 => _ = all.ask(cost, both),
                    35..55 => all.settle(rng.below(2) << rng.below(40) | cost, both),
                    55..80 => {
                        let used = all.used();
                        let units = rng.pick([cost, used.saturating_sub(cost), used]);
                        all.refund(units, both);
                    }
                    80..95 => all.clock.pass(rng.below(HOUR_US / 3)),
                    95..98 => all.clock.pass(2 * HOUR_US),
                    _ => {
                        let at_us = all.clock.now_us();
                        let reset_us = all.model.peek(at_us, 1).reset_after_us;
                        all.clock.pass(reset_us.min(1 << 46));
                    }
                }
                all.compare();
                if all.clock.now_us() > TODAY_US + (1 << 47) {
                    break; // packed times have an end
                }
            }
        }
    }
}

/// The rest of the previous window weighs so little that a unit fits next to it, and is still too large for a word. It
/// goes on counting.
#[test]
fn a_unit_admitted_beside_the_last_of_a_debt_cuts_nothing_off() {
    let mut policy = model::Policy::new(model::AlgorithmKind::SlidingCounter, 100, HOUR_US);
    policy.max_debt = Some(u64::MAX);
    for both in [false, true] {
        let mut all = All::new(&policy);
        all.settle(1 << 33, both);
        all.clock.pass(2 * HOUR_US - 20);
        assert!(all.ask(1, both), "48 units are left of the debt");
        assert_eq!(all.compare().remaining, 51);
        all.clock.pass(10);
        assert!(all.ask(1, !both));
        assert_eq!(all.compare().remaining, 74);
    }
}

/// A paid debt leaves no memory in use: the key goes when its units have left.
#[test]
fn a_key_whose_debt_has_left_is_dropped_and_begins_anew() {
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingCounter] {
        let (clock, day) = (TestClock::at(TODAY_US), Duration::from_secs(86_400));
        let spec = Spec::new(algorithm, 10, day);
        let rules = vec![RuleSpec::new("own", spec).key(["user"]).max_keys(1, OnFull::Refuse)];
        let gate = Gate::with_clock(Policy::new(rules).unwrap(), clock.clone());
        for user in ["ada", "bob", "eve"] {
            let entries = [("user", user)];
            let request = Request::from(Descriptor::new(&entries).cost(1));
            assert!(gate.check(&request).is_allowed(), "{algorithm}: {user} finds room");
            assert_eq!(gate.settle(&request, None, &[1 << 45]).remaining(), Some(0));
            assert_eq!(gate.counts().keys, 1);
            clock.pass(2 * Micros::from(day).as_micros());
        }
        let request = Request::from(Descriptor::new(&[("user", "eve")]).cost(10));
        assert!(gate.check(&request).is_allowed(), "{algorithm}: the debt has left");
        assert_eq!(gate.reset(&request), 1);
        assert!(gate.check(&request).is_allowed() && !gate.check(&request).is_allowed());
    }
}

/// A debt that is forgotten by hand is gone.
#[test]
fn a_reset_ends_a_debt() {
    for policy in policies() {
        let mut all = All::new(&policy);
        all.settle(1 << 40, true);
        all.alone.reset();
        assert_eq!(all.alone.peek(1).remaining, policy.decision_limit(), "{policy:?}");
        assert_eq!(with(true, 1, |request| all.gate.reset(request)), 2);
        // Each remembers the reset, so that nothing comes back to it that was taken before.
        assert_eq!(all.gate.counts().keys, 2, "{policy:?}");
        let left =
            with(false, 1, |request| all.gate.peek(request).matched()[0].decision().remaining);
        assert_eq!(left, policy.decision_limit(), "{policy:?}");
    }
}

/// Each settle counts once while other threads settle, give back and ask, and the state is spilled.
#[test]
fn what_eight_threads_settle_far_beyond_the_limit_is_what_is_owed() {
    for _ in 0..if long() { 30 } else { 3 } {
        for policy in policies() {
            let all = All::new(&policy);
            let owed = AtomicU64::new(0);
            together(8, |_, rng| {
                for _ in 0..100 {
                    let actual = rng.pick([0, 5, 20_000, 1 << 33]);
                    let (alone, keyed) =
                        (all.alone.reserve(0).unwrap(), all.keyed.reserve("ada", 0).unwrap());
                    let _ = all.alone.settle(alone, actual);
                    let _ = all.keyed.settle("ada", keyed, actual);
                    let both = rng.chance(50);
                    let _ = with(both, 0, |request| {
                        all.gate.settle(request, None, &[actual]).is_allowed()
                    });
                    let back = rng.below(actual + 1);
                    let _ = (all.alone.refund(back), all.keyed.refund("ada", back));
                    let _ = with(!both, back, |request| all.gate.refund(request).is_allowed());
                    owed.fetch_add(actual - back, SeqCst);
                }
            });
            let (owed, limit) = (owed.into_inner(), policy.decision_limit());
            let given = owed - 1;
            let _ = (all.alone.refund(given), all.keyed.refund("ada", given));
            let _ = with(true, given, |request| all.gate.refund(request).is_allowed());
            let gate = with(false, 1, |request| *all.gate.peek(request).matched()[0].decision());
            let left =
                [all.alone.peek(1).remaining, all.keyed.peek("ada", 1).remaining, gate.remaining];
            assert_eq!(left, [limit - 1; 3], "{policy:?}: {owed}");
        }
    }
}
