//! A [`tower`](https://docs.rs/tower) layer that puts a [`Gate`](crate::Gate) in front of a service
//! (feature `tower`): in axum, hyper and tonic, and, for outgoing requests, under a client of hyper or reqwest.
//!
//! [`RateLimitLayer::new`] refuses requests above a limit, [`RateLimitLayer::waiting`] lets them
//! wait as the rules say, [`RateLimitLayer::outgoing`] paces a client to someone else's limit;
//! Without rules, [`RateLimitLayer::per_ip`] limits each address (the cheapest for a request),
//! [`RateLimitLayer::per_header`] and [`RateLimitLayer::per_key`] each caller, [`RateLimitLayer::global`] all together;
//! [`RateLimitLayer::keyed`] and [`RateLimitLayer::keyed_waiting`] also charge by request and let requests wait.
//! In all of them a request that a `leaky_queue` admits is held until its slot. Each request is described
//! by a list of [`Entries`], each read by an extractor ([`Extract`]). The default entries are the
//! `ip`, `method` and `path` of the request, as in an access log, so that the same rules serve and
//! replay.
//!
//! A refusal is `429 Too Many Requests` (422 where the cost can never fit) as
//! `application/problem+json`, or the response of [`RateLimitLayer::on_refused`]; a gRPC call gets
//! `RESOURCE_EXHAUSTED` with `RetryInfo`. If the gate is a `SharedGate` and a rule refuses because
//! the store did not decide, it is `503 Service Unavailable`, or `UNAVAILABLE`. All responses carry
//! the header fields of [`headers`](crate::headers).
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::body::Body;
//! use axum::http::{Request, StatusCode};
//! use axum::{Router, routing::get};
//! use tidegate::tower::RateLimitLayer;
//! use std::time::Duration;
//! use tidegate::{AlgorithmKind, Gate, Policy, RuleSpec, Spec};
//! use tower::ServiceExt;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(3600));
//! let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-path", spec).key(["path"])])?);
//! let app: Router = Router::new()
//!     .route("/", get(async || "hello"))
//!     .layer(RateLimitLayer::new(Arc::new(gate)));
//!
//! let first = app.clone().oneshot(Request::get("/").body(Body::empty())?).await?;
//! assert_eq!(first.status(), StatusCode::OK);
//! assert_eq!(first.headers()["x-ratelimit-remaining"], "0");
//! let second = app.oneshot(Request::get("/").body(Body::empty())?).await?;
//! assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod any;
mod body;
mod by_key;
mod client_ip;
mod decider;
mod entries;
mod extract;
mod fields;
mod grpc;
mod in_flight;
mod keyed;
mod layer;
mod layer_state;
mod pacing;
mod refusal;
#[cfg(feature = "reqwest")]
mod reqwest;
mod retry_after;
mod service;
#[cfg(feature = "redis")]
mod store_decider;
mod unmatched;

pub use any::{AnyGate, AnyLimiter};
pub use body::ResponseBody;
pub use by_key::HeaderLimitError;
pub use client_ip::{ClientIp, PeerAddr};
pub use entries::Entries;
#[cfg(feature = "axum")]
pub use extract::matched_path;
pub use extract::{Extension, Extract, Header, extension, header, host, method, path};
pub use in_flight::InFlight;
pub use layer::RateLimitLayer;
pub use pacing::Pacing;
pub use refusal::{Reason, Refusal};
pub use service::{RateLimit, ResponseFuture};
