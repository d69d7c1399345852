//! Costs that are held until it is known whether they count.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use testkit::threads::together;
use tidegate::{ManualClock, Mode, OnFull, Request, Taken};

use crate::kit::{every_gate, every_gate_of_one_step};
use crate::packed::long;
use crate::subjects::gates::{Ending, ask, left, seen};
use crate::subjects::{Case, DAY, Store};

every_gate! {
    a_charge_is_kept_unless_it_is_released,
    a_charge_of_cost_0_holds_nothing_and_is_settled_for_what_it_did_cost,
    a_refusal_holds_nothing_and_reports_when_to_retry,
    eight_callers_keep_no_more_than_the_limit,
}

every_gate! {
    [Concurrency] => eight_callers_never_have_more_out_than_the_limit_and_tokens_grow
}

every_gate_of_one_step! {
    what_was_not_taken_is_not_given_back,
    what_was_repeated_gives_nothing_back,
}

const ADA: &[(&str, &str)] = &[("user", "ada")];

/// Holds a cost of two limiters of ten units, and ends it in each way.
fn ended(case: &Case<'_, dyn Store>, cost: u64, endings: &[(Ending, u64)]) {
    for (ending, remaining) in endings {
        let gate = case.gate([case.rule("all", 10), case.rule("user", 10).key(["user"])]);
        ask(&[(ADA, cost)], |request| {
            let answer = gate.hold(request, *ending).unwrap();
            assert_eq!(left(&answer), [10 - cost; 2], "taken before the work begins");
        });
        assert_eq!(seen(gate.as_ref(), ADA), [*remaining; 2], "{ending:?}");
    }
}

fn a_charge_is_kept_unless_it_is_released(case: &Case<'_, dyn Store>) {
    let endings = [
        (Ending::Dropped, 6),
        (Ending::Kept, 6),
        (Ending::Released, 10),
        (Ending::Settled(1), 10 - case.kept(1)),
        (Ending::Settled(13), 10_u64.saturating_sub(case.kept(13))),
    ];
    ended(case, 4, &endings);
}

/// It gives nothing back, and ends no reservation of another caller.
fn a_charge_of_cost_0_holds_nothing_and_is_settled_for_what_it_did_cost(
    case: &Case<'_, dyn Store>,
) {
    let endings = [
        (Ending::Dropped, 10),
        (Ending::Kept, 10),
        (Ending::Released, 10),
        (Ending::Settled(0), 10),
        (Ending::Settled(7), 10 - case.kept(7)),
        (Ending::Settled(30), 10_u64.saturating_sub(case.kept(30))),
    ];
    ended(case, 0, &endings);
    let gate = case.gate([case.rule("all", 10)]);
    ask(&[(ADA, 4)], |request| {
        let nothing = || {
            ask(&[(ADA, 0)], |request| assert!(gate.hold(request, Ending::Released).is_ok()));
        };
        assert!(gate.hold_while(request, &nothing, Ending::Settled(1)).is_ok());
    });
    assert_eq!(seen(gate.as_ref(), ADA), [10 - case.kept(1)]);
}

fn a_refusal_holds_nothing_and_reports_when_to_retry(case: &Case<'_, dyn Store>) {
    let gate = case.gate([case.rule("all", 3)]);
    ask(&[(&[], 3)], |request| {
        assert!(gate.hold(request, Ending::Kept).is_ok());
        let refused = gate.hold(request, Ending::Released).unwrap_err();
        assert!(refused.retry_after().is_some_and(|wait| wait > Duration::ZERO));
    });
    assert_eq!(seen(gate.as_ref(), &[]), [0]);
}

fn what_was_repeated_gives_nothing_back(case: &Case<'_, dyn Store>) {
    let gate = case.of_one_process([case.rule("all", 5).dedupe(DAY)]);
    ask(&[(&[], 2)], |request| {
        let request = request.with_id("once").unwrap();
        assert!(!gate.hold(&request, Ending::Kept).unwrap().is_repeated());
        assert!(gate.hold(&request, Ending::Released).unwrap().is_repeated());
    });
    assert_eq!(seen(gate.as_ref(), &[]), [3]);
}

/// The limit holds for kept costs, with any number of costs held and released at the same time.
fn eight_callers_keep_no_more_than_the_limit(case: &Case<'_, dyn Store>) {
    let limit = case.kind.asks();
    let gate = case.gate([case.rule("all", limit)]);
    let kept = AtomicU64::new(0);
    together(8, |_, rng| {
        for _ in 0..case.kind.asks() / 2 {
            let keeps = rng.chance(90);
            let ending = if keeps { Ending::Kept } else { Ending::Released };
            let holds = ask(&[(&[], 1)], |request| gate.hold(request, ending).is_ok());
            kept.fetch_add(u64::from(holds && keeps), Relaxed);
        }
    });
    let kept = kept.into_inner();
    assert!(kept <= limit, "{kept}");
    let left = seen(gate.as_ref(), &[]);
    if case.algorithm.is_queue() {
        // Only its last slot comes back.
        assert!(left[0] <= limit - kept, "{left:?}");
    } else {
        assert_eq!(left, [limit - kept]);
    }
}

fn eight_callers_never_have_more_out_than_the_limit_and_tokens_grow(case: &Case<'_, dyn Store>) {
    let clock = ManualClock::new();
    let gate = case.kind.gate_by(&clock, vec![case.rule("jobs", 3).key(["user"])]);
    let asks = case.kind.asks() * if long() { 50 } else { 1 };
    let (out, most, tokens) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
    together(8, |_, rng| {
        let mut given = Vec::new();
        for _ in 0..asks {
            ask(&[(ADA, 1)], |request| {
                let answer = gate.check(request);
                if answer.is_allowed() {
                    most.fetch_max(out.fetch_add(1, SeqCst) + 1, SeqCst);
                    let taken = Taken::from(&answer);
                    given.extend(taken.tokens());
                    assert!(rng.chance(50) || gate.renew(request, &taken));
                    clock.advance(Duration::from_micros(rng.below(3)));
                    out.fetch_sub(1, SeqCst);
                    _ = gate.settle(request, Some(&taken), 1);
                    assert!(!gate.renew(request, &taken), "it was returned");
                }
            });
        }
        assert!(given.is_sorted_by(|one, next| one < next), "each sees them grow");
        tokens.lock().unwrap().extend(given);
    });
    assert!((1..=3).contains(&most.into_inner()));
    assert_eq!(seen(gate.as_ref(), ADA), [3], "all were returned");
    let mut tokens = tokens.into_inner().unwrap();
    let taken = tokens.len();
    assert!(taken > 0, "a permit has a token");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), taken, "no token was given twice");
}

fn what_was_not_taken_is_not_given_back(case: &Case<'_, dyn Store>) {
    let gate = case.gate([
        case.rule("trial", 3).mode(Mode::Shadow),
        case.rule("full", 9).key(["user"]).max_keys(1, OnFull::Share),
        case.rule("live", 9),
    ]);
    assert!(ask(&[(ADA, 2)], |request| gate.admits(request)));
    let bob: &[(&str, &str)] = &[("user", "bob")];
    ask(&[(bob, 2)], |request| assert!(gate.hold(request, Ending::Released).is_ok()));
    let answer =
        "the trial would have refused, bob has no limiter of his own, the live one has it back";
    assert_eq!(seen(gate.as_ref(), bob), [1, 7, 7], "{answer}");
    assert!(gate.hold(&Request::new("none", &[]), Ending::Released).is_ok());
}
