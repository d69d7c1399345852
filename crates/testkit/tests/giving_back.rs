//! Giving back: afterwards a limiter counts as if fewer units had been taken.

use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic::{self, Rng};

const S: u64 = 1_000_000;

fn per_second(algorithm: AlgorithmKind, limit: u64) -> Model {
    Model::new(Policy::new(algorithm, limit, S))
}

/// Each take and what is left of it; each limiter that took just that is used as much.
struct Ledger {
    policy: Policy,
    /// The time of each take, the units left of it, and the units taken.
    takes: Vec<(u64, u64, u64)>,
    /// When the limit changed after so many takes, and to what.
    changes: Vec<(usize, u64, u64)>,
}

impl Ledger {
    fn used(&self, at_us: u64) -> u64 {
        let mut model = Model::new(self.policy.clone());
        for place in 0..=self.takes.len() {
            for (_, then_us, limit) in self.changes.iter().filter(|(after, ..)| *after == place) {
                model.amend(*then_us, Policy { limit: *limit, ..self.policy.clone() });
            }
            if let Some((then_us, units @ 1.., _)) = self.takes.get(place) {
                model.settle(*then_us, 0, *units);
            }
        }
        model.used(at_us)
    }
}

#[test]
fn what_is_used_after_giving_back_is_what_less_taken_would_be() {
    let mut came_back = [0_u64; AlgorithmKind::ALL.len()];
    for (place, algorithm) in AlgorithmKind::ALL.into_iter().enumerate() {
        if algorithm == AlgorithmKind::Concurrency {
            continue;
        }
        for seed in 0..300 {
            let rng = &mut Rng::new(seed);
            came_back[place] += walk(rng, algorithm, seed, seed % 2 == 0);
        }
        assert!(came_back[place] > 1_000, "{}: {came_back:?}", algorithm.name());
    }
}

fn walk(rng: &mut Rng, algorithm: AlgorithmKind, seed: u64, changes: bool) -> u64 {
    // One unit drains in a microsecond, so no part of a unit comes back.
    let window_us = rng.pick([20, 100, 1_000]);
    let mut policy = Policy::new(algorithm, window_us, window_us);
    policy.strict = rng.chance(50);
    policy.resolution_us = rng.pick([1, 7]);
    let mut model = Model::new(policy.clone());
    let mut ledger = Ledger { policy: policy.clone(), takes: Vec::new(), changes: Vec::new() };
    let mut open: Vec<usize> = Vec::new();
    let (mut at_us, mut came_back) = (10_000, 0);
    for step in 0..120 {
        let context = || format!("seed {seed}, step {step} at {at_us}: {policy:?}");
        let units = 1 + rng.skewed(window_us / 4);
        if changes && rng.chance(15) {
            // Two or three drain in a microsecond, still without parts.
            let limit = window_us * rng.between(1, 3);
            model.amend(at_us, Policy { limit, ..policy.clone() });
            ledger.changes.push((ledger.takes.len(), at_us, limit));
        }
        if open.is_empty() || rng.chance(60) {
            let reserves = rng.chance(70);
            let answer = match reserves {
                true => model.reserve(at_us, units),
                false => model.step(at_us, units),
            };
            if answer.allowed {
                open.push(ledger.takes.len());
                ledger.takes.push((at_us, units, units));
            }
        } else {
            let take = open.swap_remove(rng.below(open.len() as u64) as usize);
            let (since_us, left, taken) = &mut ledger.takes[take];
            let actual = rng.below(*taken + 1);
            let settled = model.settle_since(at_us, *since_us, *taken, actual);
            let back = *taken - actual - settled.late;
            *left -= back;
            came_back += back;
        }
        let (used, expected) = (model.used(at_us), ledger.used(at_us));
        match algorithm {
            // The oldest units leave in place of those that came back.
            AlgorithmKind::SlidingLog => assert!(used >= expected, "{}", context()),
            _ => assert_eq!(used, expected, "{}", context()),
        }
        at_us += rng.pick([0, 0, 1, 3, window_us / 10, window_us / 3, window_us]);
    }
    came_back
}

/// In a busy bucket an over-reservation comes back whole: the level was never lower.
#[test]
fn a_bucket_that_was_never_low_gives_back_all() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let mut model = per_second(algorithm, 100);
        model.step(50 * S, 50);
        model.reserve(50 * S, 50);
        for tenth in 1..=30 {
            assert!(model.step(50 * S + tenth * S / 10, 10).allowed);
        }
        let settled = model.settle_since(53 * S, 50 * S, 50, 0);
        assert_eq!(settled.late, 0, "{}", algorithm.name());
        assert_eq!(model.used(53 * S), 50, "{}", algorithm.name());
    }
}

/// Many that are open at once share what the level held, so no unit is given back twice.
#[test]
fn reservations_that_are_open_together_give_back_no_more_than_was_there() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let capacity = Some(200);
        let policy = Policy { capacity, ..Policy::new(algorithm, 100, S) };
        let mut model = Model::new(policy);
        model.step(50 * S, 50);
        for _ in 0..10 {
            assert!(model.reserve(50 * S, 10).allowed);
        }
        for tenth in 1..=40 {
            assert!(model.step(50 * S + tenth * S / 10, 10).allowed);
        }
        let late: u64 = (0..10).map(|_| model.settle_since(54 * S, 50 * S, 10, 0).late).sum();
        // It held 60 all the time since the first of them.
        assert_eq!((late, model.used(54 * S)), (40, 90), "{}", algorithm.name());
    }
}

#[test]
fn only_the_last_slot_of_a_queue_comes_back() {
    let mut model = per_second(AlgorithmKind::LeakyQueue, 10);
    model.reserve(5 * S, 4);
    model.reserve(5 * S + 1, 3);
    assert_eq!(model.settle_since(5 * S + 2, 5 * S, 4, 1).late, 3);
    assert_eq!(model.settle_since(5 * S + 2, 5 * S + 1, 3, 1).late, 0);
}

#[test]
fn nothing_comes_back_after_a_reset_another_meaning_or_a_step_of_the_clock() {
    let mut rng = Rng::new(7);
    for algorithm in AlgorithmKind::ALL {
        if algorithm == AlgorithmKind::Concurrency {
            continue;
        }
        for change in 0..3 {
            let mut model = per_second(algorithm, 10);
            model.reserve(50 * S, 10);
            match change {
                0 => model.reset(50 * S),
                1 => model.amend(50 * S + 1, Policy::new(algorithm, 10, S / 2)),
                _ => assert!(model.peek(40 * S, 0).allowed),
            }
            let at_us = if change == 2 { 50 * S } else { 50 * S + 2 };
            model.step(at_us, 1 + rng.below(9));
            let used = model.used(at_us);
            assert_eq!(model.settle_since(at_us, 50 * S, 10, 0).late, 10, "{}", algorithm.name());
            assert_eq!(model.used(at_us), used, "{}, {change}", algorithm.name());
        }
    }
}

/// Units of a reservation that is held while other limits come: only what has drained under each of them is gone.
#[test]
fn a_changed_rate_keeps_only_what_has_drained_of_earlier_units() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        for (limits, drained) in [(vec![200], 30), (vec![50], 15), (vec![50, 200, 10], 36)] {
            let policy = Policy { capacity: Some(500), ..Policy::new(algorithm, 100, S) };
            let mut model = Model::new(policy.clone());
            assert!(model.reserve(50 * S, 100).allowed);
            // The bucket is empty for a moment, so that nothing is known of its lowest level.
            model.refund(50 * S + S / 10, 500);
            model.step(50 * S + S / 10, 300);
            for (tenth, limit) in (1..).zip(&limits) {
                let at_us = 50 * S + tenth * S / 10;
                model.amend(at_us, Policy { limit: *limit, ..policy.clone() });
            }
            let at_us = 50 * S + S / 10 * (1 + limits.len() as u64);
            let used = model.used(at_us);
            let settled = model.settle_since(at_us, 50 * S, 100, 0);
            let name = algorithm.name();
            assert_eq!(settled.late, drained, "{name}, {limits:?}");
            assert_eq!(model.used(at_us), used + drained - 100, "{name}, {limits:?}");
        }
    }
}

/// Of many changes the oldest are known by the fastest of their limits.
#[test]
fn the_oldest_of_many_changed_rates_count_as_the_fastest_of_them() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        for (changes, late) in [(8, 27), (9, 40), (10, 53)] {
            let policy = Policy { capacity: Some(500), ..Policy::new(algorithm, 100, S) };
            let mut model = Model::new(Policy { limit: 20, ..policy.clone() });
            assert!(model.reserve(50 * S, 100).allowed);
            model.refund(50 * S, 500);
            model.step(50 * S, 300);
            // Twenty a second until the first change, then 140, which is the fastest, then 10 and 20 in turn.
            for tenth in 1..=changes {
                let limit = if tenth == 1 { 140 } else { 10 + tenth % 2 * 10 };
                model.amend(50 * S + tenth * S / 10, Policy { limit, ..policy.clone() });
            }
            let at_us = 51 * S;
            let settled = model.settle_since(at_us, 50 * S, 100, 0);
            assert_eq!(settled.late, late, "{}, {changes} changes", algorithm.name());
        }
    }
}

/// For random rules and traffic, no more units come back than were asked for, and usage falls.
#[test]
fn nothing_comes_back_beyond_what_is_asked() {
    for algorithm in AlgorithmKind::ALL {
        for seed in 0..100 {
            let rng = &mut Rng::new(1_000 + seed);
            let policy = traffic::policy(rng, algorithm);
            let mut model = Model::new(policy.clone());
            let mut taken = Vec::new();
            for (at_us, cost) in traffic::jumpy_trace(rng, &policy, 60) {
                if model.reserve(at_us, cost).allowed && cost > 0 {
                    taken.push((model.last_us().unwrap(), cost));
                }
                if rng.chance(40) && !taken.is_empty() {
                    let (since_us, cost) =
                        taken.swap_remove(rng.below(taken.len() as u64) as usize);
                    let used = model.used(at_us);
                    let late = model.undo(at_us, since_us, cost);
                    let back = used - model.used(at_us);
                    assert!(late <= cost && back <= cost, "seed {seed}, {policy:?}");
                }
            }
        }
    }
}

/// After each request of forward traces under random rules of every algorithm.
#[test]
fn giving_back_and_taking_more_change_what_is_used_by_just_that() {
    for algorithm in AlgorithmKind::ALL {
        if algorithm == AlgorithmKind::SlidingCounter {
            continue; // a unit of the window before counts less than a unit
        }
        for seed in 0..60 {
            let rng = &mut Rng::new(seed);
            let policy = traffic::policy(rng, algorithm);
            let mut model = Model::new(policy.clone());
            for (at_us, cost) in traffic::trace(rng, &policy, 150) {
                model.step(at_us, cost);
                let (mut less, mut more) = (model.clone(), model.clone());
                let used = less.used(at_us);
                less.settle(at_us, cost, 0);
                assert_eq!(less.used(at_us), used.saturating_sub(cost), "{model:?}");
                if algorithm == AlgorithmKind::Concurrency {
                    continue; // work that did cost more takes no permit
                }
                more.settle(at_us, 0, cost);
                let most = 2 * model.policy().decision_limit();
                assert_eq!(more.used(at_us), (used + cost).min(most.max(used)), "{model:?}");
            }
        }
    }
}

/// A policy of few units, so that it is full now and then.
fn few(rng: &mut Rng, algorithm: AlgorithmKind) -> Policy {
    let mut policy = traffic::policy(rng, algorithm);
    policy.limit = 1 + rng.below(12);
    policy.capacity = policy.capacity.map(|_| 1 + rng.below(12));
    (policy.window_us, policy.buckets, policy.resolution_us) = (120_000, 6, rng.pick([1, 5_000]));
    (policy.initial, policy.anchor_first_request) = (None, false);
    policy
}

/// A limiter whose units were taken and undone never admits more than a limiter that nothing was taken from, after any
/// time and any other requests in between.
#[test]
fn what_is_undone_never_lets_more_through() {
    // The later slots of a queue are promised, and permits are returned by their tokens.
    let others = [AlgorithmKind::LeakyQueue, AlgorithmKind::Concurrency];
    for algorithm in AlgorithmKind::ALL.into_iter().filter(|one| !others.contains(one)) {
        let (mut admitted, mut early, mut refused) = (0, 0, 0);
        for seed in 0..20 {
            let rng = &mut Rng::new(2_000 + seed);
            let policy = few(rng, algorithm);
            let (mut model, mut without) = (Model::new(policy.clone()), Model::new(policy.clone()));
            let (mut at_us, mut outstanding) = (1_763_700_000_000_000, Vec::new());
            for turn in 0..300 {
                at_us += rng.pick([0, 0, 1, 500, 3_000, 10_000, 30_000]);
                let cost = rng.pick([1, 1, 1, 2, 3]);
                if rng.chance(40) {
                    if model.step(at_us, cost).allowed {
                        outstanding.push((cost, at_us));
                    }
                } else if rng.chance(50) && !outstanding.is_empty() {
                    let which = rng.below(outstanding.len() as u64) as usize;
                    let (cost, since_us) = outstanding.swap_remove(which);
                    model.undo(at_us, since_us, cost);
                } else if model.step(at_us, cost).allowed {
                    let would = without.step(at_us, cost).allowed;
                    assert!(would, "seed {seed}, turn {turn}: {cost} at {at_us}, {policy:?}");
                    admitted += 1;
                } else if without.peek(at_us, cost).allowed {
                    early += 1;
                } else {
                    refused += 1;
                }
            }
        }
        assert!(admitted > 100 && early > 0 && refused > 0, "{admitted} {early} {refused}");
    }
}
