//! Gates in this process over a store: tasks that ask one after the other, or one that asks alone.

use super::cluster;
use super::sample;
use crate::clock::process_cpu;
use crate::harness::{Asked, Sample, micros};
use crate::redis_server::{Did, RedisServer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate::{
    AlgorithmKind, Descriptor, LeaseSpec, Policy, Request, RuleSpec, SharedGate, Spec,
    StoreSettings,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

/// The number of a task's decisions for each decision that is timed.
const SAMPLED: usize = 16;
/// After this many decisions a task lets the others run: a decision that is refused here never waits.
const TURN: usize = 64;

/// The callers of a gate, and the keys they ask for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Gates, each with its own connection.
    pub nodes: usize,
    /// Requests on their way at once, of all gates.
    pub tasks: usize,
    pub keys: usize,
    /// True if the limit is one unit a day, which is used up, so that all is refused.
    pub refused: bool,
    pub denial_memory: bool,
    /// The limit a second of a rule that refuses nothing.
    pub limit: u64,
    /// The capacity of its bucket; by default the limit.
    pub capacity: Option<u64>,
    /// The leases of the rule.
    pub lease: Option<LeaseSpec>,
    /// True if the rule is split among the gates.
    pub split: bool,
    /// Primaries of a cluster; 0 for a single server.
    pub primaries: usize,
}

impl Ask {
    /// One gate and one key.
    pub const HOT: Self = Self {
        nodes: 1,
        tasks: 64,
        keys: 1,
        refused: false,
        denial_memory: false,
        limit: 1_000_000,
        capacity: None,
        lease: None,
        split: false,
        primaries: 0,
    };

    fn rule(self) -> RuleSpec {
        let (limit, window) = if self.refused {
            (1, Duration::from_secs(86_400))
        } else {
            (self.limit, Duration::from_secs(1))
        };
        let mut spec = Spec::new(AlgorithmKind::TokenBucket, limit, window);
        spec.capacity = self.capacity;
        let mut rule = RuleSpec::new("scale", spec).key(["user"]);
        rule.lease = self.lease;
        rule.split = self.split;
        rule
    }
}

/// The servers of a store, and its URL.
fn start(primaries: usize) -> Result<(Vec<RedisServer>, String), String> {
    let (servers, scheme) = match primaries {
        0 => (vec![RedisServer::start()?], "redis"),
        count => (cluster::start(count)?, "redis+cluster"),
    };
    let all: Vec<_> = servers.iter().map(|server| server.at().to_string()).collect();
    let url = format!("{scheme}://{}", all.join(","));
    Ok((servers, url))
}

/// Gates over a store of their own.
pub struct Gates {
    ask: Ask,
    gates: Vec<Arc<SharedGate>>,
    runtime: Runtime,
    servers: Vec<RedisServer>,
}

/// The answers of a task.
#[derive(Default)]
struct Seen {
    asked: u64,
    otherwise: u64,
    us: Vec<u32>,
}

impl Gates {
    /// Starts a store, and gates over it.
    ///
    /// # Errors
    /// When redis-server is missing, or a gate does not connect.
    pub fn begin(ask: Ask) -> Result<Self, String> {
        let (servers, url) = start(ask.primaries)?;
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let gate = |_| {
            let _inside = runtime.enter();
            let url = url.parse().map_err(|error| format!("{url}: {error}"))?;
            let mut settings = StoreSettings::new(url);
            settings.timeout = Duration::from_secs(5);
            settings.nodes = Some(ask.nodes as u64);
            settings.denial_memory = ask.denial_memory;
            let policy = Policy::new(vec![ask.rule()]).map_err(|errors| errors.to_string())?;
            let gate =
                SharedGate::new(policy, settings, |_| {}).map_err(|error| error.to_string())?;
            runtime.block_on(gate.store().connected()).map_err(|error| error.to_string())?;
            Ok::<_, String>(Arc::new(gate))
        };
        let gates: Vec<_> = (0..ask.nodes).map(gate).collect::<Result<_, _>>()?;
        if let (true, Some(gate)) = (ask.refused, gates.first()) {
            let used_up = (0..ask.keys).map(|key| runtime.block_on(admits(gate, key)));
            used_up.for_each(drop);
        }
        Ok(Self { ask, gates, runtime, servers })
    }

    /// The work of all servers so far.
    fn did(&self) -> Result<Did, String> {
        self.servers.iter().try_fold(Did::default(), |all, server| Ok(all.and(server.did()?)))
    }
}

async fn admits(gate: &SharedGate, key: usize) -> bool {
    let user = format!("{key:06}");
    let entries = [("user", user.as_str())];
    gate.check(&Request::new(Request::DEFAULT_DOMAIN, &[Descriptor::new(&entries)]))
        .await
        .is_allowed()
}

/// Asks until it is time, for keys of its own order.
async fn ask(gate: Arc<SharedGate>, ask: Ask, number: usize, ends: Instant) -> Seen {
    let mut seen = Seen::default();
    let mut key = number.wrapping_mul(7_919);
    loop {
        let begun = Instant::now();
        if begun >= ends {
            return seen;
        }
        for turn in 0..TURN {
            key = key.wrapping_mul(1_103_515_245).wrapping_add(12_345) % (1 << 31);
            let sampled = (turn % SAMPLED == 0).then(Instant::now);
            let admitted = admits(&gate, key % ask.keys).await;
            seen.asked += 1;
            seen.otherwise += u64::from(admitted == ask.refused);
            if let Some(sampled) = sampled {
                seen.us.push(micros(sampled.elapsed()));
            }
        }
        yield_now().await;
    }
}

impl Asked for Gates {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let (before, cpu_before, begun) = (self.did()?, process_cpu(), Instant::now());
        let tasks = (0..self.ask.tasks).map(|number| {
            let gate = Arc::clone(&self.gates[number % self.gates.len()]);
            self.runtime.spawn(ask(gate, self.ask, number, begun + length))
        });
        let tasks: Vec<_> = tasks.collect();
        let mut all = Seen::default();
        for task in tasks {
            let seen = self.runtime.block_on(task).map_err(|error| format!("a task: {error}"))?;
            all.asked += seen.asked;
            all.otherwise += seen.otherwise;
            all.us.extend(seen.us);
        }
        let (wall, cpu) = (begun.elapsed(), process_cpu().saturating_sub(cpu_before));
        let did = self.did()?.since(before);
        if all.otherwise > 0 {
            return Err(format!("{} of {} were decided otherwise", all.otherwise, all.asked));
        }
        Ok(sample(all.asked, wall, cpu, did, &mut all.us))
    }
}
