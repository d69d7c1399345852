//! The layer: its gate, the entries of its requests, and the header fields of its responses.
//!
//! Its methods set up a `LayerState`, through which each request passes.

use std::fmt;
use std::sync::Arc;

use http::Response;
use http::request::Parts;
use tower_layer::Layer;

use super::any::AnyGate;
use super::body::Recorder;
use super::decider::Decider;
use super::entries::Entries;
use super::in_flight::InFlight;
use super::layer_state::LayerState;
use super::pacing::Pacing;
use super::refusal::Refusal;
use super::service::RateLimit;
use crate::clock::Clock;
use crate::headers::FieldSet;
use crate::jitter::Jitter;
use crate::stats::Statistics;

/// A layer that asks a [`Gate`](crate::Gate) about every request before the service sees it.
///
/// All clones of the layer, and of the services it makes, use the same gate, so a limit holds over
/// all connections. Errors and responses of the service are passed on unchanged, except that
/// responses get the header fields about the caller's limits.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::tower::RateLimitLayer;
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Gate, Policy, RuleSpec, Spec};
///
/// let spec = Spec::new(AlgorithmKind::TokenBucket, 60, Duration::from_secs(60));
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-ip", spec).key(["ip"])])?);
/// let layer = RateLimitLayer::new(Arc::new(gate));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
///
/// With feature `redis` the gate may be a `SharedGate`: the layers of all nodes then enforce one
/// limit. While the store is unavailable each rule decides by its own
/// [`OnStoreError`](crate::OnStoreError), and a refusal by a closed rule is answered with 503 and
/// `Retry-After`. The gate needs a tokio runtime.
///
#[cfg_attr(feature = "redis", doc = "```no_run")]
#[cfg_attr(not(feature = "redis"), doc = "```ignore")]
/// use std::sync::Arc;
/// use tidegate::tower::RateLimitLayer;
/// use tidegate::{Policy, SharedGate, StoreSettings};
///
/// # fn layer(policy: Policy) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
/// let settings = StoreSettings::new("redis://127.0.0.1:6379".parse()?);
/// let gate = Arc::new(SharedGate::new(policy, settings, |event| eprintln!("{event:?}"))?);
/// // Only failed logins count, on whatever node.
/// let layer = RateLimitLayer::new(gate)
///     .charge_when(|response| response.status == http::StatusCode::UNAUTHORIZED);
/// # Ok(layer)
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    plan: Arc<LayerState>,
}

impl RateLimitLayer {
    /// Refuses requests above a limit immediately, also under rules whose `on_excess` would let
    /// them wait.
    ///
    /// A request that a shaping rule (`leaky_queue`) admits is held for its `delay` before the
    /// service is called, so that requests reach it W/N apart. A request whose client goes away
    /// while it is held keeps its slot: the delays of later ones do not change.
    ///
    /// The clock of a gate in memory must be a [`Timer`](crate::Timer), as for all layers; the
    /// system's clock is one inside a tokio runtime. Without shaping and waiting no timer is ever
    /// set, and any runtime works.
    ///
    /// # Panics
    /// A call of the service panics where a request has to wait, if the clock's timer does: tokio's timer panics
    /// outside of its runtime.
    #[must_use]
    pub fn new(gate: impl AnyGate) -> Self {
        Self::with(gate.decider(false).0, Entries::of_a_server())
    }

    /// Lets requests wait as the rules say, in order of arrival, and holds requests under a shaping
    /// rule as [`RateLimitLayer::new`] does. A request whose client goes away while it waits leaves
    /// the queue and takes nothing. A rule without [`on_excess`](crate::RuleSpec::on_excess) lets no request wait: under it
    /// the layer refuses immediately, as [`RateLimitLayer::new`] does.
    ///
    /// # Panics
    /// A call of the service panics as with [`RateLimitLayer::new`].
    #[must_use]
    pub fn waiting(gate: impl AnyGate) -> Self {
        Self::with(gate.decider(true).0, Entries::of_a_server())
    }

    /// For a client: keeps its requests within someone else's limits, waiting as the rules say, and
    /// holds requests to a host for as long as the `Retry-After` of its 429 or 503 asks (see
    /// [`Pacing`]).
    ///
    /// A request that may not be sent gets a 429 from the layer (a 503 if the store is
    /// unavailable), with the [`Refusal`] among its extensions. No request is sent twice. Responses
    /// are unchanged.
    #[must_use]
    pub fn outgoing(gate: impl AnyGate, pacing: Pacing) -> Self {
        let mut layer = Self::with(gate.decider(true).0, Entries::of_a_client());
        let plan = layer.plan_mut();
        plan.pacing = Some(pacing);
        // The responses are of the other service, whose fields describe its own limits.
        plan.shown = false.into();
        layer
    }

    pub(super) fn with(decider: Arc<dyn Decider>, entries: Entries) -> Self {
        Self { plan: Arc::new(LayerState::new(decider, entries)) }
    }

    #[cfg(feature = "reqwest")]
    pub(super) const fn plan(&self) -> &Arc<LayerState> {
        &self.plan
    }

    fn plan_mut(&mut self) -> &mut LayerState {
        Arc::make_mut(&mut self.plan)
    }

    /// Uses the rules of this domain (`default` by default).
    #[must_use]
    pub fn domain(mut self, domain: &str) -> Self {
        self.plan_mut().domain(domain);
        self
    }

    /// Describes each request by these entries. The first call replaces the default: `ip`
    /// ([`ClientIp::peer`](super::ClientIp::peer)), `method` and `path` of a server's requests, as
    /// in an access log; `host` of a client's. Further calls add descriptors.
    ///
    /// A request whose address is not known is refused with 500
    /// ([`Reason::NoAddress`](super::Reason::NoAddress)) if an enforced rule of the domain looks at
    /// `ip`, and is decided without that entry if none does.
    #[must_use]
    pub fn descriptor(mut self, entries: Entries) -> Self {
        self.plan_mut().descriptor(entries);
        self
    }

    /// Returns a sentence for each rule of the domain that no request of this layer can match, because the layer never
    /// adds an entry that the rule needs; or one sentence if all rules of the policy are in other domains. They are also
    /// printed on standard error, once, when the layer makes its first service. Rules of another layer over the same gate
    /// belong in another [domain](Self::domain).
    ///
    /// Questions that a handler asks the gate itself are not seen here: a policy with
    /// [`OnNoRule::Refuse`](crate::OnNoRule::Refuse) refuses those that no rule matches.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{Entries, RateLimitLayer, header};
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?);
    /// let layer = RateLimitLayer::new(Arc::new(gate));
    /// assert!(layer.unmatched_rules()[0].contains("it needs the entry `user`"));
    /// let layer = layer.descriptor(Entries::new().entry("user", header("x-user")?));
    /// assert!(layer.unmatched_rules().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn unmatched_rules(&self) -> Vec<String> {
        self.plan.unmatched()
    }

    /// Sets which header fields about the limits responses have: all (`true`, the default), none (`false`), or some.
    /// A refusal has `Retry-After` in any case.
    ///
    /// Fewer fields take less time. A layer leaves all limits of a response as they are that has `X-RateLimit-Limit`
    /// already, as from a layer inside of it.
    ///
    /// ```
    /// use tidegate::headers::HeaderField;
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_ip("60/m")?.headers([HeaderField::Limit, HeaderField::Remaining]);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn headers(mut self, shown: impl Into<FieldSet>) -> Self {
        self.plan_mut().shown = shown.into();
        self
    }

    /// Adds jitter to the wait of each refusal (`Retry-After`, the problem's text, gRPC's `RetryInfo`,
    /// [`Refusal::retry_after`]), so that callers refused together do not come back together. The wait is never
    /// shorter than without it; the other fields stay exact.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Jitter;
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_ip("60/m")?.jitter(Jitter::up_to(Duration::from_secs(10)));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.plan_mut().jitter = Some(jitter);
        self
    }

    /// Sets the response of a refusal, in place of [`Refusal::to_problem`]. The layer adds header
    /// fields of limits and `Retry-After` if the response has none. gRPC refusals have a fixed form
    /// and do not use this.
    ///
    /// The body is bytes, so axum's `into_response()` does not fit: write the text or the JSON into a `Vec<u8>`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::tower::{RateLimitLayer, Refusal};
    /// # use tidegate::{Gate, Policy};
    /// # let gate = Arc::new(Gate::new(Policy::new(vec![])?));
    /// let layer = RateLimitLayer::new(gate).on_refused(|refusal, parts| {
    ///     let mut response = http::Response::new(format!("{} is busy", parts.uri.path()).into());
    ///     *response.status_mut() = refusal.status();
    ///     response
    /// });
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn on_refused(
        mut self,
        respond: impl Fn(&Refusal, &Parts) -> Response<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        self.plan_mut().on_refused = Some(Arc::new(respond));
        self
    }

    /// Counts requests that pass, are refused or fail (an error, a status of 500 and above, or a
    /// corresponding gRPC status), and their durations up to the end of the response's body. A
    /// request counts as one unit at any cost; a request whose caller goes away counts as a
    /// success.
    #[must_use]
    pub fn statistics<C: Clock + 'static>(mut self, statistics: Arc<Statistics<C>>) -> Self {
        let recorder: Arc<dyn Recorder> = statistics;
        self.plan_mut().recorder = Some(recorder);
        self
    }

    /// Charges a request only if `counts` is true for its response. Otherwise its cost is given
    /// back, once, before the response is passed on, and the header fields describe the limits
    /// without it.
    ///
    /// The cost is taken before the service is called, so no more requests can be under way than
    /// the limit still admits. It stays taken if there is no response, because the service failed
    /// or the caller went away, and if a store does not give it back in time. `counts` sees the
    /// head of the response, and so not a gRPC status in the trailers.
    ///
    /// This applies to all rules of the layer. Rules that should always count belong in a layer of
    /// their own.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::tower::RateLimitLayer;
    /// # use tidegate::{Gate, Policy};
    /// # let gate = Arc::new(Gate::new(Policy::new(vec![])?));
    /// // Only failed logins count.
    /// let layer = RateLimitLayer::new(gate)
    ///     .charge_when(|response| response.status == http::StatusCode::UNAUTHORIZED);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn charge_when(
        mut self,
        counts: impl Fn(&http::response::Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.plan_mut().counts = Some(Arc::new(counts));
        self
    }

    /// Limits the requests in flight, until the bodies of their responses have ended. The permit is
    /// requested before the gate decides, so a request without one is not charged; a request that
    /// then waits at the gate keeps its permit. A request refused because it got no permit has a
    /// `Retry-After` of one second.
    #[must_use]
    pub fn in_flight(mut self, limit: InFlight) -> Self {
        self.plan_mut().in_flight = Some(limit);
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        self.plan.report_unmatched();
        RateLimit::new(inner, self.plan.clone())
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("plan", &self.plan).finish()
    }
}
