//! The `tidegate` binary: rate limiting as a service, and what an operator needs around it.

mod banner;
mod cli;
mod door;
mod grpc;
mod handles;
mod http;
mod limiters;
mod logging;
mod pairs;
mod policy;
mod printable;
mod probe;
mod reports;
mod resp;
mod sample;
#[cfg(test)]
mod seeds;
mod stdout;
mod stop;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
