//! The layers that limit by one key of a request, without the rules of a gate.
//!
//! They are constructors of `RateLimitLayer`. `keyed.rs` decides for them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tidegate_core::RuleErrors;

use super::any::AnyLimiter;
use super::client_ip::ClientIp;
use super::entries::Entries;
use super::extract::{Extract, header};
use super::keyed::Keyed;
use super::layer::RateLimitLayer;
use crate::clock::Timer;
use crate::limiter::KeyedLimiter;
use crate::rules::OnExcess;

/// The name of the rule in answers of [`RateLimitLayer::keyed`].
const PLAN: &str = "plan";

impl RateLimitLayer {
    /// Limits each network address to a rate such as `"60/m"`, to a [`Spec`](crate::Spec), or by a limiter of the
    /// caller's ([`AnyLimiter`]); refuses requests above it immediately. At most a million addresses are kept unless
    /// the limiter says otherwise; [`RateLimitLayer::per_address`] says what an address is, and that a request without
    /// one is refused with 500.
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_ip("60/m")?;
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn per_ip(limiter: impl AnyLimiter) -> Result<Self, RuleErrors> {
        Self::per_address(ClientIp::peer(), limiter)
    }

    /// Limits each caller by the limiter of their network address, in place of the rules of a gate; refuses requests
    /// above it immediately. This is the layer that costs a request least.
    ///
    /// `address` finds the caller: [`ClientIp::peer`], or an address that trusted proxies report. Addresses are never
    /// made text: the [`Key`](crate::Key) is the [`IpAddr`](std::net::IpAddr), for IPv6 the address of the network (/64
    /// by default). In answers the rule is named `per-ip`. The cost is one unit, and a [`descriptor`](Self::descriptor)
    /// would replace the address as [`keyed`](Self::keyed) says.
    ///
    /// A request without a known address is refused with 500 ([`Reason::NoAddress`](super::Reason::NoAddress)), and the
    /// first such request prints a line on standard error, because the server does not pass addresses on. An axum
    /// server does with `into_make_service_with_connect_info::<SocketAddr>()`; others insert
    /// [`PeerAddr`](super::PeerAddr).
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    ///
    /// ```
    /// use tidegate::tower::{ClientIp, RateLimitLayer};
    ///
    /// let address = ClientIp::x_forwarded_for(["10.0.0.0/8"])?;
    /// let layer = RateLimitLayer::per_address(address, "60/m")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per_address(address: ClientIp, limiter: impl AnyLimiter) -> Result<Self, RuleErrors> {
        Ok(Self::with(limiter.decider("per-ip")?.0, Entries::by_address(address)))
    }

    /// Limits each value of a header field, such as an API key; refuses requests above the limit immediately.
    ///
    /// All requests without the field, or with an empty value, share one limiter of the same rate: leaving the field
    /// out is no way round the limit, and takes nothing from callers who send it. Values may be of any bytes. A caller
    /// who makes up another value for each request has a fresh limiter each time, so check the field before this
    /// layer, or put [`per_ip`](Self::per_ip) around it. In answers the rule is named `per-key`.
    ///
    /// # Errors
    /// Returns the error of a name that no header field can have, of a text that is no rate, or every invalid field of
    /// the spec.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_header("x-api-key", "100/m")?;
    /// # Ok::<(), tidegate::tower::HeaderLimitError>(())
    /// ```
    pub fn per_header(name: &str, limiter: impl AnyLimiter) -> Result<Self, HeaderLimitError> {
        let header = header(name).map_err(|_| HeaderLimitError::Name(name.to_owned()))?;
        Self::per_key(header, limiter).map_err(HeaderLimitError::Limit)
    }

    /// Limits each key that `key` finds in a request: a function `Fn(&Parts) -> Option<String>`, or an extractor such
    /// as [`header`](super::header) or [`extension`](super::extension). Refuses requests above the limit immediately.
    ///
    /// All requests without a key, or with an empty one, share one limiter of the same rate, so that a request without
    /// a key is no way round the limit; where such requests are to pass, use [`keyed`](Self::keyed). A request that
    /// lacks the address which [`ClientIp`] would find is refused as by [`per_address`](Self::per_address). In answers
    /// the rule is named `per-key`.
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    ///
    /// ```
    /// use http::request::Parts;
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let tenant = |parts: &Parts| parts.uri.path().split('/').nth(1).map(str::to_owned);
    /// let layer = RateLimitLayer::per_key(tenant, "100/m")?;
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn per_key(
        key: impl Extract + 'static,
        limiter: impl AnyLimiter,
    ) -> Result<Self, RuleErrors> {
        Ok(Self::with(limiter.decider("per-key")?.0, Entries::by_key(key)))
    }

    /// Limits all requests together; refuses requests above the limit immediately. In answers the rule is named
    /// `global`.
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::global("1000/s")?;
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn global(limiter: impl AnyLimiter) -> Result<Self, RuleErrors> {
        Ok(Self::with(limiter.decider("global")?.0, Entries::of_all()))
    }

    /// Limits each caller by the limiter of their key, in place of the rules of a gate; refuses
    /// requests above it immediately.
    ///
    /// The key is the value of the first entry of `who`, and the cost is the cost of `who`; if the limiter has plans,
    /// the key's plan is looked up. A request without a value is not limited, but one whose address is not known is
    /// refused as [`per_address`](Self::per_address) does. A [`descriptor`](Self::descriptor) would replace `who`;
    /// further ones are ignored. In answers the rule is named `plan`. Limits for all callers belong in the layer of a
    /// gate inside this layer; a request that it refuses has still taken units here. A request that a queue
    /// (`leaky_queue`) admits is held for its `delay`, as by [`RateLimitLayer::new`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{Entries, RateLimitLayer, header};
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Rule, Spec};
    ///
    /// let per_minute = |limit| Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(60));
    /// let paid = Rule::new(per_minute(6_000))?;
    /// let limiter = KeyedLimiter::new(per_minute(60))?
    ///     .with_plans(move |key| key.starts_with(b"paid-").then(|| paid.clone()));
    /// let who = Entries::new().entry("api-key", header("x-api-key")?);
    /// let layer = RateLimitLayer::keyed(Arc::new(limiter), who);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keyed<C: Timer + 'static>(limiter: Arc<KeyedLimiter<C>>, who: Entries) -> Self {
        Self::with(Keyed::new(PLAN, limiter, None), who)
    }

    /// Lets a request wait in the queue of its key, as [`KeyedLimiter::acquire`] does: for up to a
    /// `Duration`, or as an [`OnExcess::Wait`] says. The delay of a `leaky_queue` is part of that time.
    /// A request that cannot run by then is refused immediately, and so is one that finds too many
    /// waiters. A request whose client goes away while it waits leaves the queue and takes nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{ClientIp, Entries, RateLimitLayer};
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, OnExcess, Spec};
    ///
    /// let usual = Spec::new(AlgorithmKind::LeakyQueue, 10, Duration::from_secs(1));
    /// let limiter = Arc::new(KeyedLimiter::new(usual)?);
    /// let who = Entries::new().entry("ip", ClientIp::peer());
    /// let wait = OnExcess::Wait { wait: Duration::from_secs(5), max_waiters: 100 };
    /// let layer = RateLimitLayer::keyed_waiting(limiter, who, wait);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn keyed_waiting<C: Timer + 'static>(
        limiter: Arc<KeyedLimiter<C>>,
        who: Entries,
        wait: impl Into<OnExcess>,
    ) -> Self {
        Self::with(Keyed::new(PLAN, limiter, Some(wait.into().into())), who)
    }
}

/// The mistakes in the arguments of [`RateLimitLayer::per_header`].
///
/// ```
/// use tidegate::tower::RateLimitLayer;
///
/// let error = RateLimitLayer::per_header("x api key", "100/m").unwrap_err();
/// assert_eq!(error.to_string(), "no header field can have the name \"x api key\"");
/// ```
#[non_exhaustive]
pub enum HeaderLimitError {
    /// No header field can have this name.
    Name(String),
    /// The limit is wrong.
    Limit(RuleErrors),
}

impl fmt::Display for HeaderLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "no header field can have the name {name:?}"),
            Self::Limit(errors) => errors.fmt(f),
        }
    }
}

tidegate_core::debug_as_display!(HeaderLimitError);

impl Error for HeaderLimitError {}
