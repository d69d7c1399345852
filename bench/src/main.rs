//! Measures the cost of a decision, in a process, in a store and over the network, next to peers and floors.

mod calls;
mod cases;
mod clock;
mod cores;
mod departures;
mod flood;
mod growth;
mod heap;
mod host;
mod in_process;
mod layer;
mod measure;
mod overload;
mod pace;
mod pauses;
mod process;
mod programs;
mod redis_server;
mod redis_store;
mod report;
mod resp;
mod rounds;
mod scale;
mod server;
mod stalls;
mod subjects;
mod workload;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Benchmarks of Tidegate next to its peers and its floors.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// CPU and wall time per decision and heap per key, in this process.
    InProcess(in_process::InProcess),
    /// The longest single decision while a table grows to a million keys.
    Pauses(pauses::Pauses),
    /// Heap per key while a table with room for a million keys is filled.
    Growth,
    /// Ten million hostile keys through a table with room for one million.
    Flood(flood::Flood),
    /// CPU of a Redis, decisions per second and latency, of decisions in the shared store.
    Redis(redis_store::Redis),
    /// A request through the tower layer: time, instructions and allocations next to tower_governor, and CPU in axum.
    Layer(layer::Layer),
    /// Decisions per second, CPU, memory and latency of the server's listeners.
    Server(server::Server),
    /// A scrape of the server's metrics: its CPU time, and the longest decision next to it.
    Scrape(server::Scrape),
    /// Memory of a server with many rules, as it starts and when each rule has decided once.
    Rules(server::Rules),
    /// More load than a shared store decides in time: units over the limits, and the latency of well-behaved callers.
    Overload(overload::Overload),
    /// One hot key, refused callers, distinct keys, several nodes and primaries: decisions per second, round trips, and
    /// CPU of the store and of who asks it.
    Scale(scale::Scale),
    /// Time that the machine itself takes away, as gaps in a loop that only reads the clock.
    Stalls(stalls::Stalls),
    /// One `recv` and one `send` for each request; `server` starts it.
    #[command(hide = true)]
    Floor(server::floor::Floor),
    /// A number of decisions of a subject in a case, to count their instructions; `layer` starts it.
    Calls(calls::Calls),
    /// A program in axum in a layer; `layer` starts it.
    #[command(hide = true)]
    LayerHello(layer::LayerHello),
    /// Envoy's rate limit service, which says yes to all; `server` starts it.
    #[command(hide = true)]
    NoOpRls(server::no_op::NoOp),
}

fn main() -> ExitCode {
    warn_if_unoptimised();
    let done = match Cli::parse().command {
        Command::InProcess(wanted) => in_process::run(&wanted),
        Command::Pauses(wanted) => pauses::run(&wanted),
        Command::Growth => growth::run(),
        Command::Flood(wanted) => flood::run(&wanted),
        Command::Redis(wanted) => redis_store::run(&wanted),
        Command::Layer(wanted) => layer::run(&wanted),
        Command::Server(wanted) => server::run(&wanted),
        Command::Scrape(wanted) => wanted.run(),
        Command::Rules(wanted) => wanted.run(),
        Command::Overload(wanted) => overload::run(&wanted),
        Command::Scale(wanted) => scale::run(&wanted),
        Command::Stalls(wanted) => stalls::run(&wanted),
        Command::Floor(wanted) => server::floor::run(&wanted),
        Command::Calls(wanted) => calls::run(&wanted),
        Command::LayerHello(wanted) => layer::hello(&wanted),
        Command::NoOpRls(wanted) => server::no_op::run(&wanted),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("tidegate-bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn warn_if_unoptimised() {
    if cfg!(debug_assertions) {
        eprintln!("not optimised: build with --release, these figures mean nothing");
    }
}
