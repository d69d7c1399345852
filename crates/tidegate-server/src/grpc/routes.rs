//! The paths of the gRPC listener and their handlers: decisions, health and reflection, with the token that each
//! needs. `connection.rs` calls [`Routes::answer`] for each call.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::header::AUTHORIZATION;
use hyper::http::{HeaderMap, Request, Response};

use super::decide::GrpcDecider;
use super::reply::{self, GrpcReply};
use super::tonic_service::TonicService;
use super::{Bounds, Choices, call, health, reflection};
use crate::decide::RequestDecider;
use crate::limiters::{Limiters, RequestVerb};
use crate::listener::{Clients, KeptBytes, Peer, bearer};
use crate::otlp::Span;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::verbs::PublicVerbs;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The handlers of one listener, and the clients that it answers.
pub(super) struct Routes {
    decider: GrpcDecider,
    health: TonicService,
    others: Vec<TonicService>,
    clients: Clients,
    bounds: Bounds,
}

impl Routes {
    pub(super) fn new(
        limiters: Arc<Limiters>,
        choices: Choices,
        clients: Clients,
        bounds: Bounds,
    ) -> Self {
        let health = TonicService::new(health::server(Arc::clone(&limiters), bounds.probe));
        let decider = RequestDecider::new(limiters, |counts| &counts.grpc);
        let decider = GrpcDecider { decider, choices, verbs: clients.verbs };
        Self { decider, health, others: reflection::servers(), clients, bounds }
    }

    /// The verbs of every call of a connection, with any token.
    pub(super) fn granted(&self, peer: impl FnOnce() -> Peer) -> PublicVerbs {
        self.clients.of_connection(peer)
    }

    /// Answers a request that claims `kept` of its connection's account, and is granted what its connection is and its
    /// token; calls `let_in` for an authorized call. Health is answered to every client, because a prober often has no token.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        kept: KeptBytes,
        granted: PublicVerbs,
        let_in: impl FnOnce(),
    ) -> Response<GrpcReply> {
        if !call::is_grpc(request.method(), request.headers()) {
            return reply::not_grpc();
        }
        // A wrong token refuses the call only after health, which needs none.
        let of_token = self.token(request.headers());
        if of_token.is_ok() {
            // Before health, so that an authorized prober keeps its connection in use.
            let_in();
        }
        if self.health.has(request.uri().path()) {
            return self.health.answer(request, kept).await;
        }
        let granted = match of_token {
            Ok(of_token) => granted.and(of_token),
            Err(why) => return reply::failed(why),
        };
        let path = request.uri().path();
        if path == SHOULD_RATE_LIMIT {
            let span = Span::begin(RequestVerb::Check.name(), request.headers());
            return call::unary(
                request,
                self.bounds,
                kept,
                async |message| self.decider.answer(message, granted, span).await,
                |why| self.decider.refusal(why),
            )
            .await;
        }
        match self.others.iter().find(|service| service.has(path)) {
            Some(service) => service.answer(request, kept).await,
            None => {
                let expected = format!("nothing is at {path}: expected {SHOULD_RATE_LIMIT}");
                reply::failed(RefusalKind::NotFound.because(expected))
            }
        }
    }

    /// Answers a call for which there is no space, with `space` for a refusal.
    #[cold]
    pub(super) fn without_space(
        &self,
        request: &Request<Incoming>,
        space: Option<KeptBytes>,
    ) -> Response<GrpcReply> {
        let is_decision = request.uri().path() == SHOULD_RATE_LIMIT;
        if !is_decision || self.token(request.headers()).is_err() {
            return reply::too_much();
        }
        reply::undecided(self.decider.refusal(reply::too_much_kept()), space)
    }

    /// The verbs that the token of a call grants, which is needed if there is a secret.
    fn token(&self, headers: &HeaderMap) -> Result<PublicVerbs, RequestRefusal> {
        let Some(secret) = &self.clients.secret else { return Ok(PublicVerbs::default()) };
        let said = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let expected =
            "expected the metadata `authorization: Bearer TOKEN` with a token of this server";
        secret
            .admits(said.and_then(bearer))
            .ok_or_else(|| RefusalKind::Unauthorized.because(expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::testing::{DECIDES, WINDOW, ada, call, connected, routes};
    use hyper::body::Bytes;
    use tonic::Status;
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
