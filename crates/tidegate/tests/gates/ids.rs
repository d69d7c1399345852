//! The cap on answers remembered in memory.

use std::time::Duration;
use tidegate::{
    AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Setup, Spec, Timestamp,
};

/// At this time, no window of a day ends soon.
const BEGIN_US: u64 = 1_700_000_000_000_000;

/// A gate with room for all requests, so that only remembered answers make a difference.
fn gate(most: usize) -> Gate<Timestamp> {
    let spec = Spec::new(AlgorithmKind::TokenBucket, 100_000, Duration::from_secs(86_400));
    let rule = RuleSpec::new("user", spec).key(["user"]).dedupe(Duration::from_secs(10));
    let policy = Policy::new(vec![rule]).unwrap();
    let setup = Setup::new(policy).max_remembered_answers(most);
    Gate::with_clock(setup, Timestamp::from_micros(BEGIN_US))
}

#[test]
fn memory_keeps_so_many_answers_and_says_what_it_forgot() {
    let gate = gate(6_400);
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let check = |id: u64, at_us| {
        let id = id.to_string();
        let request = Request::new("default", &descriptors).with_id(&id).unwrap();
        let answer = gate.check_at(&request, Timestamp::from_micros(BEGIN_US + at_us));
        assert!(answer.is_allowed());
        answer.is_repeated()
    };
    (0..6_400).for_each(|id| assert!(!check(id, id)));
    assert_eq!((gate.counts().remembered_answers, gate.counts().forgotten_answers), (6_400, 0));
    assert!((0..6_400).all(|id| check(id, 6_400)), "all that fit are there");
    (6_400..20_000).for_each(|id| assert!(!check(id, id)));
    assert_eq!(
        (gate.counts().remembered_answers, gate.counts().forgotten_answers),
        (6_400, 13_600)
    );
    assert!(check(19_999, 20_000), "the last is there");
    let forgotten = gate.counts().forgotten_answers;
    (20_000..20_064).for_each(|id| assert!(!check(id, 20_000_000)));
    assert_eq!(
        gate.counts().forgotten_answers,
        forgotten,
        "those whose time is over make room, and are not missed"
    );
}

#[test]
fn memory_keeps_as_many_answers_as_was_said_however_few() {
    for most in [0, 1, 7, 100, 1_025] {
        let gate = gate(most);
        let descriptors = [Descriptor::new(&[("user", "ada")])];
        for id in 1..=2 * most.max(1) {
            let text = id.to_string();
            let request = Request::new("default", &descriptors).with_id(&text).unwrap();
            assert!(!gate.check(&request).is_repeated());
            assert_eq!(gate.check(&request).is_repeated(), most > 0, "the last is there");
            let asked = if most == 0 { 2 * id } else { id };
            let forgotten = asked.saturating_sub(most) as u64;
            let values = (gate.counts().remembered_answers, gate.counts().forgotten_answers);
            assert_eq!(values, (asked.min(most), forgotten), "{id} of {most}");
        }
    }
}

#[test]
fn memory_keeps_no_more_answers_than_was_said_however_many_ask_at_once() {
    let gate = &gate(64);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in 0..2_000 {
                    let id = format!("{thread} {number}");
                    let request =
                        Request::from(Descriptor::new(&[("user", "ada")])).with_id(&id).unwrap();
                    assert!(!gate.check(&request).is_repeated());
                    assert!(gate.counts().remembered_answers <= 64 + 4);
                }
            });
        }
    });
    let (kept, forgotten) =
        (gate.counts().remembered_answers as u64, gate.counts().forgotten_answers);
    assert!((1..=64 + 4).contains(&kept));
    assert_eq!(kept + forgotten, 8_000);
}
