//! The layers that are compared, over one service that does nothing.

use crate::cases::{Case, Expect, Rule, Shape};
use crate::pace::Pace;
use crate::subjects::{Candidate, Subject, sound};
use crate::workload::Ask;
use ::governor::middleware::NoOpMiddleware;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use http::{Request, Response};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tidegate::headers::HeaderField;
use tidegate::tower::RateLimitLayer;
use tidegate::{AlgorithmKind, Gate, Policy, RuleSpec};
use tower::Layer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

/// The service without a layer.
const BARE: &str = "bare";
/// Why tower_governor has no configuration.
const NO_LIMIT: &str = "a limit of 0";
/// The header fields of tower_governor.
const TWO: [HeaderField; 2] = [HeaderField::Limit, HeaderField::Remaining];

/// Makes the list of the services, and both things that a service can be, from names and layers under a rule.
macro_rules! services {
    ($rule:ident: $($name:literal => $layer:expr,)*) => {
        /// The names of all services.
        pub const SERVICES: &[&str] = &[BARE, $($name),*];

        /// A service that is called in this process, and does nothing.
        fn called(service: &str, $rule: Rule) -> Box<dyn Subject> {
            let bare = tower::service_fn(nothing);
            match service {
                $($name => Box::new(Called($layer.layer(bare))),)*
                _ => Box::new(Called(bare)),
            }
        }

        /// A program that says hello.
        pub fn router(service: &str) -> Router {
            let $rule = Rule::PLENTY;
            let bare = Router::new().route("/", get(async || "Hello, World!"));
            match service {
                $($name => bare.layer($layer),)*
                _ => bare,
            }
        }
    };
}

// A token bucket for each peer; `no fields` is without header fields where a request is admitted.
services! { rule:
    "tower_governor, no fields" => GovernorLayer::new(sound(governor(rule).finish().ok_or(NO_LIMIT))),
    "tower_governor, 2 fields" => GovernorLayer::new(sound(governor(rule).use_headers().finish().ok_or(NO_LIMIT))),
    "tidegate/per_ip, no fields" => tidegate_per_ip(rule).headers(false),
    "tidegate/per_ip, 2 fields" => tidegate_per_ip(rule).headers(TWO),
    "tidegate/per_ip, 5 fields" => tidegate_per_ip(rule),
    "tidegate/gate, no fields" => tidegate(rule).headers(false),
    "tidegate/gate, 5 fields" => tidegate(rule),
}

/// The services that can do a case: one without a layer refuses nothing.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    let services = SERVICES.iter().filter(|_| case.shape == Shape::Layer);
    let services = services.filter(|name| **name != BARE || case.expect != Expect::Denied);
    services.map(|name| Candidate::new(name, move || called(name, rule))).collect()
}

/// The configuration of tower_governor by the peer's address, without header fields.
fn governor(rule: Rule) -> GovernorConfigBuilder<PeerIpKeyExtractor, NoOpMiddleware> {
    let mut builder = GovernorConfigBuilder::default();
    let burst = u32::try_from(rule.capacity).unwrap_or(u32::MAX);
    builder.period(rule.every).burst_size(burst);
    builder
}

/// A layer as its documentation makes it: a gate with one rule, keyed by the caller's address.
fn tidegate(rule: Rule) -> RateLimitLayer {
    let spec = crate::subjects::spec(AlgorithmKind::TokenBucket, rule);
    let policy = Policy::new(vec![RuleSpec::new("per-ip", spec).key(["ip"])]);
    RateLimitLayer::new(Arc::new(Gate::new(sound(policy))))
}

/// A layer without rules, by the caller's address.
fn tidegate_per_ip(rule: Rule) -> RateLimitLayer {
    let spec = crate::subjects::spec(AlgorithmKind::TokenBucket, rule);
    sound(RateLimitLayer::per_ip(spec))
}

fn nothing(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    ready(Ok(Response::new(Body::empty())))
}

/// A service that is called in a loop, its answers dropped.
struct Called<S>(S);

impl<S, R> Subject for Called<S>
where
    S: tower::Service<Request<Body>, Response = Response<R>> + Clone + Send + Sync,
{
    fn decide(&self, ask: &Ask) -> bool {
        call(&mut self.0.clone(), ask)
    }

    fn run(&self, asks: &[Ask], pace: Pace) -> u64 {
        let mut service = self.0.clone();
        pace.count(asks, |ask| call(&mut service, ask))
    }
}

/// Sends a request as axum passes it on, from the peer with this number; returns whether the service answered it.
fn call<S, R>(service: &mut S, ask: &Ask) -> bool
where
    S: tower::Service<Request<Body>, Response = Response<R>>,
{
    let mut request = Request::new(Body::empty());
    let ip = Ipv4Addr::from_bits(0x0a00_0000 | ask.number as u32);
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((ip, 4_000))));
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else { return false };
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(response)) => response.status().is_success(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::LAYER;

    #[test]
    fn every_layer_decides_what_its_case_expects() {
        let asks: Vec<Ask> = (0..10).map(Ask::of).collect();
        for case in LAYER {
            for candidate in offers(case) {
                let subject = candidate.build();
                let first = subject.run(&asks, Pace::Overlapping);
                let second = subject.run(&asks, Pace::Overlapping);
                let expected = if case.expect == Expect::Denied { 0 } else { 10 };
                assert_eq!((first, second), (10, expected), "{} in {}", candidate.name, case.name);
            }
        }
    }
}
