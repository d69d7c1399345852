//! Several limits for one request, compared with the naive models: all must admit, else none is charged.
//!
//! Random policies of every algorithm and mode, random keys from small alphabets so that limiters repeat, also within
//! one request. Some rules have reported usage: a report takes from all of its limiters, and none refuses it.
//! `TIDEGATE_LONG=1` tries twenty times as many.
use std::cmp::Reverse;
use std::collections::HashMap;

use crate::kit::every_gate_of_one_step;
use crate::packed::{answered, long, spec_of};
use crate::subjects::{Case, Store};
use crate::walk::HORIZON_US;
use testkit::model::{self, Expected, Model};
use testkit::traffic::{self, Rng};
use tidegate::{Answer, Descriptor, Micros, Mode, Request, RuleSpec, Usage};

every_gate_of_one_step! { all_limits_admit_or_none_is_charged }

/// One rule as the gate and as the models know it.
struct Pair {
    policy: model::Policy,
    spec: RuleSpec,
}

/// A random rule for a number in the file, with no key or a key of one or two entries.
fn pair(rng: &mut Rng, number: usize, algorithm: model::AlgorithmKind) -> Pair {
    let mut policy = traffic::policy(rng, algorithm);
    if policy.holds_permits() {
        policy.limit = policy.limit.min(1_000_000); // so that a store can hold them
    }
    let key: &[&str] = rng.pick([&[][..], &["user"], &["ip"], &["user", "ip"]]);
    if !key.is_empty() {
        policy.initial = None; // for rules without a key only
    }
    let mut spec = RuleSpec::new(format!("rule-{number}"), spec_of(&policy)).key(key.to_vec());
    spec.mode = rng.pick([Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off]);
    let cannot = [model::AlgorithmKind::LeakyQueue, model::AlgorithmKind::Concurrency];
    if !cannot.contains(&algorithm) && rng.chance(25) {
        spec.usage = Usage::Reported;
    }
    Pair { policy, spec }
}

/// The limiters of a request, each with the sum of its costs, in the order of the request.
type Asks = Vec<((usize, Vec<String>), u64)>;

/// Decides by the models: a limiter for each rule and key.
struct ByModels<'a> {
    pairs: &'a [Pair],
    limiters: HashMap<(usize, Vec<String>), Model>,
}

/// The models' answer to one request.
struct Said {
    allowed: bool,
    each: Vec<(usize, Expected)>,
}

impl ByModels<'_> {
    fn asks(&self, descriptors: &[(Vec<(&str, &str)>, u64)]) -> Asks {
        let mut ask: Asks = Vec::new();
        for (entries, cost) in descriptors {
            for (number, pair) in self.pairs.iter().enumerate() {
                let value = |name: &String| {
                    entries.iter().find(|(entry, _)| entry == name).map(|(_, v)| (*v).to_owned())
                };
                let key: Option<Vec<_>> = pair.spec.key.iter().map(value).collect();
                let Some(key) = key.filter(|_| pair.spec.mode != Mode::Off) else { continue };
                match ask.iter_mut().find(|(id, _)| *id == (number, key.clone())) {
                    Some((_, sum)) => *sum = sum.saturating_add(*cost),
                    None => ask.push(((number, key), *cost)),
                }
            }
        }
        ask
    }

    /// Returns whether a request reports usage: to an enforced rule, or to a rule in shadow mode if no other rule could
    /// refuse it.
    fn is_report(&self, ask: &Asks) -> bool {
        let tells = |mode: Mode, usage: Usage| {
            let is = |(id, cost): &((usize, _), u64)| {
                let spec = &self.pairs[id.0].spec;
                *cost > 0 && spec.mode == mode && spec.usage == usage
            };
            ask.iter().any(is)
        };
        tells(Mode::Enforce, Usage::Reported)
            || tells(Mode::Shadow, Usage::Reported) && !tells(Mode::Enforce, Usage::Requested)
    }

    /// Takes from all limiters, and returns their decisions after that.
    fn report(&mut self, at_us: u64, ask: &Asks) -> Said {
        let (mut allowed, mut each) = (true, Vec::new());
        for (id, cost) in ask {
            let Pair { policy, spec } = &self.pairs[id.0];
            let new = || Model::new(policy.clone());
            let model = self.limiters.entry(id.clone()).or_insert_with(new);
            let answer = match (*cost, spec.usage) {
                (0, Usage::Requested) => model.step(at_us, 0),
                _ => model.reported(at_us, *cost),
            };
            allowed &= answer.allowed || spec.mode != Mode::Enforce;
            each.push((id.0, answer));
        }
        Said { allowed, each }
    }

    fn check(&mut self, at_us: u64, ask: &Asks) -> Said {
        if self.is_report(ask) {
            return self.report(at_us, ask);
        }
        let new = |number: usize| Model::new(self.pairs[number].policy.clone());
        let mut allowed = true;
        for (id, cost) in ask {
            let model = self.limiters.entry(id.clone()).or_insert_with(|| new(id.0));
            model.step(at_us, 0); // creates its state, with any outcome
            let spec = &self.pairs[id.0].spec;
            let asked = if spec.usage == Usage::Reported { (*cost).max(1) } else { *cost };
            allowed &= model.peek(at_us, asked).allowed || spec.mode != Mode::Enforce;
        }
        let values = |(id, cost): &((usize, Vec<String>), u64)| {
            let model = self.limiters.get_mut(id).unwrap();
            let looks = *cost == 0 && self.pairs[id.0].spec.usage == Usage::Reported;
            let answer = match allowed {
                _ if looks => model.reported(at_us, 0),
                true => model.step(at_us, *cost),
                false => model.peek(at_us, *cost),
            };
            (id.0, answer)
        };
        Said { allowed, each: ask.iter().map(values).collect() }
    }
}

/// The reported rule: of a denial, the denying rule with the longest wait, never being the longest; else the rule
/// with the smallest remaining; on a tie, the first in the file.
fn reported(pairs: &[Pair], said: &Said) -> Option<(usize, Expected)> {
    let wait = |answer: &Expected| answer.retry_after_us.map_or((1, 0), |us| (0, us));
    let enforced = said.each.iter().filter(|(number, _)| pairs[*number].spec.mode == Mode::Enforce);
    if said.allowed {
        enforced.min_by_key(|(number, answer)| (answer.remaining, *number)).copied()
    } else {
        let denying = enforced.filter(|(_, answer)| !answer.allowed);
        denying.min_by_key(|(number, answer)| (Reverse(wait(answer)), *number)).copied()
    }
}

fn compare(pairs: &[Pair], answer: &Answer<'_>, said: &Said) {
    assert_eq!(answer.is_allowed(), said.allowed);
    let number = |name: &str| pairs.iter().position(|pair| pair.spec.name == name).unwrap();
    let mut got: Vec<_> = answer
        .matched()
        .into_iter()
        .map(|m| (number(m.rule().name()), answered(m.decision())))
        .collect();
    let mut want = said.each.clone();
    // The rules in the order of the file, and the keys of each in the order of the request.
    got.sort_by_key(|(number, _)| *number);
    want.sort_by_key(|(number, _)| *number);
    assert_eq!(got, want);

    let report = answer.reported().map(|m| (number(m.rule().name()), answered(m.decision())));
    assert_eq!(report, reported(pairs, said));
    let of_enforced = |value: fn(&Expected) -> u64| {
        let enforced = said.each.iter().filter(|(n, _)| pairs[*n].spec.mode == Mode::Enforce);
        enforced.map(|(_, answer)| value(answer)).max().unwrap_or(0)
    };
    // A limit of 0 has no reset.
    let resets = of_enforced(|answer| if answer.limit > 0 { answer.reset_after_us } else { 0 });
    assert_eq!(Micros::from(answer.reset_after()).as_micros(), resets);
    let delay_us = if said.allowed { of_enforced(|answer| answer.delay_us) } else { 0 };
    assert_eq!(Micros::from(answer.delay()).as_micros(), delay_us);
    let retry = report.map_or(Some(0), |(_, answer)| answer.retry_after_us);
    assert_eq!(answer.retry_after().map(|wait| Micros::from(wait).as_micros()), retry);
    assert_eq!(answer.is_never(), !said.allowed && retry.is_none());
    assert_eq!(answer.is_unlimited(), report.is_none());
}

/// One descriptor or several, often with the same limiters.
fn descriptors(rng: &mut Rng, cost: u64) -> Vec<(Vec<(&'static str, &'static str)>, u64)> {
    let count = rng.pick([1, 1, 1, 2, 3]);
    let one = |rng: &mut Rng| {
        let mut entries = Vec::new();
        if rng.chance(90) {
            entries.push(("user", rng.pick(["ada", "bob"])));
        }
        if rng.chance(80) {
            entries.push(("ip", rng.pick(["10.0.0.1", "10.0.0.2"])));
        }
        (entries, rng.pick([cost, 1, 0, 2]))
    };
    (0..count).map(|_| one(rng)).collect()
}

fn all_limits_admit_or_none_is_charged(case: &Case<'_, dyn Store>) {
    let algorithm = case.model();
    let runs = case.kind.asks() / 10 * if long() { 20 } else { 1 };
    let mut walked = 0;
    for seed in 0..runs {
        let rng = &mut Rng::new(seed);
        let rules = rng.between(1, 5) as usize;
        let pairs: Vec<_> = (0..rules)
            .map(|number| {
                let any = rng.pick(model::AlgorithmKind::ALL);
                pair(rng, number, if number == 0 { algorithm } else { any })
            })
            .collect();
        let specs = pairs.iter().map(|pair| pair.spec.clone()).collect();
        let trace = traffic::trace(rng, &pairs[0].policy, 60);
        let began_us = trace[0].0;
        let Some(mut gate) = case.kind.by_time(began_us, specs) else { continue };
        walked += 1;
        let mut models = ByModels { pairs: &pairs, limiters: HashMap::new() };
        let owes = pairs.iter().any(|pair| pair.spec.usage == Usage::Reported);
        // A debt must stay representable: a sliding window counts to 2^32 - 1, and a store less than memory.
        let is_wide = |pair: &Pair| pair.policy.algorithm != model::AlgorithmKind::SlidingWindow;
        let is_wide = case.kind.has_time() && pairs.iter().all(is_wide);
        let most_owed = if is_wide { 1 << 36 } else { 1_000 };
        let within = trace.into_iter().take_while(|(at_us, _)| at_us - began_us < HORIZON_US);
        for (at_us, cost) in within {
            let cost = if owes { cost.min(most_owed) } else { cost };
            let about = descriptors(rng, cost);
            let descriptors: Vec<_> =
                about.iter().map(|(entries, cost)| Descriptor::new(entries).cost(*cost)).collect();
            let request = Request::new("default", &descriptors);
            let said = models.check(at_us, &models.asks(&about));
            // In a store, a debt stops at the last representable instant.
            if said.each.iter().any(|(_, answer)| answer.reset_after_us > 1 << 52) {
                break;
            }
            let answer = gate.decide(&request, at_us);
            let failed = std::panic::catch_unwind(|| compare(&pairs, &answer, &said));
            assert!(failed.is_ok(), "seed {seed}, at {at_us}: {about:?}");
        }
    }
    assert!(walked * 4 > runs * 3, "a store could hold {walked} of {runs}");
}
