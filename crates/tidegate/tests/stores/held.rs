//! Charging by outcome over a store: which units are kept, which come back, and from where.

use crate::server::moved_clock::Stepped;
use crate::server::{Folder, Server, check, gate_over, lose, rule, served};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Charge, Descriptor, Gate, OnExcess, OnStoreError, Policy, Request, RuleSpec,
    Settled, Spec, Taken, Usage,
};

const DAY: Duration = Duration::from_secs(86_400);

fn log(name: &str, limit: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(AlgorithmKind::SlidingLog, limit, DAY))
}

/// A server whose clock a test moves, and the folder of the clock.
fn stepped() -> (Folder, Stepped, Server) {
    let folder = Folder::new();
    let clock = Stepped::new(&folder.0);
    let server = Server::start_in(&clock.environment(), &[]);
    (folder, clock, server)
}

#[tokio::test]
async fn who_waits_is_held_in_turn() {
    // Longer than the day that it takes, by more than the clocks of the store and of this process can differ.
    let wait = OnExcess::Wait { wait: Duration::from_secs(2 * 86_400), max_waiters: 9 };
    let (_server, gate, _) = served(vec![log("all", 1).on_excess(wait)]).await;
    let descriptors = [Descriptor::new(&[])];
    let request = Request::new("default", &descriptors);
    let charge = gate.hold(&request).await.unwrap();
    let hasty = request.max_wait(Duration::ZERO);
    assert!(!gate.acquire(hasty.reserving()).await.is_allowed(), "a limiter is full for a day");
    let released = async {
        while gate.waiting(&request) == 0 {
            tokio::task::yield_now().await;
        }
        charge.release().await
    };
    let (second, released) = tokio::join!(gate.acquire(request.reserving()), released);
    released.unwrap();
    Charge::of(&gate, request.reserving(), second).unwrap().settle(1).await.unwrap();
    assert_eq!(gate.peek(&request).await.remaining(), Some(0));
    assert_eq!(gate.peek(&Request::new("none", &descriptors)).await.remaining(), None);
}

/// A settlement has happened, so its answer never refuses, and reports the same in memory as over a store.
#[tokio::test]
async fn a_settlement_is_never_answered_as_a_refusal() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let rule = || RuleSpec::new("r", Spec::new(algorithm, 100, DAY)).key(["kind", "actual"]);
        let (shared, _) = gate_over(&server.url(), vec![rule()]).await;
        let gate = Gate::new(Policy::new(vec![rule()]).unwrap());
        for actual in [0, 40, 80, 100, 150] {
            let actual_text = actual.to_string();
            let entries = [("kind", algorithm.name()), ("actual", actual_text.as_str())];
            let request = Request::from(Descriptor::new(&entries).cost(80));
            let taken = Taken::from(&shared.check(&request).await);
            let over_store = shared.settle(&request, &taken, &[actual]).await.unwrap();
            let taken = Taken::from(&gate.check(&request));
            let in_memory = gate.settle(&request, &taken, &[actual]);
            for answer in [&over_store, &in_memory] {
                assert!(answer.is_allowed(), "{algorithm:?}, {actual}: {answer:?}");
                assert_eq!(answer.retry_after(), Some(Duration::ZERO), "{algorithm:?}, {actual}");
                assert_eq!(answer.delay(), Duration::ZERO, "{algorithm:?}, {actual}");
            }
            assert_eq!(in_memory.remaining(), over_store.remaining(), "{algorithm:?}, {actual}");
            assert!(gate.refund(&request).is_allowed());
            assert!(shared.refund(&request).await.unwrap().is_allowed());
        }
    }
}

/// The answer of a settlement in this process reports cut units, like a settlement in the store.
#[tokio::test]
async fn what_is_settled_without_the_store_for_too_much_is_said_to_be_cut() {
    let (mut server, gate, events) = served(vec![rule(AlgorithmKind::SlidingLog, 5)]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(2));
    assert!(gate.check(&request).await.is_allowed());
    lose(&mut server, &gate, &events).await;
    let taken = Taken::from(&gate.check(&request).await);
    // Four units are used; the limit and a debt of another limit let six more be taken.
    let settled = gate.settle(&request, &taken, &[100]).await.unwrap();
    assert!(settled.is_degraded());
    let cut: Vec<_> = settled.enforced().map(|one| one.settled().cut_units()).collect();
    assert_eq!(cut, [98 - 6]);
}

/// A rule that is gone keeps what it took and takes no more, and the answer says so.
#[tokio::test]
async fn what_is_settled_with_a_rule_that_is_gone_is_said_to_be_late_or_cut() {
    let (_server, gate, _) = served(vec![rule(AlgorithmKind::SlidingLog, 500)]).await;
    let (ada, bob) = ([("user", "ada")], [("user", "bob")]);
    let descriptors = [Descriptor::new(&ada).cost(100), Descriptor::new(&bob).cost(7)];
    let request = Request::new("default", &descriptors);
    let taken = Taken::from(&gate.check(&request).await);
    gate.replace(Policy::new(vec![log("other", 9)]).unwrap()).unwrap();
    for (actual, wanted) in [([0, 7], [Settled::Late(100)]), ([300, 7], [Settled::Cut(200)])] {
        let settled = gate.settle(&request, &taken, &actual).await.unwrap();
        let lost: Vec<_> = settled.unreached().iter().map(|one| one.settled()).collect();
        assert_eq!(lost, wanted);
        assert!(
            settled.unreached()[0].is_matched_by(0) && !settled.unreached()[0].is_matched_by(1)
        );
    }
}

/// The surplus of a reservation comes back whole if the bucket never ran that low. Units that are checked, not reserved,
/// open no reservation: to settle them closes no reservation of another caller.
#[tokio::test]
async fn what_is_too_much_of_a_hold_comes_back_whole_although_others_settle_checks() {
    let (_folder, clock, server) = stepped();
    let spec = Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(100 * 3_600));
    let (gate, _) = gate_over(&server.url(), vec![RuleSpec::new("all", spec)]).await;
    let [fifty, ten] = [50, 10].map(|units| Request::from(Descriptor::new(&[]).cost(units)));
    let charge = gate.hold(&fifty).await.unwrap();
    assert!(gate.check(&fifty).await.is_allowed());
    for hours in 1..=12 {
        // Ten units flow in, and are taken.
        clock.step(36_000 * hours);
        let answer = gate.check(&ten).await;
        assert!(answer.is_allowed(), "{hours}");
        gate.settle(&ten, &Taken::from(&answer), &[10]).await.unwrap();
    }
    charge.release().await.unwrap();
    assert_eq!(gate.peek(&fifty).await.remaining(), Some(50));
}

/// Units taken before a reset, or under a rule with another meaning, do not come back.
#[tokio::test]
async fn nothing_comes_back_after_a_reset_or_under_another_meaning() {
    let server = Server::start(&[]);
    let of_a_day = |algorithm, days: u64| {
        vec![RuleSpec::new("all", Spec::new(algorithm, 10, Duration::from_secs(86_400 * days)))]
    };
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| !one.holds_permits()) {
        for resets in [true, false] {
            let domain = format!("{algorithm}-{resets}");
            let rules = |days| {
                let rules = of_a_day(*algorithm, days);
                rules.into_iter().map(|rule| rule.in_domain(&domain)).collect::<Vec<_>>()
            };
            let (gate, _) = gate_over(&server.url(), rules(1)).await;
            let descriptors = [Descriptor::new(&[]).cost(6)];
            let request = Request::new(&domain, &descriptors);
            let charge = gate.hold(&request).await.unwrap();
            match resets {
                true => assert_eq!(gate.reset(&request).await.unwrap(), 1),
                false => gate.replace(Policy::new(rules(2)).unwrap()).unwrap(),
            }
            let smaller = [Descriptor::new(&[]).cost(3)];
            assert!(gate.check(&Request::new(&domain, &smaller)).await.is_allowed());
            let left = gate.peek(&request).await.remaining();
            charge.release().await.unwrap();
            assert_eq!(gate.peek(&request).await.remaining(), left, "{algorithm}, {resets}");
        }
    }
}

/// A node with old values settles a reservation under newer values of another node.
#[tokio::test]
async fn what_an_old_node_took_frees_nothing_of_the_newer_values_of_another() {
    let (_folder, clock, server) = stepped();
    let rules = |window| {
        let of = |algorithm: &AlgorithmKind| {
            let mut spec = Spec::new(*algorithm, 10, Duration::from_secs(window));
            spec.capacity = algorithm.is_queue().then_some(9);
            RuleSpec::new(algorithm.name(), spec).key(["user"]).in_domain(algorithm.name())
        };
        AlgorithmKind::ALL.iter().map(of).collect::<Vec<_>>()
    };
    let (old, _) = gate_over(&server.url(), rules(1)).await;
    let (new, _) = gate_over(&server.url(), rules(3_600)).await;
    for (turn, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let of = |units| [Descriptor::new(&[("user", "ada")]).cost(units)];
        let (ten, five, one) = (of(10), of(5), of(1));
        let [ten, five, one] = [&ten, &five, &one].map(|all| Request::new(algorithm.name(), all));
        let mut held = Vec::new();
        for hour in 1..=3 {
            held.push(old.hold(&ten).await.unwrap());
            clock.step(3_600 * (100 * turn as i64 + 2 * hour));
        }
        assert!(new.check(&ten).await.is_allowed(), "{algorithm}");
        for charge in held {
            charge.release().await.unwrap();
            assert!(!new.check(&one).await.is_allowed(), "{algorithm}: it was of another rule");
        }
        clock.step(3_600 * (100 * turn as i64 + 20));
        assert!(new.check(&one).await.is_allowed(), "{algorithm}");
        let before = new.peek(&one).await.remaining();
        // It is decided under the newer values, so it comes back under them.
        old.hold(&five).await.unwrap().release().await.unwrap();
        assert_eq!(new.peek(&one).await.remaining(), before, "{algorithm}");
    }
}

/// A rule whose usage is reported afterwards.
#[tokio::test]
async fn a_report_while_the_store_is_away_is_taken_here_or_refused_and_never_lost_without_a_word() {
    let spec = |name| {
        let spec = Spec::new(AlgorithmKind::SlidingLog, 100, Duration::from_secs(3_600));
        RuleSpec::new(name, spec).key(["user"]).usage(Usage::Reported)
    };
    for (on_store_error, looks) in [(OnStoreError::Local, true), (OnStoreError::Closed, false)] {
        let rules = vec![spec("tokens").on_store_error(on_store_error)];
        let (mut server, gate, events) = served(rules).await;
        assert!(check(&gate, "ada", 60).await.is_allowed());
        lose(&mut server, &gate, &events).await;
        let look = check(&gate, "ada", 0).await;
        assert_eq!((look.is_allowed(), look.is_unavailable()), (looks, !looks));
        // Earlier reports are known in this process as well, because this is the only node.
        let report = check(&gate, "ada", 60).await;
        assert!(!report.is_allowed(), "{on_store_error:?}");
        assert_eq!(report.matched()[0].is_report(), looks, "taken, or to be reported again");
        assert!(!check(&gate, "ada", 0).await.is_allowed());
    }
}
