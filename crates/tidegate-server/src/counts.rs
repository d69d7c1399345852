//! Counts of the listeners since the start: connections, requests by outcome, and their times. The protocols count
//! here on the path of each request, so most counts are striped; metrics read them.

mod reloads;
mod snapshots;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) use reloads::Reloads;
pub(crate) use snapshots::Snapshots;
use tidegate::{Answer, Clock, Decision, Histogram, Striped, SystemClock, Timestamp};

/// The outcome of a request for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Allowed,
    /// Allowed, because no limit holds for it: it matches no rule, or only rules in shadow mode or without a limit for its
    /// keys.
    Unlimited,
    Refused,
    /// Refused, and the cost can never fit.
    Never,
    /// Refused because the store did not decide.
    Unavailable,
    /// Answered with an error instead of a decision.
    Error,
}

impl RequestOutcome {
    pub(crate) const ALL: [(Self, &str); 6] = [
        (Self::Allowed, "allowed"),
        (Self::Unlimited, "unlimited"),
        (Self::Refused, "refused"),
        (Self::Never, "never"),
        (Self::Unavailable, "unavailable"),
        (Self::Error, "error"),
    ];

    /// The outcome that an answer of the gate is.
    #[inline]
    pub(crate) fn of(answer: &Answer<'_>) -> Self {
        if answer.is_allowed() {
            // A rule that is open without the store leaves no trace in the answer, so a degraded answer may have had a
            // limit.
            let is_unlimited = answer.is_unlimited() && !answer.is_degraded();
            if is_unlimited { Self::Unlimited } else { Self::Allowed }
        } else if answer.is_unavailable() {
            Self::Unavailable
        // A request that no rule matches is refused for its entries and not for its cost.
        } else if answer.is_never() && !answer.is_no_rule() {
            Self::Never
        } else {
            Self::Refused
        }
    }

    /// The outcome that the decision of a limiter without a rule is.
    #[inline]
    pub(crate) fn of_decision(decision: &Decision) -> Self {
        if decision.is_allowed() {
            Self::Allowed
        } else if decision.retry_after_micros().is_none() {
            Self::Never
        } else {
            Self::Refused
        }
    }

    /// Its name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        // ALL has the order of the variants.
        Self::ALL[self as usize].1
    }
}

/// The counts of one listener.
#[derive(Debug, Default)]
pub(crate) struct ListenerCounts {
    /// The name of the listener.
    pub(crate) listener: &'static str,
    requests: Striped<{ RequestOutcome::ALL.len() }>,
    pub(crate) durations: Histogram,
    accepted: AtomicU64,
    ended: AtomicU64,
    clock: SystemClock,
}

impl ListenerCounts {
    /// Counts an answer of the gate.
    #[inline]
    pub(crate) fn answered(&self, answer: &Answer<'_>) {
        self.count(RequestOutcome::of(answer));
    }

    #[inline]
    pub(crate) fn count(&self, outcome: RequestOutcome) {
        self.requests.add(outcome as usize, 1);
    }

    /// The time at which requests were read, for [`Self::took`].
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Counts the time that requests took which were read together and whose answers are ready now.
    #[inline]
    pub(crate) fn took(&self, read: Timestamp, requests: u64) {
        if requests > 0 {
            let took_us = self.now().as_micros().saturating_sub(read.as_micros());
            self.durations.add(took_us, requests);
        }
    }

    /// Counts a connection, which is open until the guard is dropped.
    pub(crate) fn accept(self: &Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// The number of requests by outcome.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let requests = self.requests.read();
        RequestOutcome::ALL.iter().zip(requests).map(|((_, name), count)| (*name, count))
    }

    /// The number of connections so far, and of those that are open.
    pub(crate) fn connections(&self) -> (u64, u64) {
        // In this order: a connection that ends in between is counted as open, and none as ended that was not accepted.
        let ended = self.ended.load(Relaxed);
        let accepted = self.accepted.load(Relaxed);
        (accepted, accepted.saturating_sub(ended))
    }
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<ListenerCounts>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// The counts of all listeners, of reloads and of snapshots.
#[derive(Debug)]
pub(crate) struct ServerCounts {
    /// When counting began.
    pub(crate) started: Timestamp,
    pub(crate) http: Arc<ListenerCounts>,
    pub(crate) grpc: Arc<ListenerCounts>,
    pub(crate) resp: Arc<ListenerCounts>,
    pub(crate) admin: Arc<ListenerCounts>,
    pub(crate) reloads: Reloads,
    pub(crate) snapshots: Snapshots,
}

impl Default for ServerCounts {
    fn default() -> Self {
        let [http, grpc, resp, admin] = ["http", "grpc", "resp", "admin"]
            .map(|listener| Arc::new(ListenerCounts { listener, ..ListenerCounts::default() }));
        let started = SystemClock::new().now();
        Self {
            started,
            http,
            grpc,
            resp,
            admin,
            reloads: Reloads::default(),
            snapshots: Snapshots::default(),
        }
    }
}

impl ServerCounts {
    /// The counts of each listener with its name.
    pub(crate) fn all(&self) -> [(&'static str, &ListenerCounts); 4] {
        let all = [&self.http, &self.grpc, &self.resp, &self.admin];
        all.map(|counts| (counts.listener, &**counts))
    }
}
