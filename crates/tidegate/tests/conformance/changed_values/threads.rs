//! Threads that ask while values change all the time, over any store: no unit is lost or given twice, and each request is
//! decided by one policy, the policy of its time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use testkit::threads::{long, together};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Limit, ManualClock, Request, RequestLimit, Rule, RuleSpec,
    Spec,
};

use crate::kit::{every_gate, every_subject_in_memory};
use crate::subjects::gates::{AnyGate, Ending, Entries, ask, seen};
use crate::subjects::{Case, InMemory, Store, per_day};

every_subject_in_memory! { each_unit_is_counted_once_while_values_change }

every_gate! {
    two_rules_count_each_unit_or_none_while_both_change,
    a_rule_that_comes_and_goes_counts_what_came_while_it_was_in_force,
    a_limit_that_moves_all_the_time_admits_each_unit_once_and_refuses_nobody_for_less,
}

const ADA: Entries<'_> = &[("user", "ada")];

/// Values of one algorithm, or of one after another.
fn in_turn(algorithms: &[AlgorithmKind], turn: u64, limit: u64) -> Spec {
    per_day(algorithms[turn as usize % algorithms.len()], limit)
}

/// From algorithm to algorithm units are carried over whole.
fn each_unit_is_counted_once_while_values_change(case: &Case<'_, dyn InMemory>) {
    const LIMITS: [u64; 5] = [700, 300, 3_000, 0, 1_000];
    for algorithms in [&[case.algorithm][..], AlgorithmKind::ALL] {
        let subject = case.by(&ManualClock::new(), in_turn(algorithms, 0, 500));
        let key = subject.keys()[0];
        let (admitted, callers) = (AtomicU64::new(0), AtomicU64::new(4));
        together(5, |thread, rng| {
            if thread == 0 {
                for turn in 1.. {
                    subject.change(in_turn(algorithms, turn, LIMITS[turn as usize % 5]));
                    if callers.load(SeqCst) == 0 {
                        return;
                    }
                }
            }
            for _ in 0..if long() { 5_000 } else { 1_000 } {
                let cost = rng.between(1, 3);
                let is_allowed = match rng.chance(30) {
                    true => subject.check(key, cost).is_allowed(),
                    false => subject.admits(key, cost),
                };
                admitted.fetch_add(cost * u64::from(is_allowed), SeqCst);
            }
            callers.fetch_sub(1, SeqCst);
        });
        subject.change(in_turn(algorithms, 1, 3_000));
        let admitted = admitted.into_inner();
        assert!(admitted <= 3_000, "{admitted}");
        assert_eq!(subject.available(key), 3_000 - admitted, "each unit is counted once");
    }
}

fn two_rules_count_each_unit_or_none_while_both_change(case: &Case<'_, dyn Store>) {
    two_rules(case, &[case.algorithm]);
    // Across slots units of another algorithm may not come back from a slot that admitted them.
    if case.kind.is_one_step() {
        let mut algorithms = case.kind.algorithms();
        two_rules(case, &algorithms);
        algorithms.retain(|algorithm| !is_level(*algorithm));
        two_rules(case, &algorithms);
    }
}

/// A level gives back less by what has drained, and rounds the rest of a unit up under some changes.
fn is_level(algorithm: AlgorithmKind) -> bool {
    use AlgorithmKind::{LeakyBucket, TokenBucket};
    algorithm.is_queue() || matches!(algorithm, TokenBucket | LeakyBucket)
}

/// Two threads change a rule for all and a rule for each user, and six threads take and give back.
fn two_rules(case: &Case<'_, dyn Store>, algorithms: &[AlgorithmKind]) {
    const USERS: [&str; 2] = ["ada", "bob"];
    let asks = if long() { 10 * case.kind.asks() } else { case.kind.asks() / 2 };
    let most = [4 * asks, 2 * asks];
    let rules = |turn, limits: [u64; 2]| {
        let all = RuleSpec::new("all", in_turn(algorithms, turn, limits[0]));
        let each = RuleSpec::new("each", in_turn(algorithms, turn + 1, limits[1])).key(["user"]);
        let each = if case.kind.is_one_step() { each.limit_from_request() } else { each };
        if turn % 3 == 0 { vec![each, all] } else { vec![all, each] }
    };
    let gate = case.gate(rules(0, [asks, asks / 2]));
    let taken = [AtomicU64::new(0), AtomicU64::new(0)];
    let (turns, callers) = (AtomicU64::new(0), AtomicU64::new(6));
    let change = |rng: &mut Rng| {
        let turn = turns.fetch_add(1, SeqCst);
        let limits = most.map(|most| rng.pick([0, most / 4, most / 2, most]));
        match rng.below(3) {
            0 => gate.amend("all", in_turn(algorithms, turn, limits[0]).into()),
            1 => gate.amend("each", in_turn(algorithms, turn, limits[1]).into()),
            _ => gate.replace(rules(turn, limits)),
        }
        if !case.kind.has_time() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    };
    let take = |rng: &mut Rng, supplied: &RequestLimit| {
        let user = rng.below(2) as usize;
        let entries = [("user", USERS[user])];
        let cost = rng.between(1, 3);
        let plain = Descriptor::new(&entries).cost(cost);
        let descriptors = [if rng.chance(30) { plain.limit(supplied) } else { plain }];
        let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
        // In a store time passes.
        if rng.chance(20) && (case.kind.has_time() || !algorithms.iter().any(|one| is_level(*one)))
        {
            // Only units that name no time come back to another algorithm.
            let is_one = algorithms.len() == 1;
            let end = if is_one { Ending::Released } else { Ending::Kept };
            if gate.hold(&request, end).is_ok() && !is_one {
                let _ = gate.refund(&request);
            }
        } else if gate.admits(&request) {
            taken[user].fetch_add(cost, SeqCst);
        }
    };
    together(8, |thread, rng| {
        let supplied = Rule::new(in_turn(algorithms, thread, most[1] - thread)).unwrap();
        let supplied = RequestLimit::new(supplied);
        while thread < 2 && callers.load(SeqCst) > 0 {
            change(rng);
        }
        if thread >= 2 {
            (0..asks).for_each(|_| take(rng, &supplied));
            callers.fetch_sub(1, SeqCst);
        }
    });
    gate.replace(rules(1, most));
    let taken = taken.map(AtomicU64::into_inner);
    let sum: u64 = taken.iter().sum();
    assert!(sum <= most[0] && taken.iter().all(|taken| *taken <= most[1]), "{taken:?}");
    for (user, taken) in USERS.iter().zip(taken) {
        let left = seen(&*gate, &[("user", user)]);
        assert_eq!(left, [most[0] - sum, most[1] - taken], "each unit is counted once");
    }
}

/// A rule without a key next to the others has them in one slot.
fn each(name: &str, algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new(name, per_day(algorithm, limit)).key(["user"])
}

/// A request admitted while the rule was certainly in force was charged to it, and a request while it was certainly gone
/// was not. The counts match a serial order.
fn a_rule_that_comes_and_goes_counts_what_came_while_it_was_in_force(case: &Case<'_, dyn Store>) {
    const MOST: u64 = 1_000_000;
    if case.algorithm != AlgorithmKind::SlidingLog {
        return; // its count has no part that leaves during the test
    }
    let stays = || each("stays", AlgorithmKind::FixedWindow, MOST);
    let rules = |has: bool| {
        let counts = each("counts", AlgorithmKind::SlidingLog, MOST);
        if has { vec![counts, stays()] } else { vec![stays()] }
    };
    let gate = case.of_one_process(rules(false));
    // Twice the number of changes so far, plus one during a change.
    let (phase, asked, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let bounds = Mutex::new([0_u64, 0, 0]);
    let changes = if long() { 401 } else { 41_u64 };
    together(17, |thread, _| {
        if thread == 0 {
            for change in 1..=changes {
                phase.fetch_add(1, SeqCst);
                gate.replace(rules(change % 2 == 1));
                phase.fetch_add(1, SeqCst);
                // Each thread had one request under way at the change. Others are of this phase alone.
                let so_many = asked.load(SeqCst) + 50;
                while asked.load(SeqCst) < so_many {
                    std::thread::yield_now();
                }
            }
            done.store(true, SeqCst);
            return;
        }
        let [mut surely, mut perhaps, mut all] = [0, 0, 0];
        while !done.load(SeqCst) {
            let before = phase.load(SeqCst);
            let (goes_on, is_charged) = ask(&[(ADA, 1)], |request| {
                let answer = gate.check(request);
                (answer.is_allowed(), answer.matched().len() == 2)
            });
            assert!(goes_on);
            asked.fetch_add(1, SeqCst);
            let is_still = before == phase.load(SeqCst) && before.is_multiple_of(2);
            let is_there = before / 2 % 2 == 1;
            assert!(!is_still || is_charged == is_there, "one policy decides, the one of then");
            surely += u64::from(is_still && is_there);
            perhaps += u64::from(!is_still || is_there);
            all += 1;
        }
        let mut bounds = bounds.lock().unwrap();
        *bounds = [bounds[0] + surely, bounds[1] + perhaps, bounds[2] + all];
    });
    let [surely, perhaps, all] = bounds.into_inner().unwrap();
    let used: Vec<_> = seen(&*gate, ADA).into_iter().map(|left| MOST - left).collect();
    assert!((surely..=perhaps).contains(&used[0]) && surely > 0, "{used:?} {surely} {perhaps}");
    assert_eq!(used[1], all, "the rule that stays counted every request");
}

/// A limit that goes up and down every few moments during the requests.
fn a_limit_that_moves_all_the_time_admits_each_unit_once_and_refuses_nobody_for_less(
    case: &Case<'_, dyn Store>,
) {
    use AlgorithmKind::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket};
    if [SlidingLog, TokenBucket, FixedWindow, SlidingWindow].contains(&case.algorithm) {
        history(case, true);
        // In memory all gates are of one node.
        if case.of_one_process([]).keys().is_none() {
            history(case, false);
        }
    }
}

fn history(case: &Case<'_, dyn Store>, has_one_node: bool) {
    let rules = |limit: u64, step: u64| {
        let open = each("open", AlgorithmKind::FixedWindow, 10_000_000);
        let rule = each("r", case.algorithm, limit);
        if step.is_multiple_of(3) { vec![open, rule] } else { vec![rule] }
    };
    // Mostly up, but every second limit is far below what is used.
    let limit = |step: u64| if step.is_multiple_of(2) { 10 + 5 * step } else { 1 + 2 * step };
    let steps = case.kind.asks() / 2 * if long() { 10 } else { 1 };
    let (history, done) = (History::default(), AtomicBool::new(false));
    let gate: Box<dyn AnyGate + '_> = match has_one_node {
        true => case.of_one_process(rules(limit(0), 0)),
        false => case.gate(rules(limit(0), 0)),
    };
    history.change(limit(0), || ());
    // In memory more would only wait for a processor.
    let callers = if gate.keys().is_some() { 6 } else { 16 };
    together(1 + callers, |thread, rng| {
        if thread == 0 {
            for step in 1..=steps {
                history.change(limit(step), || gate.replace(rules(limit(step), step)));
                std::thread::park_timeout(Duration::from_micros(rng.below(2_000)));
            }
            done.store(true, SeqCst);
            return;
        }
        loop {
            let (was_last, begun) = (done.load(SeqCst), history.now());
            let admitted = ask(&[(ADA, 1)], |request| history.note(begun, &gate.check(request)));
            if !admitted && was_last {
                return;
            }
        }
    });
    assert_eq!(history.check(has_one_node), limit(steps), "all units of the last limit were had");
}

/// The decision on one request of one unit.
#[derive(Clone, Copy, Debug)]
struct Asked {
    begun: u64,
    ended: u64,
    is_admitted: bool,
    /// The limit that decided it.
    limit: u64,
    /// Units that were used then, its own included.
    used: u64,
}

/// One limit after another.
#[derive(Clone, Copy, Debug)]
struct Changed {
    begun: u64,
    ended: u64,
    limit: u64,
}

/// Requests and changes, each with the moments between which it took effect.
#[derive(Debug, Default)]
struct History {
    moments: AtomicU64,
    asked: Mutex<Vec<Asked>>,
    changed: Mutex<Vec<Changed>>,
}

impl History {
    fn now(&self) -> u64 {
        self.moments.fetch_add(1, SeqCst)
    }

    /// Notes the answer of a request that began at `begun`; the limiter of the rule `r` decided it.
    fn note(&self, begun: u64, answer: &Answer<'_>) -> bool {
        let ended = self.now();
        let matched = answer.matched();
        let one = matched.iter().find(|one| one.rule().name() == "r").unwrap();
        let Limit::Units(limit) = one.values().spec().limit else { panic!("unlimited") };
        let (is_admitted, used) = (answer.is_allowed(), limit - one.decision().remaining);
        self.asked.lock().unwrap().push(Asked { begun, ended, is_admitted, limit, used });
        is_admitted
    }

    /// Notes a limit that was put in force by `change`.
    fn change(&self, limit: u64, change: impl FnOnce()) {
        let begun = self.now();
        change();
        let ended = self.now();
        self.changed.lock().unwrap().push(Changed { begun, ended, limit });
    }

    /// Checks the rules of the naive model, which hold in every order that it allows: the nth unit is admitted as the
    /// nth, under a limit that holds it and was in force, and a request that is refused under a limit finds that limit
    /// used up.
    fn check(self, has_one_node: bool) -> u64 {
        let (asked, changed) =
            (self.asked.into_inner().unwrap(), self.changed.into_inner().unwrap());
        let admitted = || asked.iter().filter(|one| one.is_admitted);
        let mut used: Vec<_> = admitted().map(|one| one.used).collect();
        used.sort_unstable();
        let each_once: Vec<_> = (1..=used.len() as u64).collect();
        assert_eq!(used, each_once, "no unit is lost, and none is given twice");
        let mut begun: Vec<_> = admitted().map(|one| one.begun).collect();
        begun.sort_unstable();
        // From the beginning of its change to the end of the next.
        let mut in_force: HashMap<u64, Vec<Range<u64>>> = HashMap::new();
        let ends = changed.iter().skip(1).map(|next| next.ended).chain([u64::MAX]);
        for (change, end) in changed.iter().zip(ends) {
            in_force.entry(change.limit).or_default().push(change.begun..end);
        }
        for one in &asked {
            let mut times = in_force.get(&one.limit).into_iter().flatten();
            let then = times.any(|time| time.start < one.ended && one.begun < time.end);
            assert!(then || !has_one_node, "its limit was not in force: {one:?}");
            let at_most = begun.partition_point(|begun| *begun < one.ended) as u64;
            assert!(one.is_admitted || one.limit <= at_most, "{at_most} were used: {one:?}");
        }
        used.len() as u64
    }
}
