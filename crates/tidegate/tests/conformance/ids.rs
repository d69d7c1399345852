//! Requests that are repeated under their id.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use testkit::threads::together;

use crate::kit::every_gate_of_one_step;
use crate::subjects::gates::{Entries, ask, seen};
use crate::subjects::{Case, DAY, Store};

every_gate_of_one_step! {
    a_peek_returns_what_is_remembered_and_a_reset_forgets_units_only,
    available_ignores_what_an_id_remembers,
    checks_under_the_id_of_a_reservation_are_not_free,
    of_many_that_ask_at_once_under_one_id_one_takes,
}

const ADA: Entries<'_> = &[("user", "ada")];

fn a_peek_returns_what_is_remembered_and_a_reset_forgets_units_only(case: &Case<'_, dyn Store>) {
    let gate = case.gate([case.rule("r", 2).key(["user"]).dedupe(DAY)]);
    ask(&[(ADA, 1)], |plain| {
        let request = plain.with_id("a").unwrap();
        assert!(!gate.peek(&request).is_repeated());
        let first = gate.check(&request);
        assert!(gate.check(plain).is_allowed() && !gate.peek(plain).is_allowed());
        let looked = gate.peek(&request);
        assert!(looked.is_allowed() && looked.is_repeated());
        assert_eq!(looked.matched()[0].decision(), first.matched()[0].decision());
        assert_eq!(gate.reset(plain), 1);
        assert!(gate.check(&request).is_repeated());
    });
    assert_eq!(seen(gate.as_ref(), ADA), [2]);
}

fn available_ignores_what_an_id_remembers(case: &Case<'_, dyn Store>) {
    let gate = case.gate([case.rule("r", 10).key(["user"]).dedupe(DAY)]);
    ask(&[(ADA, 1)], |plain| {
        let first = plain.with_id("a").unwrap();
        assert!(gate.check(&first).is_allowed());
        assert_eq!(gate.available(plain), 9);
        assert_eq!((0..20).filter(|_| gate.check(plain).is_allowed()).count(), 9);
        assert_eq!(gate.peek(&first).matched()[0].decision().remaining, 9, "the first answer");
        assert_eq!(gate.available(plain), 0);
    });
}

/// A reservation was settled for nothing, and then every check under its id was a repetition that took nothing.
fn checks_under_the_id_of_a_reservation_are_not_free(case: &Case<'_, dyn Store>) {
    let gate = case.gate([case.rule("r", 3).key(["user"]).dedupe(DAY)]);
    ask(&[(ADA, 2)], |plain| {
        let checked = plain.with_id("a").unwrap();
        let reserved = checked.reserving();
        assert!(gate.check(&reserved).is_allowed());
        assert!(gate.check(&reserved).is_repeated(), "asked again, it is the same");
        assert!(!gate.peek(&checked).is_repeated());
        let first = gate.check(&checked);
        assert!(!first.is_allowed() && !first.is_repeated());
    });
    assert_eq!(seen(gate.as_ref(), ADA), [1]);
}

fn of_many_that_ask_at_once_under_one_id_one_takes(case: &Case<'_, dyn Store>) {
    let gate = case.gate([case.rule("r", 100).key(["user"]).dedupe(DAY)]);
    let repeated = AtomicU64::new(0);
    for round in 0..10 {
        let id = format!("round {round}");
        together(4, |_, _| {
            let answer = ask(&[(ADA, 1)], |plain| gate.check(&plain.with_id(&id).unwrap()));
            assert!(answer.is_allowed());
            repeated.fetch_add(u64::from(answer.is_repeated()), Relaxed);
        });
    }
    assert_eq!((repeated.into_inner(), seen(gate.as_ref(), ADA)), (30, vec![90]));
}
