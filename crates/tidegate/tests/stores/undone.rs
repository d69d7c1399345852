//! Units that a reply took after its caller had gone: at which time each limiter gets them back, and for how long that is
//! tried while values change.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::num::NonZero;
use std::pin::pin;
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Descriptor, Limit, OnStoreError, Policy, Request, RuleSpec, SharedGate,
};
use tokio::task::yield_now;

use crate::lost::{Proxy, Replies, behind, server_in, used};
use crate::server::{LONG, check, gate_over, rule};

/// How often the store is asked at most to take units back, while other values decide each time.
pub(crate) const MOST_ASKED: usize = 17;

/// Sends a request, and drops it while its reply is on the way.
async fn give_up(gate: &SharedGate, proxy: &Proxy, request: &Request<'_>) {
    let before = proxy.scripts();
    proxy.replies.send_replace(Replies::Hold);
    let sent = async {
        while proxy.scripts() == before {
            yield_now().await;
        }
    };
    tokio::select! {
        answer = pin!(gate.check(request)) => panic!("{answer:?} although replies are held"),
        () = sent => {}
    }
}

/// Units of late replies that came back, and those that did not.
fn undone(gate: &SharedGate) -> [u64; 2] {
    let counts = gate.counts();
    [counts.undone_units, counts.not_undone_units]
}

/// A node whose values become newer each time before it takes a unit.
pub(crate) struct Newer {
    gate: SharedGate,
    rule: RuleSpec,
    revision: u32,
}

impl Newer {
    pub(crate) async fn over(url: &str, rule: RuleSpec) -> Self {
        let (gate, _) = gate_over(url, vec![rule.clone()]).await;
        Self { gate, rule, revision: 0 }
    }

    async fn take(&mut self, user: &str) {
        self.revision += 1;
        self.rule.spec.limit = Limit::Units(10_000 + u64::from(self.revision));
        let policy = Policy::new(vec![self.rule.clone()]).unwrap();
        let policy = policy.with_revision(NonZero::new(self.revision).unwrap());
        self.gate.replace(policy).unwrap();
        assert!(check(&self.gate, user, 1).await.is_allowed());
    }

    /// Takes a unit under newer values before each call that passes the proxy, until it has `ended`. Returns how many
    /// scripts passed, at most a few more than `most`.
    pub(crate) async fn outpace(
        &mut self,
        proxy: &Proxy,
        user: &str,
        most: usize,
        ended: impl Fn() -> bool,
    ) -> usize {
        let before = proxy.scripts();
        while !ended() && proxy.scripts() <= before + most {
            self.take(user).await;
            let passed = proxy.scripts();
            proxy.most.send_replace(passed + 1);
            while proxy.scripts() == passed && !ended() {
                yield_now().await;
            }
        }
        proxy.most.send_replace(usize::MAX);
        proxy.scripts() - before
    }
}

#[tokio::test]
async fn units_of_a_late_reply_are_not_given_back_for_ever_while_values_change() {
    let server = server_in(&[]);
    let proxy = Proxy::before(&server).await;
    let rule = rule(AlgorithmKind::SlidingLog, 10).on_store_error(OnStoreError::Closed);
    let (gate, _) = behind(&proxy, LONG, vec![rule.clone()]).await;
    let mut newer = Newer::over(&server.url(), rule).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(3));
    give_up(&gate, &proxy, &request).await;
    proxy.replies.send_replace(Replies::Pass);
    // The server knows the script from then on.
    while undone(&gate) != [3, 0] {
        yield_now().await;
    }
    give_up(&gate, &proxy, &request).await;
    proxy.most.send_replace(proxy.scripts());
    proxy.replies.send_replace(Replies::Pass);
    let ended = || undone(&gate) == [3, 3];
    let asked = newer.outpace(&proxy, "ada", MOST_ASKED, ended).await;
    assert!((2..=MOST_ASKED).contains(&asked), "{asked} times");
    while !ended() {
        yield_now().await;
    }
}

/// The clock has stepped back since the last unit of a limiter, which counts units as of that unit from then on. Another
/// limiter of the request counts them as of the clock.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn units_of_a_late_reply_come_back_as_of_the_instant_at_which_each_limiter_counted_them() {
    const DAY: u64 = 86_400;
    let folder = crate::server::Folder::new();
    let clock = crate::server::moved_clock::Stepped::new(&folder.0);
    let server = server_in(&clock.environment());
    let proxy = Proxy::before(&server).await;
    let per_user = rule(AlgorithmKind::FixedWindow, 10).on_store_error(OnStoreError::Closed);
    let mut calls = per_user.clone().when("kind", "call");
    calls.name = "calls".to_owned();
    let (gate, _) = behind(&proxy, LONG, vec![per_user, calls]).await;
    let now: Vec<u64> = server.run(&["TIME"]);
    clock.step((DAY - now[0] % DAY).cast_signed());
    let request = Request::from(Descriptor::new(&[("user", "ada")]));
    assert!(gate.check(request).await.is_allowed(), "in the window of tomorrow");
    clock.step(0);
    let call = Request::from(Descriptor::new(&[("user", "ada"), ("kind", "call")]).cost(3));
    give_up(&gate, &proxy, &call).await;
    proxy.replies.send_replace(Replies::Pass);
    while undone(&gate).iter().sum::<u64>() < 6 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(used(&gate, &call).await, [1, 0]);
}
