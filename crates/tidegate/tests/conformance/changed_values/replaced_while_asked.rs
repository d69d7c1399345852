//! Histories of threads that ask while policies are replaced one after another, over any store: no unit is lost or given
//! twice, and each request is decided by one policy, the policy of its time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use testkit::threads::{long, together};
use tidegate::{AlgorithmKind, Answer, Limit, RuleSpec};

use crate::kit::every_gate;
use crate::subjects::gates::{AnyGate, Entries, ask, seen};
use crate::subjects::{Case, Store, per_day};

every_gate! {
    a_rule_that_comes_and_goes_counts_what_came_while_it_was_in_force,
    a_limit_that_moves_all_the_time_admits_each_unit_once_and_refuses_nobody_for_less,
}

const ADA: Entries<'_> = &[("user", "ada")];

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
