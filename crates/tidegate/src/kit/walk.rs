//! A random walk of every verb over a store, next to limiters in this process: each reply of the store must be theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Anchor, Decision, Layout, Settled, Spec, Timestamp};

use super::{SECOND, costing, keyed, of_ada, policy, space, step};
use crate::request::Origin;
use crate::rules::{Mode, Policy, PolicyRule, RuleSpec, Usage};
use crate::shared::SharedGate;
use crate::step::{TakenUnits, Values};
use crate::store::Verb::{Ask, Peek, Renew, Reset, Settle};
use crate::store::{
    KeyAsk, LimiterReply, LimiterState, LimiterStep, StepArgs, StepReply, Store, Verb, is_report,
};

/// The beginning of every walk. A store goes by the time of the step, so that windows end without a sleep.
const FIRST: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const STEPS: u32 = 150;

/// For every algorithm, verb and field of a rule, a store replies as a [`Gate`](crate::Gate) in memory would: with the
/// same verdict, values, token and result of a settlement for each limiter, at the time of the step
/// ([`StepArgs::at`]).
///
/// # Panics
/// The store breaks the promise.
pub async fn decides_as_a_gate_in_memory<S: Store>(gate: impl Fn(Policy, u64) -> SharedGate<S>) {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let plain = Spec::new(algorithm, 4, SECOND);
        // A queue and permits hold requests before they run, so their usage cannot be reported.
        let holds = algorithm.is_queue() || algorithm == AlgorithmKind::Concurrency;
        let usages: &[_] =
            if holds { &[Usage::Requested] } else { &[Usage::Requested, Usage::Reported] };
        for usage in usages.iter().copied() {
            walk(
                &gate,
                vec![
                    keyed("main", with_fields(algorithm)).usage(usage),
                    keyed("shadow", plain).mode(Mode::Shadow),
                    keyed("other", Spec::new(AlgorithmKind::FixedWindow, 12, SECOND)),
                ],
            )
            .await;
        }
    }
    // Only a limiter without a key begins with fewer tokens, so it may have a slot of its own.
    let mut begins_in_use = with_fields(AlgorithmKind::TokenBucket);
    begins_in_use.initial = Some(2);
    walk(&gate, vec![RuleSpec::new("main", begins_in_use)]).await;
}

/// A rule with a value in each field that changes decisions of its algorithm.
fn with_fields(algorithm: AlgorithmKind) -> Spec {
    let mut spec = Spec::new(algorithm, 10, SECOND);
    spec.max_debt = (algorithm != AlgorithmKind::Concurrency).then_some(3);
    match algorithm {
        AlgorithmKind::FixedWindow => spec.anchor = Some(Anchor::FirstRequest),
        AlgorithmKind::SlidingWindow => (spec.buckets, spec.strict) = (Some(4), Some(true)),
        AlgorithmKind::SlidingLog => {
            spec.resolution = Some(SECOND / 20);
            spec.layout = Some(Layout::SortedSet);
        }
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => spec.capacity = Some(15),
        AlgorithmKind::LeakyQueue => spec.capacity = Some(9),
        _ => {}
    }
    spec
}

/// Walks over the limiters of these rules.
async fn walk<S: Store>(gate: &impl Fn(Policy, u64) -> SharedGate<S>, rules: Vec<RuleSpec>) {
    let algorithm = rules.first().map_or(AlgorithmKind::TokenBucket, |rule| rule.spec.algorithm);
    let policy = policy(rules);
    let gate = gate(policy.clone(), space());
    let mut model = Model { policy: &policy, states: BTreeMap::new() };
    let mut random = Random(7);
    let mut now = FIRST;
    // The limiters of earlier requests, as their units come back.
    let mut taken: Vec<Vec<KeyAsk>> = Vec::new();
    for number in 0..STEPS {
        now = now.plus(Duration::from_micros(
            random.of([0, 0, 1, 137, 9_000, 90_000, 250_000, 999_999, 2_300_000]),
        ));
        let cost = random.of([0, 1, 1, 2, 3, 4, 8, 11, 17]);
        let descriptors = [costing(cost)];
        let request = of_ada(&descriptors);
        let request = if random.of([false, true]) { request.reserving() } else { request };
        let (store, mut asks) = gate.store_and_asks(&request);
        let verb = random.of([Ask, Ask, Ask, Ask, Ask, Peek, Settle, Settle, Renew, Reset]);
        // A settlement gives back or takes more, once; a permit may be renewed again and again.
        let place = random.of([0, taken.len() / 2, taken.len().saturating_sub(1)]);
        match verb {
            Settle | Renew if taken.is_empty() => continue,
            Settle => asks = taken.swap_remove(place),
            Renew => {
                let permits = taken[place].iter().filter(|ask| ask.taken.token.is_some());
                asks = permits.cloned().collect();
            }
            Ask | Peek | Reset => {}
        }
        let args = StepArgs::new(verb, Origin::default(), store.host().deadline());
        let args = StepArgs { at: Some(now), ..args };
        let actual = vec![random.of([0, 0, 1, 2, 5, 19]); asks.len()];
        let costs: Vec<_> = asks.iter().map(|_| random.of([0, 1, 5])).collect();
        // The values under which the units were taken, as a gate knows them.
        let under: Vec<_> = asks.iter().map(|ask| Values::of(ask.rule(&policy)?)).collect();
        let args = match verb {
            Settle => StepArgs { actual: &actual, under: &under, ..args },
            Peek => StepArgs { costs: &costs, ..args },
            Ask | Renew | Reset => args,
        };
        let reply = step(&store, &asks, args).await;
        let (allowed, expected) = model.step(&asks, args, now);
        if verb == Reset {
            continue;
        }
        let units: Vec<_> = asks.iter().map(|ask| ask.cost).collect();
        let time = now.since(FIRST);
        let name = format!(
            "{algorithm}, step {number}: {verb:?} of {units:?} (costs {costs:?}, actual {actual:?}) after {time}"
        );
        assert_eq!(reply.is_allowed(), allowed, "the request is admitted: {name}");
        assert_eq!(reply.now, now, "the reply has the time of the step: {name}");
        let back = compare(&policy, verb, &asks, &reply, &expected, &name);
        if is_report(&asks) || back.is_empty() {
            // Usage that was reported has happened: it is neither undone nor settled.
            continue;
        }
        if random.of([false, false, false, true]) {
            store.undo(&asks, args, &reply).await;
            for ask in &back {
                model.one(ask, LimiterStep::undoing(ask), now);
            }
        } else {
            taken.push(back);
        }
    }
}

/// Compares the reply of each limiter with the reply that is expected. Returns the limiters of a question that took
/// units, as these come back.
fn compare(
    policy: &Policy,
    verb: Verb,
    asks: &[KeyAsk],
    reply: &StepReply,
    expected: &[LimiterReply],
    name: &str,
) -> Vec<KeyAsk> {
    assert_eq!(reply.replies().len(), asks.len(), "each limiter replies: {name}");
    let mut back = Vec::new();
    // Of a renewal only the verdict counts.
    let both = reply.replies().flatten().zip(expected).filter(|_| verb != Renew);
    for (ask, (found, expected)) in asks.iter().zip(both) {
        let is_allowed = reply.is_allowed() && expected.decision().is_allowed();
        let has_taken = verb == Ask && ask.cost > 0 && (ask.is_report() || is_allowed);
        let rule = ask.policy_rule(policy).map(PolicyRule::name);
        let found = values(found, has_taken);
        assert_eq!(found, values(expected, has_taken), "limiter of {rule:?}: {name}");
        if let Some(taken) = found.2 {
            back.push(KeyAsk { taken, ..ask.clone() });
        }
    }
    back
}

/// The values of a reply that the model knows too; of units that were taken also when, and the token of a permit.
fn values(reply: &LimiterReply, has_taken: bool) -> (Decision, Settled, Option<TakenUnits>) {
    (*reply.decision(), reply.settled(), has_taken.then_some(reply.decided.taken))
}

/// The limiters of a walk in this process.
struct Model<'a> {
    policy: &'a Policy,
    states: BTreeMap<Vec<u8>, LimiterState>,
}

impl Model<'_> {
    /// Runs a step over all limiters, or over none, and returns whether the request is admitted.
    fn step(
        &mut self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        now: Timestamp,
    ) -> (bool, Vec<LimiterReply>) {
        let is_question = args.verb == Ask && !is_report(asks);
        let mut replies = self.each(asks, args, now, is_question);
        let mut both = asks.iter().zip(&replies);
        let allowed = both.all(|(ask, reply)| !ask.is_enforced() || reply.decision().is_allowed());
        if is_question && allowed {
            replies = self.each(asks, args, now, false);
        }
        (allowed, replies)
    }

    fn each(
        &mut self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        now: Timestamp,
        looks: bool,
    ) -> Vec<LimiterReply> {
        let steps =
            asks.iter().enumerate().map(|(place, ask)| (ask, LimiterStep::of(ask, &args, place)));
        steps
            .map(|(ask, step)| self.one(ask, if looks { step.looking() } else { step }, now))
            .collect()
    }

    fn one(&mut self, ask: &KeyAsk, step: LimiterStep, now: Timestamp) -> LimiterReply {
        let Some(rule) = ask.rule(self.policy) else { return LimiterReply::unlimited() };
        self.states.entry(ask.key().to_vec()).or_default().step(rule, step, now)
    }
}

/// Numbers that look random, and are the same in each run.
struct Random(u64);

impl Random {
    fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = usize::try_from(self.0 >> 33).unwrap_or_default() % N;
        all[place]
    }
}
