//! Rules whose keys live in different slots of a cluster: taken one after the other, all or nothing, also among many and
//! where a slot is silent. Their decisions are in `tests/conformance`, over a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::server::nodes::Nodes;
use std::time::Duration;

use crate::server::{gate_of, gate_over, gate_with, settings, setup};
use tidegate::{
    AlgorithmKind, Answer, Descriptor, OnStoreError, Request, Rule, RuleSpec, SharedGate, Spec,
};

const DAY: Duration = Duration::from_secs(86_400);

/// `limit` units a day for each user.
fn per_user(limit: u64) -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::SlidingLog, limit, DAY);
    RuleSpec::new("per-user", spec).key(["user"]).across_slots()
}

/// `limit` units a day for all payments.
fn payments(limit: u64) -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::SlidingLog, limit, DAY);
    RuleSpec::new("payments", spec).key(["pays"]).across_slots()
}

type Entries<'a> = &'a [(&'a str, &'a str)];

const PAYS: Entries<'_> = &[("user", "ada"), ("pays", "yes")];
const LOOKS: Entries<'_> = &[("user", "ada")];

async fn ask<'g>(gate: &'g SharedGate, entries: Entries<'_>) -> Answer<'g> {
    gate.check(Descriptor::new(entries)).await
}

async fn look<'g>(gate: &'g SharedGate, entries: Entries<'_>) -> Answer<'g> {
    gate.peek(Descriptor::new(entries)).await
}

async fn remaining(gate: &SharedGate, entries: Entries<'_>) -> Vec<u64> {
    let answer = look(gate, entries).await;
    assert!(!answer.is_degraded(), "{answer:?}");
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

#[tokio::test]
async fn what_a_slot_takes_too_late_counts_where_the_request_went_on_without_it() {
    let cluster = Nodes::start(2, 0);
    let second = cluster.holder(cluster.slot("tidegate:default:payments:yes"));
    let user = cluster.user_on(1 - second, "tidegate:default:per-user:");
    let pays = [("user", user.as_str()), ("pays", "yes")];
    // Units of the first request are kept, and units of the second are given back.
    for on_store_error in [OnStoreError::Open, OnStoreError::Closed] {
        let mut hasty = settings(&cluster.url());
        hasty.timeout = Duration::from_millis(400);
        let rules = vec![per_user(10), payments(50).on_store_error(on_store_error)];
        let (gate, _) = gate_with(hasty, rules).await;
        cluster.all[second].signal("STOP");
        let answer = ask(&gate, &pays).await;
        cluster.all[second].signal("CONT");
        assert!(answer.is_degraded(), "{answer:?}");
        assert_eq!(answer.is_allowed(), on_store_error == OnStoreError::Open);
        let mut looks = 0;
        let gives_back = on_store_error == OnStoreError::Closed;
        while gate.counts().late == 0
            || gives_back && gate.counts().undone == 0
            || look(&gate, &pays).await.is_degraded()
        {
            looks += 1;
            assert!(looks < 60_000, "taken units are not given back");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Units are given back before this many looks at the store.
        for _ in 0..5 {
            let _ = remaining(&gate, &pays).await;
        }
        assert_eq!(remaining(&gate, &pays[1..]).await, [49], "{on_store_error:?}");
    }
}

/// Counts requests that fit but are refused, because others that are refused in the end hold units for a
/// moment. `TIDEGATE_LONG=1 cargo test -p tidegate --release --all-features --test stores under_admission --
/// --nocapture` prints the values of the guide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_admission_passes() {
    let cluster = Nodes::start(2, 0);
    let rounds: u32 = if testkit::threads::long() { 5_000 } else { 100 };
    let (gate, _) = gate_over(&cluster.url(), vec![per_user(4), payments(5)]).await;
    let gate = Arc::new(gate);
    for user in ["a", "b", "c", "d", "e"] {
        assert!(ask(&gate, &[("user", user), ("pays", "yes")]).await.is_allowed());
    }
    for callers in [1, 3, 4, 8, 16] {
        let ended = Arc::new(AtomicBool::new(false));
        let refused_in_the_end = (0..callers).map(|_| {
            let (gate, ended) = (Arc::clone(&gate), Arc::clone(&ended));
            tokio::spawn(async move {
                while !ended.load(Relaxed) {
                    assert!(!ask(&gate, PAYS).await.is_allowed());
                }
            })
        });
        let askers: Vec<_> = refused_in_the_end.collect();
        let mut early = 0;
        for _ in 0..rounds {
            if ask(&gate, LOOKS).await.is_allowed() {
                assert!(gate.refund(Descriptor::new(LOOKS)).await.is_ok());
            } else {
                early += 1;
            }
        }
        ended.store(true, Relaxed);
        for asker in askers {
            asker.await.unwrap();
        }
        println!("{callers} callers hold units in passing: {early} of {rounds} refused early");
        assert!(callers > 3 || early == 0, "no more units are held than callers ask for");
        assert_eq!(remaining(&gate, LOOKS).await, [4], "it passes");
    }
}

#[tokio::test]
async fn units_of_the_first_slot_are_given_back_where_the_second_refuses() {
    let cluster = Nodes::start(2, 0);
    // More units, but over a far longer window: `per-user` is asked first, and `payments` refuses.
    let mut rules = [per_user(1_000), payments(60)];
    rules[1].spec.window = Some(Duration::from_secs(3_600));
    let (gate, _) = gate_over(&cluster.url(), rules.to_vec()).await;
    let gate = Arc::new(gate);
    let admitted = Arc::new(AtomicU64::new(0));
    let askers = (0..8).map(|_| {
        let (gate, admitted) = (Arc::clone(&gate), Arc::clone(&admitted));
        tokio::spawn(async move {
            for _ in 0..50 {
                let answer = ask(&gate, PAYS).await;
                assert!(!answer.is_degraded(), "{answer:?}");
                admitted.fetch_add(u64::from(answer.is_allowed()), Relaxed);
            }
        })
    });
    for asker in askers.collect::<Vec<_>>() {
        asker.await.unwrap();
    }
    assert_eq!(admitted.load(Relaxed), 60, "not one more, and not one less");
    assert_eq!(remaining(&gate, PAYS).await, [940, 0], "all that was refused was given back");
}

#[tokio::test]
async fn a_reservation_gives_back_in_each_slot_while_plans_are_unlimited() {
    let cluster = Nodes::start(2, 0);
    let unlimited = Arc::new(AtomicBool::new(false));
    let mut setup = setup(vec![per_user(10), payments(20)]);
    for rule in ["per-user", "payments"] {
        let none = Rule::new(Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap();
        let unlimited = Arc::clone(&unlimited);
        let plan = move |_: &Descriptor<'_>| unlimited.load(Relaxed).then(|| none.clone());
        setup = setup.plans("default", rule, plan).unwrap();
    }
    let (gate, _) = gate_of(settings(&cluster.url()), setup).await;
    let request = Request::from(Descriptor::new(PAYS).cost(5));
    assert!(gate.check(&request).await.is_allowed());
    unlimited.store(true, Relaxed);
    assert!(gate.settle(&request, None, &[2]).await.unwrap().matched().is_empty());
    assert!(gate.refund(&request).await.unwrap().matched().is_empty(), "which gives nothing");
    unlimited.store(false, Relaxed);
    assert_eq!(remaining(&gate, PAYS).await, [8, 18]);
}
