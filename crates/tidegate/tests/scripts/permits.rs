//! Permits in a store: the script takes, returns and renews them by their tokens as the core does, and a changed rule
//! keeps them.

use std::time::Duration;

use testkit::model::{AlgorithmKind, Model};
use testkit::traffic::{self, Rng};
use tidegate::script::{Call, DecidedStep, ScriptLimiter, ScriptStep};
use tidegate::{Decision, Rule, Spec, Timestamp, Token};

use crate::batch::decided;
use crate::server::policies::rule_of;
use crate::server::{Answered, Client, long};
use crate::walk_batch::run_batch;

/// The key, rule and time of a step.
struct Turn<'a> {
    key: &'a str,
    rule: &'a Rule,
    at_us: u64,
}

impl Turn<'_> {
    fn step(
        &self,
        client: &Client,
        step: ScriptStep,
        cost: u64,
        token: Option<u64>,
    ) -> DecidedStep {
        let limiter = ScriptLimiter::new(self.key.as_bytes(), self.rule, cost).unwrap();
        let limiter = limiter.turned_out(cost / 2).of_permit(token.and_then(Token::from_micros));
        client.step(&[limiter], step, Some(Timestamp::from_micros(self.at_us)))
    }
}

fn left(decision: &Decision) -> (u64, u64, Option<u64>) {
    let us = |wait: Duration| u64::try_from(wait.as_micros()).unwrap();
    let retry_after = decision.retry_after().map(us);
    (decision.remaining, us(decision.reset_after()), retry_after)
}

/// Takes, returns, renewals, and changes of limit and life, with clocks that step back.
#[test]
fn a_random_walk_of_permits_is_that_of_the_model() {
    let client = Client::start();
    let (mut late, mut renewed) = (0, 0);
    for seed in 0..if long() { 1_000 } else { 40 } {
        let rng = &mut Rng::new(7_000_000 + seed);
        let mut policy = traffic::policy(rng, AlgorithmKind::Concurrency);
        policy.limit = policy.limit.clamp(1, 500);
        let mut model = Model::new(policy.clone());
        let (key, mut tokens) = (format!("permits:{seed}"), Vec::new());
        for (number, (at_us, cost)) in
            traffic::jumpy_trace(rng, &policy, 120).into_iter().enumerate()
        {
            if model.peek(at_us, 1).reset_after_us == 0 {
                // A store may have forgotten it, with the time and the token of its last permit.
                client.run(&[b"DEL", key.as_bytes()]).unwrap();
                model.forget();
                tokens.clear();
            }
            if rng.chance(8) {
                policy.limit = rng.between(1, 500);
                policy.window_us = (policy.window_us * rng.between(1, 4) / 2).max(1_000);
                policy.window_us = policy.window_us.min(86_400_000_000);
                model.amend(at_us, policy.clone());
            }
            let rule = rule_of(&policy);
            let turn = Turn { key: &key, rule: &rule, at_us };
            let context = || format!("{key}, step {number} at {at_us}: {cost} of {policy:?}");
            let (token, units) = match tokens.len() {
                0 => (1, 1),
                len => tokens[rng.below(len as u64) as usize],
            };
            match rng.below(10) {
                0..5 => {
                    let cost = cost.min(1 << 40);
                    let answer = turn.step(&client, ScriptStep::Ask, cost, None);
                    let want = model.step(at_us, cost);
                    assert_eq!(answer.allowed, want.allowed, "{}", context());
                    if want.allowed && cost > 0 {
                        tokens.push((model.token().unwrap(), cost));
                    }
                }
                5 | 6 => {
                    let _ = turn.step(&client, ScriptStep::Settle, units, Some(token));
                    model.return_permit(at_us, token, units);
                }
                7 | 8 => {
                    let answer = turn.step(&client, ScriptStep::Renew, 0, Some(token));
                    assert_eq!(answer.allowed, model.renew(at_us, token), "{}", context());
                    (late, renewed) =
                        (late + u64::from(!answer.allowed), renewed + u64::from(answer.allowed));
                }
                _ => {
                    let _ = turn.step(&client, ScriptStep::Settle, 2, None);
                    model.refund(at_us, 2);
                }
            }
            let any = rng.between(1, policy.limit);
            let answer = turn.step(&client, ScriptStep::Peek, any, None);
            let want = model.peek(at_us, any);
            let want = (want.remaining, want.reset_after_us, want.retry_after_us);
            assert_eq!(left(&answer.decisions[0]), want, "{}", context());
        }
    }
    assert!(late > 100 && renewed > 100, "{late} {renewed}");
}

/// A permit that is returned under another limit or life is the permit that was taken; under another algorithm it is
/// not known.
#[test]
fn a_changed_rule_keeps_the_permits_and_their_tokens() {
    let client = Client::start();
    let (at_us, second) = (1_763_700_000_000_000, 1_000_000);
    let rule = |limit, seconds| {
        let life = Duration::from_secs(seconds);
        Rule::new(Spec::new(tidegate::AlgorithmKind::Concurrency, limit, life)).unwrap()
    };
    let step = |rule: &Rule, at_us, step, cost, token| {
        let decision = Turn { key: "changed", rule, at_us }.step(&client, step, cost, token);
        (decision.allowed, decision.decisions[0].remaining, decision.decisions[0].reset_after())
    };
    // More permits than the first bytes of a state hold.
    for number in 0..400 {
        assert!(step(&rule(500, 60), at_us + number, ScriptStep::Ask, 1, None).0);
    }
    let (allowed, left, reset) = step(&rule(450, 10), at_us + second, ScriptStep::Ask, 1, None);
    assert_eq!((allowed, left), (true, 49));
    assert!(reset > Duration::from_secs(58), "they end when they would have: {reset:?}");
    let (_, left, _) = step(&rule(450, 10), at_us + second, ScriptStep::Settle, 1, Some(at_us + 7));
    assert_eq!(left, 50);
    let (_, left, _) = step(&rule(450, 10), at_us + second, ScriptStep::Settle, 1, Some(at_us + 7));
    assert_eq!(left, 50, "once");
    assert!(client.changed.get() > 0);
}

/// A batch once took a state that had become shorter for the first bytes of a log, and lost the rest of its permits.
#[test]
fn a_batch_in_which_permits_have_ended_keeps_the_others() {
    let client = Client::start();
    let (at_us, second) = (1_763_700_000_000_000, 1_000_000);
    let spec = Spec::new(tidegate::AlgorithmKind::Concurrency, 400, Duration::from_secs(60));
    let rule = Rule::new(spec).unwrap();
    let turn = |key, at_us| Turn { key, rule: &rule, at_us };
    for key in ["alone", "batch"] {
        for number in 0..300 {
            let at_us = at_us + number * second / 10;
            assert!(turn(key, at_us).step(&client, ScriptStep::Ask, 1, None).allowed);
        }
    }
    let later_us = at_us + 75 * second;
    let limiters = [ScriptLimiter::new(b"batch", &rule, 1).unwrap()];
    let call = Call::new(&limiters, ScriptStep::Ask, Some(Timestamp::from_micros(later_us)));
    let answer = run_batch(&client, &[(&call, 300)]);
    let allowed = |answer: &Answered| decided(&call, &limiters, answer).allowed;
    let alone =
        (0..300).map(|_| turn("alone", later_us).step(&client, ScriptStep::Ask, 1, None).allowed);
    let alone: Vec<_> = alone.collect();
    assert_eq!(answer[0].iter().map(allowed).collect::<Vec<_>>(), alone);
    assert_eq!(alone.iter().filter(|allowed| **allowed).count(), 251, "149 have not ended");
    let [alone, batch] = ["alone", "batch"].map(|key| client.run(&[b"GET", key.as_bytes()]));
    assert_eq!(alone.unwrap(), batch.unwrap());
}
