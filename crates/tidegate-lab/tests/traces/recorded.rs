//! What a gate recorded: replayed under its rules, it is decided as it was.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::io;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::{
    Descriptor, Gate, Limit, ManualClock, OverrideSpec, Policy, Recorder, Request, RuleSpec, Setup,
};
use tidegate_lab::replay::{Replay, options};
use tidegate_lab::report::{RecordedDecisions, Report, json};
use tidegate_lab::trace::{self, Source};

/// A descriptor of a random request: its user, its address, its cost, and its limit.
type Asked = (u8, u8, u64, Option<u64>);

/// A random request: the time since the one before, its descriptors, and its id.
type Random = (u64, Vec<Asked>, Option<u8>);

fn any_request() -> impl Strategy<Value = Random> {
    let limit = proptest::option::weighted(0.3, 1_u64..20);
    let asked = proptest::collection::vec((0_u8..4, 0_u8..3, 0_u64..4, limit), 1..4);
    (0_u64..400_000, asked, proptest::option::weighted(0.3, 0_u8..9))
}

fn policy() -> Policy {
    let hidden = RuleSpec::new("per-user", "6/2s").key(["user"]).hide_keys();
    let mut other = OverrideSpec::new("ip", "i2");
    other.limit = Some(Limit::Units(3));
    let rules = vec![
        hidden.dedupe(Duration::from_secs(1)),
        RuleSpec::new("per-ip", "9/3s").key(["ip"]).limit_from_request().with_override(other),
        RuleSpec::new("both", "4/1s").key(["ip", "user"]).when("ip", "i1"),
        RuleSpec::new("all", "40/5s"),
    ];
    Policy::new(rules).unwrap()
}

/// Decides requests one after another, and returns what was recorded, and how many were refused.
fn record(requests: &[Random]) -> (Vec<u8>, u64) {
    let clock = ManualClock::new();
    let recorder = Recorder::with_clock(Duration::from_secs(86_400), 64 << 20, clock.clone());
    let recorder = Arc::new(recorder);
    let setup = Setup::new(policy()).observer(recorder.clone());
    let gate = Gate::with_clock(setup, clock.clone());
    let mut refused = 0;
    for (pause_us, asked, id) in requests {
        clock.advance(Duration::from_micros(*pause_us));
        let texts = asked.iter().map(|(user, ip, ..)| [format!("u{user}"), format!("i{ip}")]);
        let texts: Vec<_> = texts.collect();
        let entries = texts.iter().map(|[user, ip]| [("user", &**user), ("ip", &**ip)]);
        let entries: Vec<_> = entries.collect();
        let limits = entries.iter().zip(asked).map(|(entries, (.., limit))| {
            let (descriptor, second) = (Descriptor::new(entries), Duration::from_secs(1));
            let limit = Limit::Units((*limit)?);
            Some(gate.policy().own_limit("default", &descriptor, limit, second).unwrap())
        });
        let limits: Vec<_> = limits.collect();
        let descriptors =
            entries.iter().zip(asked).zip(&limits).map(|((entries, asked), limit)| {
                let descriptor = Descriptor::new(entries).cost(asked.2);
                limit.as_ref().map_or(descriptor, |limit| descriptor.limit(limit))
            });
        let descriptors: Vec<_> = descriptors.collect();
        let request = Request::new("default", &descriptors);
        let id = id.map(|id| format!("id-{id}"));
        let request = id.as_ref().map_or(request, |id| request.with_id(id).unwrap());
        refused += u64::from(!gate.check(request).is_allowed());
    }
    (recorder.lines().iter().flat_map(|block| block.to_vec()).collect(), refused)
}

fn replayed(recorded: Vec<u8>, policy: Policy) -> Report {
    let source = Source::from_reader("recorded", io::Cursor::new(recorded));
    let mut sorted = trace::read(source, options(&policy)).unwrap();
    assert_eq!(sorted.bad_lines().count, 0, "{:?}", sorted.bad_lines().first);
    let (mut report, replay) = (Report::new(&policy), Replay::new(policy));
    while let Some(batch) = sorted.next_batch().unwrap() {
        for event in batch.events() {
            let event = event.unwrap();
            report.record(&event, &replay.decide(&event));
        }
    }
    report
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_recording_of_idle_limiters_is_replayed_as_it_was_decided(
        requests in proptest::collection::vec(any_request(), 1..200),
    ) {
        let (recorded, refused) = record(&requests);
        let report = replayed(recorded, policy());
        let RecordedDecisions { decisions, now_refused, now_admitted } = report.recorded;
        prop_assert_eq!((now_refused, now_admitted), (0, 0));
        prop_assert_eq!((decisions, report.refused), (requests.len() as u64, refused));
    }
}

#[test]
fn other_rules_are_compared_with_what_was_decided() {
    let requests: Vec<_> = (0..20).map(|n| (100_000, vec![(n % 4, 0, 1, None)], None)).collect();
    let (recorded, refused) = record(&requests);
    let tighter = Policy::new(vec![RuleSpec::new("all", "3/1h")]).unwrap();
    let report = replayed(recorded.clone(), tighter);
    let expected = RecordedDecisions { decisions: 20, now_refused: 17 - refused, now_admitted: 0 };
    assert_eq!(report.recorded, expected);
    assert!(json(&report).unwrap().contains(r#""recorded":{"decisions":20,"now_refused":"#));
    let open = Policy::new(vec![RuleSpec::new("all", "100/1h")]).unwrap();
    assert_eq!(replayed(recorded, open).recorded.now_admitted, refused);
}
