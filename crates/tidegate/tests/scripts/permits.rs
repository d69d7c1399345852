//! Permits in a store, in single cases: a changed rule and a batch keep them. Random takes, returns and renewals are in
//! `giving_back.rs`.

use std::time::Duration;

use tidegate::script::{Call, DecidedStep, ScriptStep};
use tidegate::{AlgorithmKind, Rule, Spec, Timestamp, Token};

use crate::batch::decided;
use crate::server::{Answered, Client, one};
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
        let limiter = one(&self.key, self.rule, cost);
        let limiter = limiter.turned_out(cost / 2).of_permit(token.and_then(Token::from_micros));
        client.step(&[limiter], step, Some(Timestamp::from_micros(self.at_us)))
    }
}

/// A permit that is returned under another limit or life is the permit that was taken; under another algorithm it is
/// not known.
#[test]
fn a_changed_rule_keeps_the_permits_and_their_tokens() {
    let client = Client::start();
    let (at_us, second) = (1_763_700_000_000_000, 1_000_000);
    let rule = |limit, seconds| {
        let life = Duration::from_secs(seconds);
        Rule::new(Spec::new(AlgorithmKind::Concurrency, limit, life)).unwrap()
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
    let spec = Spec::new(AlgorithmKind::Concurrency, 400, Duration::from_secs(60));
    let rule = Rule::new(spec).unwrap();
    let turn = |key, at_us| Turn { key, rule: &rule, at_us };
    for key in ["alone", "batch"] {
        for number in 0..300 {
            let at_us = at_us + number * second / 10;
            assert!(turn(key, at_us).step(&client, ScriptStep::Ask, 1, None).allowed);
        }
    }
    let later_us = at_us + 75 * second;
    let limiters = [one("batch", &rule, 1)];
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
