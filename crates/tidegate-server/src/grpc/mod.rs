//! Envoy's rate limit service, version 3, over gRPC, with gRPC's health and reflection.
//!
//! A call passes [`connection`] -> [`routes`] -> [`call`] (reads its message) -> [`decide`] ->
//! [`question`] (its charges and refunds) -> the gate -> [`status`] (of each descriptor) ->
//! [`response`] (the bytes). [`undecided`] answers a call that cannot be decided. Health and reflection are tonic's. The
//! service itself uses HTTP/2 without a framework, which would cost more than a decision.

mod call;
mod connection;
mod decide;
mod fields;
mod gathered;
mod health;
mod inline;
mod messages;
mod own_limits;
mod question;
mod reflection;
mod reply;
mod response;
mod routes;
mod status;
mod tonic_service;
mod undecided;
mod unit;

use std::sync::Arc;

use crate::limiters::Limiters;
use crate::listener::{Bounds, Clients, Handler};
use connection::Connections;
pub(crate) use fields::{Family, GrpcFields};
use routes::Routes;

/// The options of the service's answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choices {
    /// Header fields for the caller.
    pub(crate) fields: GrpcFields,
    /// The refusal of a closed rule while the store is unavailable.
    pub(crate) unavailable: Unavailable,
    /// The answer to a request that is not understood.
    pub(crate) bad_request: BadRequest,
}

/// The answer to a request that is not understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BadRequest {
    /// OVER_LIMIT, with the reason in the metadata: the proxy refuses the request, however it handles errors
    #[default]
    OverLimit,
    /// A gRPC error: the proxy acts by its `failure_mode_deny`
    Error,
}

/// The refusal of a request because the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Unavailable {
    /// OVER_LIMIT: the proxy refuses the request, however it handles a failing rate limit service
    #[default]
    OverLimit,
    /// The gRPC error UNAVAILABLE: the proxy acts by its `failure_mode_deny`
    Error,
}

/// The service: decides by `limiters`, for these clients.
pub(crate) fn service(
    limiters: Arc<Limiters>,
    choices: Choices,
    clients: Clients,
    bounds: Bounds,
) -> impl Handler {
    Connections(Arc::new(Routes::new(limiters, choices, clients, bounds)))
}

#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests over the network")]
#[path = "../../tests/server/envoy_api.rs"]
mod envoy_api;

#[cfg(test)]
mod invariants;

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests;
