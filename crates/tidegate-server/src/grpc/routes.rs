//! The paths and their handlers.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::header::AUTHORIZATION;
use hyper::http::{HeaderMap, Request, Response};
use tonic::Status;

use super::decide::Decider;
use super::reply::{self, Reply};
use super::tonic_service::TonicService;
use super::{Bounds, Choices, call, health, reflection};
use crate::limiters::{Limiters, Verb};
use crate::listener::{Kept, Secret, bearer};
use crate::otlp::Span;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

pub(super) struct Routes {
    decider: Decider,
    health: TonicService,
    others: Vec<TonicService>,
    secret: Option<Secret>,
    bounds: Bounds,
}

impl Routes {
    pub(super) fn new(
        limiters: Arc<Limiters>,
        choices: Choices,
        secret: Option<Secret>,
        bounds: Bounds,
    ) -> Self {
        let health = TonicService::new(health::server(Arc::clone(&limiters), bounds.probe));
        let decider = Decider { limiters, choices };
        Self { decider, health, others: reflection::servers(), secret, bounds }
    }

    /// Answers a request that claims `kept` of its connection's account; calls `let_in` for an
    /// authorized call. Health is answered to everybody, because a prober often has no token.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        kept: Kept,
        let_in: impl FnOnce(),
    ) -> Response<Reply> {
        if !call::is_grpc(request.method(), request.headers()) {
            return reply::not_grpc();
        }
        let stranger = self.unauthorized(request.headers());
        if stranger.is_none() {
            let_in();
        }
        if self.health.has(request.uri().path()) {
            return self.health.answer(request, kept).await;
        }
        if let Some(status) = stranger {
            return reply::failed(status);
        }
        let path = request.uri().path();
        if path == SHOULD_RATE_LIMIT {
            let span = Span::begin(Verb::Check.name(), request.headers());
            let decide = async |message| self.decider.answer(message, span).await;
            return call::unary(request, self.bounds, kept, decide).await;
        }
        match self.others.iter().find(|service| service.has(path)) {
            Some(service) => service.answer(request, kept).await,
            None => {
                let expected = format!("nothing is at {path}: expected {SHOULD_RATE_LIMIT}");
                reply::failed(Status::unimplemented(expected))
            }
        }
    }

    /// The answer to a client that lacks the token, if one is needed.
    fn unauthorized(&self, headers: &HeaderMap) -> Option<Status> {
        let secret = self.secret.as_ref()?;
        let said = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let expected =
            "expected the metadata `authorization: Bearer TOKEN` with a token of this server";
        (!secret.admits(said.and_then(bearer))).then(|| Status::unauthenticated(expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::testing::{DECIDES, WINDOW, ada, call, connected, routes};
    use hyper::body::Bytes;
    use tonic_health::pb::health_server::{Health, HealthServer};
    use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

    /// A health check that panics.
    struct Panics;

    #[tonic::async_trait]
    impl Health for Panics {
        async fn check(
            &self,
            _: tonic::Request<HealthCheckRequest>,
        ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
            panic!("a panic that the test asked for")
        }

        type WatchStream = tokio_stream::Pending<Result<HealthCheckResponse, Status>>;

        async fn watch(
            &self,
            _: tonic::Request<HealthCheckRequest>,
        ) -> Result<tonic::Response<Self::WatchStream>, Status> {
            panic!("a panic that the test asked for")
        }
    }

    #[tokio::test]
    async fn a_panic_in_health_leaves_the_connection_to_other_calls() {
        let bounds = Bounds::default();
        let routes =
            Routes { health: TonicService::new(HealthServer::new(Panics)), ..routes(bounds, None) };
        let mut called = connected(routes, bounds, WINDOW).await;
        let nothing = Bytes::from_static(b"\0\0\0\0\0");
        for uri in ["http://a/grpc.health.v1.Health/Check", "http://a/grpc.health.v1.Health/Watch"]
        {
            assert_eq!(called.status(call(uri, nothing.clone())).await, "13", "{uri}");
            assert_eq!(called.status(call(DECIDES, ada("edge"))).await, "0");
        }
    }
}
