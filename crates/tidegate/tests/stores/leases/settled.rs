//! Reservations of rules with leases and shares: unused units come back, and no bound is passed.

use std::sync::Arc;
use std::time::Duration;

use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Descriptor, LeaseSpec, Policy, Request, Rule, RuleSpec, Settled, SharedGate,
    Spec, Taken,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{ALGORITHMS, Admitted, Ahead, is_level, node, within};
use crate::server::{LONG, Server, long, rule};

/// The cost of each reservation.
const COST: u64 = 10;

/// Reserves until leased units have admitted a request and the store has admitted a request, and settles each for 3
/// units. Returns the number of admitted requests.
async fn settle_both_kinds(gate: &SharedGate) -> u64 {
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(COST));
    let (mut admitted, mut of_store, began) = (0, 0, Instant::now());
    while gate.counts().leased_spent == 0 || of_store == 0 {
        assert!(began.elapsed() < LONG, "nothing is leased");
        let before = gate.counts().leased_spent;
        let charge = gate.hold(&request).await.unwrap();
        assert!(!charge.answer().is_degraded());
        of_store += u64::from(gate.counts().leased_spent == before);
        charge.settle(3).await.unwrap();
        admitted += 1;
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_reservation_did_not_use_comes_back_under_leases_and_shares() {
    const LIMIT: u64 = 100_000;
    for algorithm in ALGORITHMS {
        for ahead in [Ahead::Leases, Ahead::Shares] {
            let rule = ahead.of(rule(algorithm, LIMIT));
            let server = Server::start(&[]);
            let gate = node(&server.url(), 1, vec![rule.clone()]).await;
            let admitted = settle_both_kinds(&gate).await;
            gate.leave().await.unwrap();
            let other = node(&server.url(), 1, vec![rule]).await;
            let left = other.peek(Descriptor::new(&[("user", "ada")])).await.remaining();
            let used = LIMIT - left.unwrap();
            println!("{algorithm}: {used} used by {admitted} reservations");
            // A bucket keeps what could have drained, in a second and since then: two units or three of a reservation.
            let most = admitted * if is_level(algorithm) { 6 } else { 3 };
            assert!(used <= most, "{algorithm}: {used} used by {admitted} reservations");
            assert!(is_level(algorithm) || used == most, "{algorithm}: {used} of {most}");
        }
    }
}

/// Leases rely on the level of a bucket, so what comes back counts as taken a second earlier: in a second as much drains.
#[tokio::test]
async fn what_drains_in_a_second_does_not_come_back_under_leases() {
    let server = Server::start(&[]);
    let spec = Spec::new(AlgorithmKind::TokenBucket, 3_600_000, Duration::from_secs(3_600));
    let rule = Ahead::Leases.of(RuleSpec::new("all", spec));
    let gate = node(&server.url(), 1, vec![rule]).await;
    let request = Request::from(Descriptor::new(&[]).cost(1_000));
    let taken = Taken::from(&gate.check(&request).await);
    let settled = gate.settle(&request, &taken, &[0]).await.unwrap();
    assert_eq!(settled.matched()[0].settled(), Settled::Late(1_000));
    let longer = [Descriptor::new(&[]).cost(100_000)];
    let longer = Request::new("default", &longer);
    let taken = Taken::from(&gate.check(&longer).await);
    let settled = gate.settle(&longer, &taken, &[0]).await.unwrap();
    assert!(settled.matched()[0].settled().late_units() < 100_000);
}

/// Under leases a reservation opens nothing in the store, so nothing of another caller is closed when the rule has none
/// any more.
#[tokio::test]
async fn what_a_rule_with_leases_gave_closes_no_reservation_once_it_has_none() {
    let server = Server::start(&[]);
    let plain = rule(AlgorithmKind::TokenBucket, 100_000);
    let gate = node(&server.url(), 1, vec![plain.clone()]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(COST));
    let open = gate.hold(&request).await.unwrap();
    gate.replace(Policy::new(vec![Ahead::Leases.of(plain.clone())]).unwrap()).unwrap();
    let leased = gate.hold(&request).await.unwrap();
    gate.replace(Policy::new(vec![plain]).unwrap()).unwrap();
    // Of a state with an open reservation more is stored.
    let stored = || server.run::<u64>(&["STRLEN", "tidegate:default:token_bucket:ada"]);
    let with_mark = stored();
    leased.settle(0).await.unwrap();
    assert_eq!(stored(), with_mark);
    open.settle(1).await.unwrap();
    assert!(stored() < with_mark);
}

/// Reserves at one node until a time, and settles each reservation a little later for a random part of its cost.
async fn reserve_until(gate: Arc<SharedGate>, until: Instant, seed: u64) -> Vec<(Admitted, u64)> {
    let (mut rng, mut admitted) = (Rng::new(seed), Vec::new());
    while Instant::now() < until {
        let cost = 1 + rng.below(4);
        let began = Instant::now();
        if let Ok(charge) = gate.hold(Descriptor::new(&[("user", "ada")]).cost(cost)).await {
            let ended = Instant::now();
            let actual = rng.below(cost + 1);
            sleep(Duration::from_millis(rng.below(60))).await;
            charge.settle(actual).await.unwrap();
            admitted.push(((began, ended), actual));
        }
        tokio::task::yield_now().await;
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_reservations_of_three_nodes_with_leases_never_pass_the_bound() {
    let window = Duration::from_millis(250);
    let lasting = Duration::from_millis(if long() { 10_000 } else { 1_000 });
    for algorithm in ALGORITHMS {
        let server = Server::start(&[]);
        let mut rule =
            Ahead::Leases.of(RuleSpec::new("own", Spec::new(algorithm, 100, window)).key(["user"]));
        rule.lease = Some(LeaseSpec { max_percent: 20, life: Duration::from_millis(50) });
        let gates = Ahead::Leases.nodes(&server, 3, &rule).await;
        let bound = Rule::new(rule.spec).unwrap().bound(1).unwrap();
        let (mut used, mut spent, began) = (Vec::new(), 0, Instant::now());
        while spent == 0 {
            assert!(began.elapsed() < LONG, "{algorithm}: nothing was leased");
            let (until, mut asking) = (Instant::now() + lasting, JoinSet::new());
            for (number, gate) in gates.iter().cycle().take(24).enumerate() {
                asking.spawn(reserve_until(Arc::clone(gate), until, number as u64));
            }
            for (admitted, actual) in asking.join_all().await.into_iter().flatten() {
                used.extend(std::iter::repeat_n(admitted, actual as usize));
            }
            spent = gates.iter().map(|gate| gate.counts().leased_spent).sum::<u64>();
        }
        within(bound, &format!("{algorithm}, {spent} of leases"), used, window);
    }
}
