//! Eight threads at once: not one unit over, and not one charged for what was refused.
//!
//! The clock stands still, so that what was admitted can be counted to the unit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Clock, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec, Timestamp,
};

const THREADS: u64 = 8;
const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Requests of each thread.
const ASKS: u64 = 400;

/// Every algorithm, several times over.
fn rounds() -> impl Iterator<Item = AlgorithmKind> {
    let times = if std::env::var_os("TIDEGATE_LONG").is_some() { 100 } else { 5 };
    (0..times).flat_map(|_| AlgorithmKind::ALL.iter().copied())
}

fn gate(rules: Vec<RuleSpec>) -> Gate<Timestamp> {
    Gate::with_clock(Policy::new(rules).unwrap(), NOW)
}

fn rule(name: &str, algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(algorithm, limit, Micros::from_secs(3_600)))
}

/// Runs `work` on eight threads that begin together, each with a generator of its own.
fn together(work: impl Fn(&mut Rng) + Sync) {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|threads| {
        for number in 0..THREADS {
            let (start, work) = (&start, &work);
            threads.spawn(move || {
                start.wait();
                work(&mut Rng::new(number));
            });
        }
    });
}

/// The remaining units of each rule that a request of these entries meets, by the rule's name.
fn left<C: Clock>(gate: &Gate<C>, entries: &[(&str, &str)]) -> HashMap<String, u64> {
    let answer = gate.peek(&Request::new("default", &[Descriptor::new(entries)]));
    let figures = |m: &tidegate::Matched<'_>| (m.rule().name().to_owned(), m.decision().remaining);
    answer.matched().iter().map(figures).collect()
}

#[test]
fn eight_threads_on_one_limiter_get_the_limit_to_the_unit() {
    for algorithm in rounds() {
        let gate = gate(vec![rule("r", algorithm, 1_000)]);
        let most = left(&gate, &[])["r"];
        let got = AtomicU64::new(0);
        together(|_| {
            for _ in 0..ASKS {
                let descriptor = [Descriptor::new(&[])];
                let admitted = gate.check(&Request::new("default", &descriptor)).is_allowed();
                got.fetch_add(u64::from(admitted), Relaxed);
            }
        });
        assert_eq!(got.into_inner(), most, "{algorithm}");
        assert_eq!(left(&gate, &[])["r"], 0, "{algorithm}");
    }
}

#[test]
fn costs_of_every_size_add_up_to_what_is_gone() {
    for algorithm in rounds() {
        let gate = gate(vec![rule("r", algorithm, 2_500)]);
        let most = left(&gate, &[])["r"];
        let got = AtomicU64::new(0);
        together(|rng| {
            for _ in 0..ASKS {
                let cost = rng.below(8);
                let descriptor = [Descriptor::new(&[]).cost(cost)];
                let request = Request::new("default", &descriptor);
                let admitted = match rng.chance(50) {
                    true => gate.check(&request).is_allowed(),
                    false => gate.admits(&request),
                };
                got.fetch_add(cost * u64::from(admitted), Relaxed);
            }
        });
        let got = got.into_inner();
        assert_eq!(left(&gate, &[])["r"], most - got, "{algorithm}");
        assert!(got > most - 7, "{got} of {most}: {algorithm}");
    }
}

/// Units admitted, by rule and key.
type Charged = Mutex<HashMap<(&'static str, String), u64>>;

/// One limit for all, one for each user, one for each address: different requests meet different
/// limiters, and most of what one of them admits another refuses.
fn three_rules(algorithms: [AlgorithmKind; 3]) {
    let gate = gate(vec![
        rule("all", algorithms[0], 1_500),
        rule("user", algorithms[1], 900).key(["user"]),
        rule("ip", algorithms[2], 500).key(["ip"]),
    ]);
    let (users, ips) = (["ada", "bob"], ["1", "2", "3", "4"]);
    let before = left(&gate, &[("user", "ada"), ("ip", "1")]);
    let charged: Charged = Mutex::default();
    together(|rng| {
        for _ in 0..ASKS {
            let (user, ip, cost) = (rng.pick(users), rng.pick(ips), rng.between(1, 3));
            let mut entries = [("user", user), ("ip", ip)];
            if rng.chance(50) {
                entries.reverse();
            }
            let descriptor = [Descriptor::new(&entries).cost(cost)];
            if gate.check(&Request::new("default", &descriptor)).is_allowed() {
                let mut charged = charged.lock().unwrap();
                for (name, key) in [("all", ""), ("user", user), ("ip", ip)] {
                    *charged.entry((name, key.to_owned())).or_default() += cost;
                }
            }
        }
    });
    let charged = charged.into_inner().unwrap();
    for user in users {
        for ip in ips {
            let after = left(&gate, &[("user", user), ("ip", ip)]);
            for (name, key) in [("all", ""), ("user", user), ("ip", ip)] {
                let charged = charged.get(&(name, key.to_owned())).copied().unwrap_or(0);
                assert_eq!(after[name], before[name] - charged, "{name} {key}: {algorithms:?}");
            }
        }
    }
}

#[test]
fn nobody_is_charged_for_a_refusal_of_three_rules_at_once() {
    let all = AlgorithmKind::ALL;
    for (i, one) in rounds().enumerate() {
        let (second, third) = (all[(i + 1) % all.len()], all[(i + 3) % all.len()]);
        three_rules([one, second, third]);
        three_rules([one, one, one]);
    }
}

/// Requests that name the same limiters in opposite orders: neither waits for the other for ever.
#[test]
fn limiters_named_in_opposite_orders_are_charged_together_or_not_at_all() {
    for algorithm in rounds() {
        let gate = gate(vec![rule("r", algorithm, 700).key(["user"])]);
        let before = left(&gate, &[("user", "a")])["r"];
        let got = AtomicU64::new(0);
        together(|rng| {
            for _ in 0..ASKS {
                let (a, b) = ([("user", "a")], [("user", "b")]);
                let mut both = [Descriptor::new(&a), Descriptor::new(&b)];
                if rng.chance(50) {
                    both.reverse();
                }
                let admitted = gate.check(&Request::new("default", &both)).is_allowed();
                got.fetch_add(u64::from(admitted), Relaxed);
            }
        });
        let got = got.into_inner();
        assert_eq!(got, before, "{algorithm}");
        for user in ["a", "b"] {
            assert_eq!(left(&gate, &[("user", user)])["r"], 0, "{algorithm}");
        }
    }
}

#[test]
fn what_every_thread_gives_back_is_all_there_again() {
    for algorithm in rounds() {
        let gate = gate(vec![rule("a", algorithm, 40), rule("b", algorithm, 50)]);
        let before = left(&gate, &[]);
        together(|rng| {
            for _ in 0..ASKS {
                let descriptor = [Descriptor::new(&[]).cost(rng.between(1, 20))];
                let request = Request::new("default", &descriptor);
                if gate.check(&request).is_allowed() {
                    let _ = gate.refund(&request);
                }
            }
        });
        assert_eq!(left(&gate, &[]), before, "{algorithm}");
    }
}

/// A clock that every reading moves on.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        NOW.plus(Micros::from_micros(self.0.fetch_add(1, Relaxed)))
    }
}

/// While the clock runs: by the times that the answers tell, no window holds more than the limit.
#[test]
fn no_window_of_a_running_clock_holds_more_than_the_limit() {
    const LIMIT: usize = 100;
    let window = Micros::from_millis(1);
    let spec = Spec::new(AlgorithmKind::SlidingLog, LIMIT as u64, window);
    let policy = Policy::new(vec![RuleSpec::new("r", spec)]).unwrap();
    let gate = Gate::with_clock(policy, Ticking(AtomicU64::new(0)));
    let times = Mutex::new(Vec::new());
    together(|_| {
        for _ in 0..4 * ASKS {
            let descriptor = [Descriptor::new(&[])];
            let answer = gate.check(&Request::new("default", &descriptor));
            if answer.is_allowed() {
                times.lock().unwrap().push(answer.at());
            }
        }
    });
    let mut times = times.into_inner().unwrap();
    times.sort_unstable();
    assert!(times.len() > 5 * LIMIT, "{}", times.len());
    for ends in times.windows(LIMIT + 1) {
        assert!(ends[LIMIT].since(ends[0]) >= window);
    }
}
