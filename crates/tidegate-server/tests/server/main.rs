//! The real binary, on free ports, driven over the network.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod admin;
mod any_server;
mod arrived;
mod bad_requests;
mod batches;
mod browser;
mod bytes;
mod certificates;
mod changed_rules;
mod checks;
mod client;
mod command_line;
mod commands;
mod decided;
mod dedupe;
mod envoy;
mod envoy_api;
mod five_nodes;
mod grpc;
mod histories;
mod leases;
mod logs;
mod memory;
mod metrics;
#[allow(dead_code, unreachable_pub, reason = "shared with other tests")]
#[path = "../../../tidegate/tests/stores/server/moved_clock.rs"]
mod moved_clock;
mod nodes;
mod not_http;
mod openapi;
mod operate;
mod operator;
#[cfg(feature = "otlp")]
mod otlp;
mod outages;
mod overflow;
mod packaging;
mod pending;
mod permits;
mod probes;
mod process;
mod prometheus;
mod protocols;
#[allow(dead_code, unreachable_pub, reason = "shared with other tests")]
#[path = "../../../tidegate/tests/stores/server/proxy.rs"]
mod proxy;
mod raw;
mod recorded;
mod reflection;
mod reported;
mod reservations;
mod resp;
mod resp_like_redis;
mod resp_node;
mod resp_python;
mod rfc_9112;
mod roles;
mod script;
mod secrets;
mod service_manager;
mod snapshots;
mod sources;
mod statistics;
mod stopping;
mod store;
mod terminal;
mod tls;
mod tokens;
mod top;
mod traces;
mod verbs;
mod waiting;
