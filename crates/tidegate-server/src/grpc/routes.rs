//! Which path is answered by what.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::header::AUTHORIZATION;
use hyper::http::{HeaderMap, Request, Response};
use tonic::Status;

use super::decide::Decider;
use super::reply::{self, Reply};
use super::seldom::Seldom;
use super::{Choices, Limits, call, health, reflection};
use crate::door::Secret;
use crate::limiters::Limiters;

/// The service, as health and reflection name it.
pub(super) const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

const BEARER: &[u8] = b"bearer ";

/// All that is answered.
pub(super) struct Routes {
    decider: Decider,
    others: Vec<Seldom>,
    secret: Option<Secret>,
    limits: Limits,
}

impl Routes {
    pub(super) fn new(
        limiters: Arc<Limiters>,
        choices: Choices,
        secret: Option<Secret>,
        limits: Limits,
    ) -> Self {
        let mut others = vec![Seldom::new(health::server(Arc::clone(&limiters), limits.probe))];
        others.extend(reflection::servers());
        Self { decider: Decider { limiters, choices }, others, secret, limits }
    }

    /// Answers whatever comes.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        if !call::is_grpc(request.method(), request.headers()) {
            return reply::not_grpc();
        }
        if let Some(status) = self.stranger(request.headers()) {
            return reply::failed(status);
        }
        let path = request.uri().path();
        if path == SHOULD_RATE_LIMIT {
            let decide = async |message| self.decider.answer(message).await;
            return call::unary(request, self.limits, decide).await;
        }
        match self.others.iter().find(|service| service.has(path)) {
            Some(service) => service.answer(request).await,
            None => {
                let expected = format!("nothing is at {path}: expected {SHOULD_RATE_LIMIT}");
                reply::failed(Status::unimplemented(expected))
            }
        }
    }

    /// What one is told who does not show a token where one is asked for.
    fn stranger(&self, headers: &HeaderMap) -> Option<Status> {
        let secret = self.secret.as_ref()?;
        let said = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let said = said.and_then(|said| said.split_at_checked(BEARER.len()));
        let opens = |(scheme, token): (&[u8], &[u8])| {
            scheme.eq_ignore_ascii_case(BEARER) && secret.opens(token.trim_ascii())
        };
        let expected =
            "expected the metadata `authorization: Bearer TOKEN` with a token of this server";
        (!said.is_some_and(opens)).then(|| Status::unauthenticated(expected))
    }
}
