//! Measures the cost of a decision, in a process, in a store and over the network, next to peers and floors.

mod calls;
mod cases;
mod clock;
mod cores;
mod departures;
mod flood;
mod growth;
mod harness;
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
mod resp;
mod scale;
mod server;
mod store;
mod subjects;
mod table;
mod workload;

use clap::{Parser, Subcommand};
use harness::{Case, Options};
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
    InProcess(Options),
    /// The longest single decision while a table grows to a million keys.
    Pauses(Options),
    /// Heap per key while a table with room for a million keys is filled.
    Growth(Options),
    /// Ten million hostile keys through a table with room for one million.
    Flood(Options),
    /// CPU of a Redis, decisions per second and latency, of decisions in the shared store.
    Redis(Options),
    /// A request through the tower layer: time, instructions and allocations next to tower_governor, and CPU in axum.
    Layer(Options),
    /// Decisions per second, CPU, memory and latency of the server's listeners.
    Server(Options),
    /// A scrape of the server's metrics: its CPU time, and the longest decision during it.
    Scrape(Options),
    /// Memory of a server with many rules, as it starts and when each rule has decided once.
    Rules(Options),
    /// The first decisions after the store came back without its data.
    Losses(Options),
    /// More load than a shared store decides in time: units over the limits, and the latency of well-behaved callers.
    Overload(Options),
    /// One hot key, refused callers, distinct keys, several nodes and primaries: decisions per second, round trips, and
    /// CPU of the store and of who asks it.
    Scale(Options),
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
        Command::InProcess(options) => run(options, in_process::cases),
        Command::Pauses(options) => run(options, pauses::cases),
        Command::Growth(options) => run(options, growth::cases),
        Command::Flood(options) => run(options, flood::cases),
        Command::Redis(options) => run(options, store::cases),
        Command::Layer(options) => run(options, layer::cases),
        Command::Server(options) => run(options, server::cases),
        Command::Scrape(options) => run(options, server::rules::scrapes),
        Command::Rules(options) => run(options, server::rules::memory),
        Command::Losses(options) => run(options, server::losses::cases),
        Command::Overload(options) => run(options, overload::cases),
        Command::Scale(options) => run(options, scale::cases),
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

/// Measures the cases of a command. Its options live as long as the program.
fn run(options: Options, cases: fn(&'static Options) -> Vec<Case>) -> Result<(), String> {
    let options: &'static Options = Box::leak(Box::new(options));
    harness::run(options, cases(options))
}

fn warn_if_unoptimised() {
    if cfg!(debug_assertions) {
        eprintln!("not optimised: build with --release, these figures mean nothing");
    }
}
