//! The `tidegate` binary: rate limiting as a service, with its operators' commands.

mod allocator;
mod audit;
mod banner;
mod cli;
mod configuration;
mod counts;
mod decide;
mod failure;
mod fd_limit;
mod flags;
mod grpc;
mod http;
mod limiters;
mod listener;
mod logging;
mod new_file;
mod once_a_minute;
mod ordered_map;
mod otlp;
mod policy;
mod private_file;
mod probe;
mod refusal;
mod reports;
mod resp;
mod sample_request;
mod service_manager;
mod snapshot_file;
mod stdout;
mod stop;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}

#[cfg(test)]
mod admits;

#[cfg(test)]
mod seeds;
