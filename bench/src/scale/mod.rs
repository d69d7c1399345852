//! The command `scale`: the CPU time and latency of decisions over a store, for one hot key, refused callers, distinct
//! keys, several nodes and several primaries, compared with bare round trips.
//!
//! A new way to decide in the engine gets a subject here for each case that it changes. Each subject is compared with the
//! first of its case.

mod cluster;
mod gates;
mod listeners;

use crate::harness::{Asked, Case, Entry, Options, Sample, least_above};
use crate::overload::cases::{Load, Scenario};
use crate::redis_server::Did;
use crate::server::asking::Listener;
use crate::store::commands::{Limit, Shape};
use crate::store::pipelines::Pipelines;
use crate::table::{Column, median_of, ratio_of};
use gates::{Ask, Gates};
use listeners::{Kept, OfServer};
use std::time::Duration;
use tidegate::script::Each;
use tidegate::{AlgorithmKind, Layout, LeaseSpec};

const COLUMNS: &[Column] = &[
    median_of("per_s", "per second", 0),
    ratio_of("per_s", "of the first"),
    median_of("round_trips", "round trips", 3),
    median_of("redis_cpu_us", "redis CPU us", 3),
    median_of("client_cpu_us", "client CPU us", 2),
    median_of("network_bytes", "bytes", 0),
    median_of("p99_us", "p99 us", 0),
];

/// The time for which each subject is asked before it is measured for the first time.
const WARM_UP: Duration = Duration::from_millis(500);
/// A limit a second that decisions in process do not reach.
const MANY: u64 = 100_000_000;
/// The keys that are asked for in pipelines.
const KEYS: usize = 32_000;

const RESP: Load = Load { listener: Listener::Resp, connections: 50, depth: 16 };
const GRPC: Load = Load { listener: Listener::Grpc, connections: 10, depth: 10 };

/// The values of `asked` decisions from their wall time, the CPU time of who asks the store, the work of the store, and
/// the times of some of them in microseconds.
fn sample(asked: u64, wall: Duration, cpu: Duration, did: Did, us: &mut [u32]) -> Sample {
    us.sort_unstable();
    let asked = asked.max(1) as f64;
    vec![
        ("per_s", asked / wall.as_secs_f64()),
        ("round_trips", did.scripts as f64 / asked),
        ("redis_cpu_us", did.cpu_us as f64 / asked),
        ("client_cpu_us", cpu.as_secs_f64() * 1e6 / asked),
        ("network_bytes", did.network_bytes as f64 / asked),
        ("p99_us", least_above(us, 0.99)),
    ]
}

/// Compared with the first of the subjects.
fn case(name: &str, base: &'static str, subjects: Vec<Entry>) -> Case {
    let case = Case::once(name, COLUMNS, subjects);
    Case { base, rounds: 5, length: Duration::from_secs(2), ..case }
}

/// A subject that is asked once before.
fn warm<A: Asked + 'static>(
    name: &str,
    begin: impl FnOnce() -> Result<A, String> + 'static,
) -> Entry {
    Entry::new(name, || {
        let mut asked = begin()?;
        asked.sample(WARM_UP)?;
        Ok(asked)
    })
}

/// Gates in this process.
fn gates(name: &str, ask: Ask) -> Entry {
    warm(name, move || Gates::begin(ask))
}

/// Commands in a pipeline, without any gate.
fn raw(name: &str, shape: Shape) -> Entry {
    warm(name, move || {
        let mut pipelines = Pipelines::begin(shape, 1)?;
        let (algorithm, window) = (AlgorithmKind::TokenBucket, Duration::from_secs(1));
        let limit = Limit { algorithm, units: 1_000_000, window };
        let keys: Vec<_> = (0..KEYS).map(|number| format!("scale:user:{number:06}")).collect();
        let depth = if shape == Shape::Each { 1 } else { Each::MOST };
        pipelines.fill(&limit, &keys, depth)?;
        Ok(pipelines)
    })
}

const fn lease(max_percent: u8, life_ms: u64) -> LeaseSpec {
    LeaseSpec { max_percent, life: Duration::from_millis(life_ms) }
}

/// One node whose leases are limited by their `max`, in percent of 200,000 units: their life needs more.
const fn sized(max_percent: u8) -> Ask {
    let lease = Some(lease(max_percent, 10));
    Ask { tasks: 128, limit: MANY / 10, capacity: Some(200_000), lease, ..Ask::HOT }
}

/// One, two and four nodes.
fn nodes(name: &str, ask: Ask) -> Case {
    let subjects = vec![
        gates("1 node", ask),
        gates("2 nodes", Ask { nodes: 2, ..ask }),
        gates("4 nodes", Ask { nodes: 4, ..ask }),
    ];
    case(name, "1 node", subjects)
}

/// A server at a listener, on one key or on many.
fn listener(name: &str, load: Load, scenario: Scenario, options: &'static Options) -> Case {
    let of = |name, kept| warm(name, move || OfServer::begin(options, load, scenario, kept));
    let mut subjects = vec![of("memory", Kept::Memory), of("exact", Kept::Store)];
    if scenario == Scenario::OneKey {
        subjects.push(of("leased", Kept::Leased));
        subjects.push(of("refused, denial memory", Kept::Refused));
    }
    case(name, "memory", subjects)
}

/// All cases.
pub fn cases(options: &'static Options) -> Vec<Case> {
    const HOT: Ask = Ask::HOT;
    const REFUSED: Ask = Ask { refused: true, ..HOT };
    const DISTINCT: Ask = Ask { keys: 100_000, tasks: 256, ..HOT };
    const NODES: Ask = Ask { tasks: 128, ..HOT };
    // As `lease = "auto"`.
    const LEASED: Ask = Ask { limit: MANY, lease: Some(lease(10, 200)), ..HOT };
    const LEASED_NODES: Ask = Ask { tasks: 128, ..LEASED };
    const SPLIT: Ask = Ask { limit: MANY, split: true, ..HOT };
    const SPLIT_NODES: Ask = Ask { tasks: 128, ..SPLIT };
    let hot = vec![
        gates("exact, one by one", Ask { tasks: 1, ..HOT }),
        gates("exact", HOT),
        gates("leased, one by one", Ask { tasks: 1, ..LEASED }),
        gates("leased", LEASED),
        gates("split", SPLIT),
    ];
    let refused = vec![
        gates("exact", Ask { tasks: 1, ..REFUSED }),
        gates("denial memory", Ask { tasks: 1, denial_memory: true, ..REFUSED }),
        gates("exact, 64 at once", REFUSED),
        gates("denial memory, 64 at once", Ask { denial_memory: true, ..REFUSED }),
    ];
    let distinct = vec![
        raw("unbatched, 32 in a pipeline", Shape::Engine(Layout::String)),
        raw("batched, 32 in a call", Shape::Each),
        gates("gate, 256 at once", DISTINCT),
    ];
    let floors = vec![
        raw("INCR", Shape::Incr),
        raw("EVALSHA of nothing", Shape::Nothing),
        raw("a script of the shape of redis-cell", Shape::Cell),
    ];
    let sizes =
        vec![gates("max 1 %", sized(1)), gates("max 2 %", sized(2)), gates("max 5 %", sized(5))];
    let cluster = vec![
        gates("1 primary", Ask { primaries: 1, ..DISTINCT }),
        gates("2 primaries", Ask { primaries: 2, ..DISTINCT }),
        gates("3 primaries", Ask { primaries: 3, ..DISTINCT }),
    ];
    vec![
        case("one hot key, in process", "exact, one by one", hot),
        case("refused callers who keep asking, in process", "exact", refused),
        case("distinct keys, one primary", "unbatched, 32 in a pipeline", distinct),
        case("floors, 32 in a pipeline", "INCR", floors),
        nodes("one hot key, nodes", NODES),
        nodes("one hot key, leased, nodes", LEASED_NODES),
        case("one hot key, leased, size of a lease", "max 1 %", sizes),
        nodes("one hot key, split, nodes", SPLIT_NODES),
        case("distinct keys, cluster", "1 primary", cluster),
        listener("one hot key, RESP 50x16", RESP, Scenario::OneKey, options),
        listener("one hot key, gRPC 10x10", GRPC, Scenario::OneKey, options),
        listener("distinct keys, gRPC 10x10", GRPC, Scenario::ManyKeys, options),
    ]
}
