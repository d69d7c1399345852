//! Rules whose usage is reported afterwards, in memory and in a store: the same answers to the last figure.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Descriptor, Micros, Mode, OnStoreError, Request, RuleSpec, Spec, Usage,
};

use crate::ids::Both;
use crate::server::{Server, check, gate_over, until_lost};

const KINDS: [&str; 3] = ["tokens", "requests", "both"];

/// Three rules, of which one descriptor meets one or two; most are reported.
fn rules(rng: &mut Rng) -> Vec<RuleSpec> {
    let algorithms: Vec<_> =
        AlgorithmKind::ALL.iter().filter(|one| **one != AlgorithmKind::LeakyQueue).collect();
    let rules = ["tokens", "requests", "all"].into_iter().map(|name| {
        let algorithm = *algorithms[rng.below(algorithms.len() as u64) as usize];
        let limit = rng.pick([1, 5, 40, 40]);
        let rule = RuleSpec::new(name, Spec::new(algorithm, limit, Micros::from_secs(60)));
        let rule = rule.mode(rng.pick([Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow]));
        let rule = rule.usage(rng.pick([Usage::Requested, Usage::Reported, Usage::Reported]));
        let rule = if name == "all" { rule } else { rule.when("kind", name).key(["user"]) };
        if rng.chance(50) { rule.dedupe(Micros::from_secs(10)) } else { rule }
    });
    rules.collect()
}

#[tokio::test]
async fn reports_and_looks_are_answered_in_a_store_as_in_memory() {
    let server = Server::start(&[]);
    for seed in 0..40 {
        let rng = &mut Rng::new(seed);
        let mut both = Both::over(&server, rules(rng)).await;
        let mut at_us = 0;
        for turn in 0..60 {
            at_us += rng.pick([0, 1, 900_000, 20_000_000]);
            let asked: Vec<_> = (0..rng.between(1, 2))
                .map(|_| {
                    let entries = [("kind", rng.pick(KINDS)), ("user", rng.pick(["ada", "bob"]))];
                    (entries, rng.pick([0, 0, 1, 7, 30]))
                })
                .collect();
            let descriptors: Vec<_> =
                asked.iter().map(|(entries, cost)| Descriptor::new(entries).cost(*cost)).collect();
            let mut request = Request::new("default", &descriptors);
            let id = format!("{seed}:{}", rng.below(turn + 1));
            if rng.chance(30) {
                request = request.with_id(&id).unwrap();
            }
            both.decide(&request, at_us).await;
        }
    }
}

#[tokio::test]
async fn a_report_while_the_store_is_away_is_taken_here_or_refused_and_never_lost_without_a_word() {
    let spec = |name| {
        let spec = Spec::new(AlgorithmKind::SlidingLog, 100, Micros::from_secs(3_600));
        RuleSpec::new(name, spec).key(["user"]).usage(Usage::Reported)
    };
    for (on_store_error, looks) in [(OnStoreError::Local, true), (OnStoreError::Closed, false)] {
        let mut server = Server::start(&[]);
        let rules = vec![spec("tokens").on_store_error(on_store_error)];
        let (gate, events) = gate_over(&server.url(), rules).await;
        assert!(check(&gate, "ada", 60).await.is_allowed());
        server.kill();
        until_lost(&gate, &events).await;
        let look = check(&gate, "ada", 0).await;
        assert_eq!((look.is_allowed(), look.is_unavailable()), (looks, !looks));
        // What was reported before is known here as well: this is the only node.
        let report = check(&gate, "ada", 60).await;
        assert!(!report.is_allowed(), "{on_store_error:?}");
        assert_eq!(report.matched()[0].is_report(), looks, "taken, or to be reported again");
        assert!(!check(&gate, "ada", 0).await.is_allowed());
    }
}
