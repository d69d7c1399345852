//! Units are conserved: after a fault that loses no data and no reply, the store counts only the units that callers
//! were told of; after a fault that loses replies, also the units counted as lost. Callers check, and reserve and
//! settle. Each fault is run in every mode: exact, with leases, and with a split limit.
//!
//! `TIDEGATE_LONG=1` makes all faults last longer than any share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Descriptor, LeaseSpec, OnStoreError, Request, RuleSpec, SharedGate, Spec,
    StoreCounts, StoreError,
};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep};

use crate::leases::{ALGORITHMS, is_level};
use crate::server::proxy::Way;
use crate::server::{LONG, Server, defaults, gate_over, gate_with, long, proxied};

const LIMIT: u64 = 20_000;
/// So long that nothing leaves it in a test.
const WINDOW: Duration = Duration::from_secs(360 * 86_400);
/// The tasks that ask each limiter, and the pause between an answer and the next request.
const TASKS: usize = 3;
const PAUSE: Duration = Duration::from_millis(4);

/// Longer than a machine under load needs for an answer, and much shorter than a fault.
const DEADLINE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Exact,
    Leased,
    Split,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leased => "leased",
            Self::Split => "split",
        }
    }
}

const MODES: [Mode; 3] = [Mode::Exact, Mode::Leased, Mode::Split];

fn rules(mode: Mode) -> Vec<RuleSpec> {
    let rule = |algorithm: &AlgorithmKind| {
        let mut spec = Spec::new(*algorithm, LIMIT, WINDOW);
        if *algorithm == AlgorithmKind::SlidingLog {
            spec.resolution = Some(WINDOW / 5);
        }
        let rule = RuleSpec::new(algorithm.name(), spec).key(["user"]);
        let rule = rule.on_store_error(OnStoreError::Closed);
        match mode {
            Mode::Exact => rule,
            Mode::Leased => rule.lease(LeaseSpec::default()),
            Mode::Split => rule.split(),
        }
    };
    ALGORITHMS.iter().map(|algorithm| rule(algorithm).in_domain(algorithm.name())).collect()
}

/// The units that a caller reserves, and the units that its work costs.
const RESERVED: u64 = 3;
const USED: u64 = 1;

/// The units that callers were told of.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    units: u64,
    /// Units of reservations that may have come back, because no reply came.
    in_doubt: u64,
    /// Reservations of each algorithm that were settled.
    settled: [u64; ALGORITHMS.len()],
}

impl Answered {
    /// Reserves and settles.
    async fn reserve(&mut self, gate: &SharedGate, number: usize, entries: &[(&str, &str)]) {
        let descriptors = [Descriptor::new(entries).cost(RESERVED)];
        let request = Request::new(ALGORITHMS[number].name(), &descriptors);
        let Ok(charge) = gate.hold(&request).await else { return };
        match charge.settle(USED).await {
            Ok(()) => {
                self.units += USED;
                self.settled[number] += 1;
            }
            // Nothing was sent, so that all stays taken.
            Err(StoreError::Away | StoreError::Overloaded { .. }) => self.units += RESERVED,
            Err(_) => {
                self.units += USED;
                self.in_doubt += RESERVED - USED;
            }
        }
    }
}

/// Asks the limiter of the algorithm with this number until the end, and returns the units that its callers were told of. The units of all tasks add up in `all`.
async fn ask(
    gate: Arc<SharedGate>,
    number: usize,
    mode: Mode,
    ends: Arc<AtomicBool>,
    all: Arc<AtomicU64>,
) -> Answered {
    let (entries, mut reported) = ([("user", mode.name())], Answered::default());
    let descriptors = [Descriptor::new(&entries)];
    for turn in 0.. {
        if ends.load(Relaxed) {
            break;
        }
        let before = reported.units;
        if turn % 3 == 0 {
            reported.reserve(&gate, number, &entries).await;
        } else {
            let answer = gate.check(&Request::new(ALGORITHMS[number].name(), &descriptors)).await;
            reported.units += u64::from(answer.is_allowed());
        }
        all.fetch_add(reported.units - before, Relaxed);
        sleep(PAUSE).await;
    }
    reported
}

/// The part of a level that each settlement under a lease or a share leaves there: what drains in the longest life of a
/// lease, because leases of other nodes may live that long.
const LEFT_OF_SETTLEMENT: Duration = Duration::from_secs(1);

/// Returns the units that the store counts for a user, in all limiters, after these settlements. A level drains a small
/// part of a unit during the call.
async fn counted(gate: &SharedGate, mode: Mode, settled: [u64; ALGORITHMS.len()]) -> u64 {
    let (entries, mut sum) = ([("user", mode.name())], 0);
    let descriptors = [Descriptor::new(&entries).cost(0)];
    for (algorithm, settled) in ALGORITHMS.into_iter().zip(settled) {
        let answer = gate.check(&Request::new(algorithm.name(), &descriptors)).await;
        assert!(!answer.is_degraded(), "{answer:?}");
        let decision = answer.reported().unwrap().decision();
        sum += if is_level(algorithm) {
            let of_one = WINDOW.as_micros() as u64 / LIMIT;
            let settled = if mode == Mode::Exact { 0 } else { settled };
            let left = settled * LEFT_OF_SETTLEMENT.as_micros() as u64;
            (decision.reset_after.as_micros().saturating_sub(left) + of_one / 2) / of_one
        } else {
            LIMIT - decision.remaining
        };
    }
    sum
}

/// The units of one mode after a fault.
#[derive(Debug)]
struct Sum {
    mode: Mode,
    counted: u64,
    answered: Answered,
    counts: StoreCounts,
}

impl Sum {
    /// Units that the store counts but that no caller was told of.
    fn missing(&self) -> i64 {
        self.counted.cast_signed() - self.answered.units.cast_signed()
    }

    /// Units whose loss is counted, and reservations in doubt.
    fn accounted(&self) -> i64 {
        let lost: u64 = self.counts.lost().iter().map(|(_, units)| units).sum();
        (lost + self.answered.in_doubt).cast_signed()
    }

    fn tell(&self, fault: &str) {
        let Self { mode, counted, answered: Answered { units: answered, in_doubt, .. }, counts } =
            self;
        let StoreCounts { leased, leased_spent, leased_returned, late, undone, .. } = counts;
        let lost: Vec<_> =
            counts.lost().iter().map(|(cause, units)| format!("{units} {cause}")).collect();
        println!(
            "| {fault} | {mode:?} | {counted} | {answered} | {} | {} | {leased} | {leased_spent} | {leased_returned} | {late} | {undone} | {in_doubt} |",
            self.missing(),
            lost.join(", ")
        );
    }
}

/// The gate of one mode, and the tasks that ask it.
struct Asked {
    mode: Mode,
    gate: Arc<SharedGate>,
    tasks: JoinSet<Answered>,
    /// The units of all tasks.
    units: Arc<AtomicU64>,
}

/// Waits until callers were told of so many more units in each mode.
async fn more(all: &[Asked], units: u64) {
    for one in all {
        let until = one.units.load(Relaxed) + units;
        while one.units.load(Relaxed) < until {
            sleep(PAUSE).await;
        }
    }
}

/// Asks in all modes while a fault is caused and lifted, and sums the fate of the units. The units are counted at
/// `store`.
async fn sums(
    url: &str,
    store: &str,
    fault: &str,
    cause: impl AsyncFnOnce(),
    holds: impl Fn(&Sum) -> bool,
) -> Vec<Sum> {
    let ends = Arc::new(AtomicBool::new(false));
    let mut all = Vec::new();
    for mode in MODES {
        let mut settings = defaults(url);
        settings.nodes = Some(1);
        settings.timeout = DEADLINE;
        let gate = Arc::new(gate_with(settings, rules(mode)).await.0);
        let (mut tasks, units) = (JoinSet::new(), Arc::default());
        for number in (0..ALGORITHMS.len()).flat_map(|number| [number; TASKS]) {
            let (gate, ends, units) = (Arc::clone(&gate), Arc::clone(&ends), Arc::clone(&units));
            tasks.spawn(ask(gate, number, mode, ends, units));
        }
        all.push(Asked { mode, gate, tasks, units });
    }
    more(&all, 600).await;
    cause().await;
    more(&all, 300).await;
    ends.store(true, Relaxed);
    let counting = gate_over(store, rules(Mode::Exact)).await.0;
    let mut sums = Vec::new();
    for Asked { mode, gate, tasks, .. } in all {
        let mut answered = Answered::default();
        for one in tasks.join_all().await {
            answered.units += one.units;
            answered.in_doubt += one.in_doubt;
            answered.settled.iter_mut().zip(one.settled).for_each(|(all, one)| *all += one);
        }
        let _ = gate.leave().await;
        // Late replies may still be undone.
        let begun = Instant::now();
        let sum = loop {
            let counted = counted(&counting, mode, answered.settled).await;
            let sum = Sum { mode, counted, answered, counts: gate.counts() };
            if holds(&sum) || begun.elapsed() > LONG {
                break sum;
            }
            sleep(PAUSE).await;
        };
        sum.tell(fault);
        assert!(holds(&sum), "{fault}: {sum:?}");
        sums.push(sum);
    }
    sums
}

/// Returns how long a fault lasts.
fn lasting() -> Duration {
    Duration::from_millis(if long() { 5_000 } else { 1_000 })
}

/// Longer than any lease or share.
fn outlasting() -> Duration {
    lasting().max(Duration::from_millis(2_500))
}

fn nothing_is_lost(sum: &Sum) -> bool {
    (0..=sum.answered.in_doubt.cast_signed()).contains(&sum.missing())
}

fn what_is_lost_is_counted(sum: &Sum) -> bool {
    (0..=sum.accounted()).contains(&sum.missing())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fault_no_unit_is_lost() {
    let server = Server::start(&[]);
    let url = server.url();
    sums(&url, &url, "none", async || sleep(lasting()).await, nothing_is_lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_stands_still_longer_than_a_share_loses_no_unit() {
    let server = Server::start(&[]);
    let url = server.url();
    let stop = async || {
        server.signal("STOP");
        sleep(outlasting()).await;
        server.signal("CONT");
    };
    sums(&url, &url, "SIGSTOP, SIGCONT", stop, nothing_is_lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_its_file_after_a_share_has_ended_loses_no_unit() {
    let mut server = Server::start(&[]);
    let url = server.url();
    let restart = async || {
        block_in_place(|| {
            // Nothing is taken between the last reply and the file.
            server.run::<()>(&["CLIENT", "PAUSE", "60000", "WRITE"]);
            let _ = server.ask::<()>(&["SHUTDOWN", "SAVE"]);
            server.kill();
        });
        sleep(outlasting()).await;
        block_in_place(|| server.start_again(&[]));
    };
    sums(&url, &url, "a restart with its file", restart, nothing_is_lost).await;
}

/// The node carries the units that it knows of, so that the store counts no less than callers were told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_its_file_mints_no_unit() {
    let mut server = Server::start(&[]);
    let url = server.url();
    let restart = async || {
        server.kill();
        sleep(lasting()).await;
        block_in_place(|| server.start_again(&[]));
    };
    sums(&url, &url, "a restart without its file", restart, what_is_lost_is_counted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_late_lose_no_unit_and_units_of_replies_that_are_lost_are_counted() {
    for (fault, way, are_counted) in [
        ("answers late", Way::Slow(2 * DEADLINE), false),
        ("replies are lost", Way::Lossy, true),
        ("connections are cut", Way::Cut, true),
    ] {
        let holds = if are_counted { what_is_lost_is_counted } else { nothing_is_lost };
        let (server, proxy) = proxied().await;
        let broken = async || {
            proxy.turn(way);
            sleep(lasting()).await;
            proxy.turn(Way::Open);
        };
        sums(&proxy.url(), &server.url(), fault, broken, holds).await;
    }
}
