//! Permits over a store: what they cost it, and nodes that are gone, changed or alone.

use std::time::Duration;

use tokio::time::sleep;

use crate::server::{Server, check, gate_over, long, lose, served};
use tidegate::{AlgorithmKind, Descriptor, Request, RuleSpec, SharedGate, Spec, Taken};

const LIFE: Duration = Duration::from_secs(60);

fn jobs(limit: u64, life: Duration) -> RuleSpec {
    RuleSpec::new("jobs", Spec::new(AlgorithmKind::Concurrency, limit, life)).key(["user"])
}

fn ada<'a>() -> Request<'a> {
    Request::from(("default", &[("user", "ada")]))
}

async fn left(gate: &SharedGate) -> u64 {
    gate.peek(ada()).await.matched()[0].decision().remaining
}

/// Its processor time so far, in microseconds, of all threads.
fn cpu_us(server: &Server) -> u64 {
    let info: String = server.run(&["INFO", "cpu"]);
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().parse::<f64>().unwrap()
    };
    ((of("used_cpu_user") + of("used_cpu_sys")) * 1e6) as u64
}

/// A permit has a place of its own in the stored state, which each decision reads and writes whole. Prints what that
/// costs the store.
#[tokio::test]
async fn a_permit_takes_twenty_bytes_of_the_store() {
    const PAIRS: u64 = 200;
    let outs: &[u64] = if long() { &[1, 10, 100, 1_000, 10_000] } else { &[1, 10, 100] };
    for permits in outs {
        let (server, gate, _) = served(vec![jobs(*permits, LIFE * 60)]).await;
        let mut last = None;
        for _ in 0..*permits {
            let answer = gate.check(ada()).await;
            assert!(answer.is_allowed() && !answer.is_degraded());
            last = Some(Taken::from(&answer));
        }
        let keys: Vec<String> = server.run(&["KEYS", "*"]);
        let mut bytes = Vec::new();
        for key in keys {
            bytes.extend(server.ask::<u64>(&["STRLEN", &key]));
        }
        let most = bytes.into_iter().max().unwrap();
        assert_eq!(most, 57 + 20 * permits);
        let before = cpu_us(&server);
        for _ in 0..PAIRS {
            let taken = last.take().unwrap();
            assert!(gate.renew(ada(), &taken).await.unwrap());
            let _ = gate.settle(ada(), &taken, &[0]).await.unwrap();
            let answer = gate.check(ada()).await;
            assert!(answer.is_allowed() && !answer.is_degraded());
            last = Some(Taken::from(&answer));
        }
        let each = (cpu_us(&server) - before) / (3 * PAIRS);
        println!("| {permits} | {most} | {each} |");
    }
}

#[tokio::test]
async fn permits_of_a_node_that_is_gone_come_back_and_a_late_renewal_is_reported() {
    let server = Server::start(&[]);
    let life = Duration::from_millis(200);
    let (gone, _) = gate_over(&server.url(), vec![jobs(1, life)]).await;
    let (gate, _) = gate_over(&server.url(), vec![jobs(1, life)]).await;
    let late = Taken::from(&check(&gone, "ada", 1).await);
    let next = loop {
        let answer = check(&gate, "ada", 1).await;
        match answer.retry_after() {
            Some(wait) if !answer.is_allowed() => sleep(wait).await,
            _ => break Taken::from(&answer),
        }
    };
    assert!(!gone.renew(ada(), &late).await.unwrap());
    assert!(next.tokens().min() > late.tokens().max(), "the resource refuses the earlier one");
    let _ = gone.settle(ada(), &late, &[0]).await.unwrap();
    assert!(gate.renew(ada(), &next).await.unwrap(), "it is not the permit returned late");
}

#[tokio::test]
async fn a_charge_is_returned_by_whichever_cost_and_a_changed_limit_keeps_it_out() {
    let (server, gate, _) = served(vec![jobs(3, LIFE)]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(2));
    let charge = gate.hold(&request).await.unwrap();
    assert!(charge.answer().matched()[0].token().is_some());
    assert_eq!(left(&gate).await, 1);
    let (other, _) = gate_over(&server.url(), vec![jobs(2, LIFE / 2)]).await;
    assert_eq!(left(&other).await, 0);
    assert!(charge.renew().await.unwrap());
    charge.settle(17).await.unwrap();
    assert_eq!(left(&other).await, 2);
}

#[tokio::test]
async fn a_permit_that_this_node_gave_without_the_store_is_renewed_and_returned_here() {
    let (mut server, gate, events) = served(vec![jobs(2, LIFE)]).await;
    assert!(check(&gate, "ada", 0).await.is_allowed());
    lose(&mut server, &gate, &events).await;
    let answer = check(&gate, "ada", 2).await;
    assert!(answer.is_allowed() && answer.is_degraded());
    let taken = Taken::from(&answer);
    assert!(!check(&gate, "ada", 1).await.is_allowed());
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(2));
    assert!(gate.renew(&request, &taken).await.unwrap());
    let _ = gate.settle(&request, &taken, &[0]).await.unwrap();
    assert!(!gate.renew(&request, &taken).await.unwrap());
    assert_eq!(gate.peek(&request).await.remaining(), Some(2));
}
