//! The `tidegate` binary: rate limiting as a service, with its operators' commands.

#[cfg(test)]
mod admits;
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
#[cfg(test)]
mod seeds;
mod service_manager;
mod snapshot_file;
mod stdout;
mod stop;
mod verbs;

use std::process::ExitCode;

/// With a store, a request is allocated on a listener's thread and freed on the store's, and its
/// reply the other way round; with the system's allocator that takes a third of a listener's time.
/// Tests count allocations with an allocator of their own.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns free memory to the system, after much was allocated and freed: else the allocator keeps it as long as it has
/// little to do.
#[expect(unsafe_code, reason = "of 10,000 rules, a tenth of the server's memory")]
fn return_free_memory() {
    // SAFETY: it takes no pointer, and only touches memory that is free.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

fn main() -> ExitCode {
    cli::run()
}
