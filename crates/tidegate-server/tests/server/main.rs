//! The real binary, on free ports, driven over the network.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod admin;
mod arrived;
mod bad_requests;
mod batches;
mod browser;
mod certificates;
mod checks;
mod client;
mod command_line;
mod commands;
mod concurrency;
mod envoy;
mod fd_limit;
mod grpc;
mod histories;
mod logs;
mod nodes;
mod not_http;
mod outages;
mod overflow;
mod process;
mod protocols;
mod raw;
mod reflection;
mod reported;
mod resp;
mod resp_python;
mod rfc_9112;
mod script;
mod sources;
mod stopping;
mod store;
mod tls;
mod tokens;
mod waiting;
