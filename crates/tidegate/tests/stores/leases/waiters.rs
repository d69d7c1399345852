//! Whom a lease wakes when its units come back.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmKind, Descriptor, LeaseSpec, OnExcess, Request, SharedGate};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, timeout};

use super::{leased, node, until_leased};
use crate::server::{LOG_ALL, LONG, Server, check};

const LIMIT: u64 = 5_000;

/// Starts a request that may wait, and returns when it waits or has ended.
async fn waiter(gate: &Arc<SharedGate>, user: &str, cost: u64) -> JoinHandle<bool> {
    let (own, named) = (Arc::clone(gate), user.to_owned());
    let task = tokio::spawn(async move {
        let answer = own
            .acquire(&Request::from(Descriptor::new(&[("user", named.as_str())]).cost(cost)))
            .await;
        answer.is_allowed() && !answer.is_degraded()
    });
    while gate.waiting(("default", &[("user", user)])) == 0 && !task.is_finished() {
        yield_now().await;
    }
    task
}

#[tokio::test]
async fn a_lease_that_comes_back_wakes_the_waiters_of_its_key_and_no_others() {
    let (server, began) = (Server::start(&LOG_ALL), Instant::now());
    let wait = OnExcess::Wait { wait: Duration::from_secs(2 * 86_400), max_waiters: 9 };
    let mut rule = leased(AlgorithmKind::FixedWindow, LIMIT).on_excess(wait);
    rule.lease = Some(LeaseSpec { max_percent: 20, life: Duration::from_secs(1) });
    for attempt in 0.. {
        assert!(began.elapsed() < LONG, "each lease has come back before any caller waits");
        let gate = node(&server.url(), 1, vec![rule.clone()]).await;
        let (ada, zelda) = (format!("ada{attempt}"), format!("zelda{attempt}"));
        assert!(waiter(&gate, &zelda, LIMIT).await.await.unwrap(), "her limit was not used up");
        let (_, admitted) = until_leased(&gate, &ada).await;
        // The units that are leased and not spent are missing.
        let ada = waiter(&gate, &ada, LIMIT - admitted).await;
        let other = waiter(&gate, &zelda, 1).await;
        if ada.is_finished() {
            other.abort();
            continue;
        }
        assert!(timeout(LONG, ada).await.unwrap().unwrap(), "the units of the lease are hers");
        let _ = check(&gate, "bob", 1).await;
        // One took the limit. The waiter asked when it came and again when it had its place.
        assert_eq!(server.senders_of(&zelda).len(), 3);
        assert!(!other.is_finished());
        return other.abort();
    }
}
