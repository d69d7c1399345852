//! More keys than a rule keeps: keys with a limiter keep it, and all others share one or are refused.

use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use testkit::threads::together;
use tidegate::{AlgorithmKind, Decision, OnFull, Outcome};

use crate::kit::{every_capped_subject, every_gate_of_one_step, kit};
use crate::subjects::gates::{AnyGate, Entries, ask, seen};
use crate::subjects::{Capped, Case, Store, Subject, per_day};

every_capped_subject! {
    keys_beyond_the_cap_share_one_limiter_or_are_refused,
    the_cap_is_hard_under_a_flood_of_keys,
    a_refund_of_a_key_without_space_gives_nobody_a_credit,
    a_key_without_space_resets_nothing_of_the_others,
    a_look_at_a_full_table_is_what_a_check_is,
}

// A limiter's reservation records where it was taken. A gate gets only the request, and gives nothing back to the
// overflow limiter: `nobody_knows_who_took_what_of_the_shared_limiter_and_a_refund_says_who_has_no_space`.
kit! {
    Capped [keyed_packed keyed_sharded planned]
    what_was_reserved_from_the_shared_limiter_goes_back_to_it
}

every_gate_of_one_step! {
    a_gate_reports_which_keys_have_no_space_and_their_decisions,
    nobody_knows_who_took_what_of_the_shared_limiter_and_a_refund_says_who_has_no_space,
}

impl<'k> Case<'k, dyn Capped> {
    fn capped(&self, limit: u64, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + 'k> {
        self.kind.capped(per_day(self.algorithm, limit), max_keys, on_full)
    }
}

fn keys_beyond_the_cap_share_one_limiter_or_are_refused(case: &Case<'_, dyn Capped>) {
    for (on_full, shared) in [(OnFull::Share, 3), (OnFull::Refuse, 0)] {
        let subject = case.capped(3, 20, on_full);
        (0..20).for_each(|key| assert!(subject.admits(&key.to_string(), 1)));
        let beyond = AtomicU64::new(0);
        together(8, |thread, _| {
            for number in 0..5 {
                let admitted = subject.admits(&format!("{thread}/{number}"), 1);
                beyond.fetch_add(u64::from(admitted), Relaxed);
            }
        });
        assert_eq!(beyond.into_inner(), shared, "{on_full:?}");
        for key in 0..20 {
            assert_eq!(subject.available(&key.to_string()), 2, "a key with a limiter keeps it");
        }
    }
}

fn the_cap_is_hard_under_a_flood_of_keys(case: &Case<'_, dyn Capped>) {
    let cap = case.kind.asks() * 2;
    // Keys without room share one unit.
    for (on_full, more) in [(OnFull::Share, 1), (OnFull::Refuse, 0)] {
        let subject = case.capped(1, cap as usize, on_full);
        let admitted = AtomicU64::new(0);
        together(8, |thread, _| {
            for number in 0..case.kind.asks() {
                let one = subject.admits(&format!("{thread}/{number}"), 1);
                admitted.fetch_add(u64::from(one), Relaxed);
                assert!(subject.key_count().is_none_or(|keys| keys <= cap as usize));
            }
        });
        assert!(subject.key_count().is_none_or(|keys| keys == cap as usize), "{on_full:?}");
        assert_eq!(admitted.into_inner(), cap + more, "{on_full:?}: each place was one key's");
    }
}

/// A key that took nothing there, or long ago, would give the others more than the limit.
fn a_refund_of_a_key_without_space_gives_nobody_a_credit(case: &Case<'_, dyn Capped>) {
    let subject = case.capped(5, 1, OnFull::Share);
    assert!(subject.admits("first", 1) && subject.admits("second", 4));
    for key in ["never came", "second"] {
        let _ = subject.refund(key, 3);
        assert_eq!(subject.available("second"), 1, "{key}");
    }
    assert_eq!(subject.refund("first", 1).remaining, 5, "a key with a limiter gets its units back");
}

fn a_key_without_space_resets_nothing_of_the_others(case: &Case<'_, dyn Capped>) {
    let subject = case.capped(5, 1, OnFull::Share);
    assert!(["first", "second", "third"].iter().all(|key| subject.admits(key, 2)));
    subject.reset("second");
    assert_eq!((subject.available("second"), subject.available("first")), (1, 3));
}

/// This holds even if the key has found room since.
fn what_was_reserved_from_the_shared_limiter_goes_back_to_it(case: &Case<'_, dyn Capped>) {
    let subject = case.capped(10, 1, OnFull::Share);
    assert!(subject.admits("first", 1));
    let one = subject.reserve("second", 6).ok().unwrap();
    let two = subject.reserve("third", 4).ok().unwrap();
    assert!(subject.reserve("fourth", 1).is_err());
    if case.algorithm == AlgorithmKind::LeakyQueue {
        assert_eq!(
            two(1).0.remaining,
            3,
            "it gives back its last slots, even if others have the earlier slots"
        );
        return;
    }
    assert_eq!(one(4).0.remaining, 6 - case.kept(4), "{}", case.algorithm);
    if case.algorithm.holds_permits() {
        return; // an idle limiter stays until its last token is in the past, and no time passes here
    }
    let _ = subject.refund("first", 1);
    assert!(subject.admits("third", 5), "it has a limiter of its own now");
    assert_eq!(two(1).0.remaining, 5, "the shared one");
    assert_eq!((subject.available("third"), subject.available("fourth")), (5, 5));
}

/// Yes, no or never, without the values that a charge and the time change.
fn verdict(decision: &Decision) -> Discriminant<Outcome> {
    discriminant(&decision.outcome)
}

fn a_look_at_a_full_table_is_what_a_check_is(case: &Case<'_, dyn Capped>) {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let subject = case.capped(5, 1, on_full);
        assert!(subject.admits("first", 1));
        for key in ["second", "first", "third", "second", "first"] {
            for cost in [0, 2, 6, 1] {
                let looked = subject.peek(key, cost);
                let again = subject.peek(key, cost);
                assert_eq!(verdict(&looked), verdict(&again), "a look changes nothing");
                let found = subject.check(key, cost);
                assert_eq!(verdict(&looked), verdict(&found), "{on_full:?}: {key} for {cost}");
            }
        }
    }
}

const FIRST: Entries<'_> = &[("user", "a"), ("ip", "1")];
const BEYOND: Entries<'_> = &[("user", "b"), ("ip", "2")];

/// A gate with room for one key in each of two rules.
fn narrow<'k>(case: &Case<'k, dyn Store>, on_full: OnFull) -> Box<dyn AnyGate + 'k> {
    let rule = |name: &str| case.rule(name, 5).key([name]).max_keys(1, on_full);
    case.gate([rule("user"), rule("ip")])
}

/// One limiter or two: keys with room, keys without, and one of each.
fn a_gate_reports_which_keys_have_no_space_and_their_decisions(case: &Case<'_, dyn Store>) {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let gate = narrow(case, on_full);
        assert!(ask(&[(FIRST, 1)], |request| gate.admits(request)));
        let mixed = [FIRST[0], BEYOND[1]];
        let requests: [Entries<'_>; 7] =
            [BEYOND, FIRST, &mixed, &BEYOND[..1], &FIRST[..1], &BEYOND[1..], &mixed];
        for entries in requests {
            for cost in [0, 2, 6, 1] {
                let looked = ask(&[(entries, cost)], |request| gate.peek(request));
                let found = ask(&[(entries, cost)], |request| gate.check(request));
                let what = format!("{on_full:?}: {entries:?} for {cost}");
                assert_eq!(looked.is_allowed(), found.is_allowed(), "{what}");
                let both = [looked, found].map(|answer| {
                    let of = |m: tidegate::Matched<'_>| (verdict(m.decision()), m.is_overflow());
                    answer.matched().into_iter().map(of).collect::<Vec<_>>()
                });
                assert_eq!(both[0], both[1], "{what}");
                let overflow: Vec<_> = both[1].iter().map(|(_, overflow)| *overflow).collect();
                let expected: Vec<_> = entries.iter().map(|one| !FIRST.contains(one)).collect();
                assert_eq!(overflow, expected, "{what}");
            }
        }
    }
}

fn nobody_knows_who_took_what_of_the_shared_limiter_and_a_refund_says_who_has_no_space(
    case: &Case<'_, dyn Store>,
) {
    let gate = narrow(case, OnFull::Share);
    assert!(ask(&[(FIRST, 1)], |request| gate.admits(request)));
    assert!(ask(&[(BEYOND, 4)], |request| gate.admits(request)));
    let strangers: Entries<'_> = &[("user", "never came"), ("ip", "neither")];
    for entries in [strangers, &strangers[..1], BEYOND, &BEYOND[1..]] {
        let refunded = ask(&[(entries, 3)], |request| {
            let answer = gate.refund(request);
            (answer.is_overflow(), answer.is_allowed())
        });
        assert_eq!(refunded, (true, true));
        assert_eq!(seen(gate.as_ref(), BEYOND), [1, 1]);
    }
    let full = narrow(case, OnFull::Refuse);
    assert!(ask(&[(FIRST, 1)], |request| full.admits(request)));
    assert!(ask(&[(BEYOND, 3)], |request| full.refund(request).is_allowed()));
    assert!(!ask(&[(FIRST, 1)], |request| gate.refund(request).is_overflow()));
    assert_eq!(seen(gate.as_ref(), FIRST), [5, 5], "a key with a limiter gets its units back");
}
