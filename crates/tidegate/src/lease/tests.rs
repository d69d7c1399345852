//! Single steps of the book of leases.

#[cfg(feature = "redis")]
mod levels;
mod shares;

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Micros, Rule, Spec, Timestamp};

use super::{Book, BookAsk, Choice, Grant, Granted, LeaseCounts, Leased, Terms};
use crate::store::{LimiterReport, Unspent, Wanted};

const LIFE: Micros = Micros::from_millis(200);
const LONGEST: Micros = Micros::from_millis(1_000);
/// The store's clock when leases are taken, and by how much a second is longer than the life.
const TAKEN: Timestamp = Timestamp::from_micros(7_000_000);
const EARLIER: Micros = Micros::from_millis(800);

/// Of 1,000 units a second, at most 100 for 200 ms.
fn terms() -> Terms {
    Terms::of(&Rule::new(Spec::per_second(1_000)).unwrap(), 100, LIFE, LONGEST).unwrap()
}

fn reported(book: &mut Book<u32>, ms: u64, key: u32, remaining: u64) {
    let report = LimiterReport { remaining, at: TAKEN, idle_at: TAKEN.plus(LIFE) };
    book.reported(at(ms), &key, report);
}

fn at(ms: u64) -> Micros {
    Micros::from_millis(1_000_000 + ms)
}

fn ask(key: &u32, cost: u64) -> BookAsk<'_, u32> {
    BookAsk { key, terms: Some(terms()), cost }
}

fn ask_times(book: &mut Book<u32>, ms: u64, cost: u64, times: usize) {
    for _ in 0..times {
        assert_eq!(book.decide(at(ms), &[ask(&7, cost)]), Choice::Store(vec![]));
    }
}

/// A book that has asked for a lease of 12 units at 0 ms.
fn asked() -> (Book<u32>, Wanted) {
    let mut book = Book::new(2);
    ask_times(&mut book, 0, 4, 3);
    reported(&mut book, 0, 7, 500);
    let wanted = book.wants(at(0), &7, 1).unwrap();
    assert_eq!(wanted.units, 12);
    (book, wanted)
}

/// A book with a lease of 12 units, asked for at 0 ms, that lasts 200 ms less 0.2 ms.
fn leased() -> (Book<u32>, u64) {
    let (mut book, Wanted { ticket, .. }) = asked();
    assert_eq!(book.granted(at(10), &7, &grant(ticket)), held());
    (book, ticket)
}

fn grant(ticket: u64) -> Grant {
    Grant { ticket, since: TAKEN, end: TAKEN.plus(LIFE) }
}

/// It was asked for at 0 ms, and is due after three quarters of its life.
fn held() -> Granted {
    let at = |us| at(0).plus(Micros::from_micros(us));
    Granted::Held { due: at(149_850), ends: at(199_800) }
}

/// The unspent units of a lease of 12 units.
const fn unspent(ticket: u64, units: u64) -> Unspent<u32> {
    Unspent { key: 7, ticket, units, kept: 12 - units, earlier: EARLIER }
}

fn leased_by(choice: Choice) -> Vec<Leased> {
    match choice {
        Choice::Here(leased) | Choice::Store(leased) => leased,
    }
}

#[test]
fn a_lease_is_asked_for_when_three_requests_come_in_one_life() {
    let mut book = Book::new(2);
    reported(&mut book, 0, 7, 500);
    ask_times(&mut book, 0, 1, 2);
    reported(&mut book, 0, 7, 500);
    assert_eq!(book.wants(at(0), &7, 1), None);
    ask_times(&mut book, 700, 1, 2);
    assert_eq!(book.wants(at(700), &7, 1), None, "requests of an earlier life do not count");
    ask_times(&mut book, 710, 1, 1);
    assert_eq!(book.wants(at(710), &7, 1).map(|wanted| wanted.units), Some(3));
    assert_eq!(book.wants(at(710), &7, 1), None, "one is on its way");
}

#[test]
fn a_lease_is_as_large_as_the_demand_the_terms_and_half_of_a_nodes_part_allow() {
    for (cost, remaining, nodes, units) in [
        (10, 900, 1, Some(30)),
        (60, 900, 1, Some(100)),
        (10, 40, 1, Some(20)),
        (10, 40, 4, Some(5)),
        (10, 3, 1, None),
        (10, 9, 4, None),
    ] {
        let mut book = Book::new(2);
        ask_times(&mut book, 0, cost, 3);
        reported(&mut book, 0, 7, remaining);
        assert_eq!(book.wants(at(0), &7, nodes).map(|wanted| wanted.units), units);
    }
}

#[test]
fn a_report_from_before_the_last_is_dropped_unless_the_clock_of_the_store_was_set() {
    for (earlier_ms, remaining, left) in
        [(0, 490, 490), (0, 510, 500), (1, 490, 500), (999, 510, 500), (1_000, 510, 510)]
    {
        let mut book = Book::new(2);
        ask_times(&mut book, 0, 1, 1);
        reported(&mut book, 0, 7, 500);
        let at_store = TAKEN.minus(Micros::from_millis(earlier_ms));
        book.reported(at(1), &7, LimiterReport { remaining, at: at_store, idle_at: TAKEN });
        let left_here = book.standing(at(1), &7).map(|standing| standing.remaining);
        assert_eq!(
            left_here,
            Some(left),
            "{remaining} left, {earlier_ms} ms before the last report"
        );
    }
}

#[test]
fn leased_units_are_spent_here_and_the_rest_is_the_stores() {
    let (mut book, ticket) = leased();
    let stands = LimiterReport {
        remaining: 512,
        at: TAKEN.plus(Micros::from_millis(10)),
        idle_at: TAKEN.plus(LIFE),
    };
    assert_eq!(book.standing(at(10), &7), Some(stands));
    let choice = book.decide(at(20), &[ask(&7, 9)]);
    assert!(matches!(&choice, Choice::Here(spent) if spent[0].units_of() == (ticket, 9)));
    assert_eq!(book.decide(at(20), &[ask(&7, 4)]), Choice::Store(vec![]), "3 are left");
    assert!(matches!(book.decide(at(20), &[ask(&7, 3)]), Choice::Here(_)));
    assert_eq!(book.held(at(20), &7), 0);
    assert_eq!(book.counts(), LeaseCounts { taken: 12, spent: 12, unspent: 0 });
}

#[test]
fn a_cost_of_nothing_and_a_rule_without_leases_are_the_stores() {
    let (mut book, _) = leased();
    assert_eq!(book.decide(at(20), &[ask(&7, 0)]), Choice::Store(vec![]));
    let without = BookAsk { terms: None, ..ask(&7, 1) };
    assert_eq!(book.decide(at(20), &[without]), Choice::Store(vec![]));
    assert_eq!(book.decide(at(20), &[]), Choice::Store(vec![]));
}

#[test]
fn a_life_counts_from_the_question_and_less_what_clocks_may_drift() {
    for (us, held) in [(199_799, 12), (199_800, 0)] {
        let (book, _) = leased();
        assert_eq!(book.held(at(0).plus(Micros::from_micros(us)), &7), held);
    }
    let (mut book, Wanted { ticket, .. }) = asked();
    assert_eq!(book.granted(at(200), &7, &grant(ticket)), Granted::Ended);
    assert_eq!(book.held(at(200), &7), 0);
}

#[test]
fn a_reply_is_taken_once_and_none_that_was_given_up() {
    let (mut book, ticket) = leased();
    assert_eq!(book.granted(at(11), &7, &grant(ticket)), Granted::NotAsked);
    assert_eq!(book.held(at(11), &7), 12);
    let (mut book, Wanted { ticket, .. }) = asked();
    book.not_granted(at(30), &7, ticket);
    assert_eq!(book.granted(at(31), &7, &grant(ticket)), Granted::NotAsked);
    assert_eq!(book.held(at(31), &7), 0);
}

#[test]
fn after_a_refusal_no_lease_is_asked_for_during_one_life() {
    let (mut book, Wanted { ticket, .. }) = asked();
    book.not_granted(at(10), &7, ticket);
    for (ms, asks) in [(209, false), (210, true)] {
        ask_times(&mut book, ms, 1, 3);
        assert_eq!(book.wants(at(ms), &7, 1).is_some(), asks, "at {ms} ms");
    }
}

#[test]
fn the_next_lease_is_asked_for_when_half_is_spent_and_spent_after_the_first() {
    let (mut book, first) = leased();
    let _ = book.decide(at(20), &[ask(&7, 5)]);
    assert_eq!(book.wants(at(20), &7, 1), None);
    let _ = book.decide(at(20), &[ask(&7, 1)]);
    let Wanted { ticket, units, .. } = book.wants(at(20), &7, 1).unwrap();
    let [due, ends] = [149_850, 199_800].map(|us| at(20).plus(Micros::from_micros(us)));
    let later = TAKEN.plus(Micros::from_millis(20));
    let grant = Grant { ticket, since: later, end: later.plus(LIFE) };
    assert_eq!(book.granted(at(30), &7, &grant), Granted::Held { due, ends });
    assert_eq!(book.wants(at(30), &7, 1), None, "two are held");
    let parts = leased_by(book.decide(at(30), &[ask(&7, 8)]));
    assert_eq!([parts[0].units_of(), parts[1].units_of()], [(first, 6), (ticket, 2)]);
    assert_eq!(Leased::oldest(&parts, 0), Some(TAKEN), "all count as taken with the oldest");
    assert_eq!(book.held(at(30), &7), units - 2);
}

#[test]
fn what_is_unspent_when_a_lease_is_due_is_given_back_once() {
    let (mut book, ticket) = leased();
    let _ = book.decide(at(20), &[ask(&7, 2)]);
    assert_eq!(book.close(&7, ticket), Some(unspent(ticket, 10)));
    assert_eq!((book.close(&7, ticket), book.held(at(150), &7)), (None, 0));
    assert_eq!(book.counts(), LeaseCounts { taken: 12, spent: 2, unspent: 10 });
}

#[test]
fn a_lease_that_ended_before_anybody_looked_is_given_back_and_not_spent() {
    let (mut book, ticket) = leased();
    assert_eq!(book.decide(at(200), &[ask(&7, 1)]), Choice::Store(vec![]));
    assert_eq!(book.close(&7, ticket), Some(unspent(ticket, 12)));
    assert_eq!(book.counts(), LeaseCounts { taken: 12, spent: 0, unspent: 12 });
}

#[test]
fn units_that_drain_are_given_back_as_taken_earlier_if_others_live_longer() {
    let rule = |algorithm| Rule::new(Spec::per_second(1_000).algorithm(algorithm)).unwrap();
    let of = |algorithm| Terms::of(&rule(algorithm), 100, LIFE, LONGEST).unwrap();
    let (bucket, window) = (of(AlgorithmKind::TokenBucket), of(AlgorithmKind::FixedWindow));
    assert_eq!([bucket.counts_earlier(), window.counts_earlier()], [EARLIER, Micros::ZERO]);
    let earliest = TAKEN.minus(LONGEST);
    assert_eq!([bucket, window].map(|terms| TAKEN.minus(terms.exact_earlier())), [earliest, TAKEN]);
}

#[test]
fn newer_terms_end_the_leases_of_older_ones_which_go_back_and_older_ones_get_none() {
    let of_version = |version| BookAsk { terms: Some(terms().of_version(version)), ..ask(&7, 1) };
    let (mut book, ticket) = leased();
    assert!(matches!(book.decide(at(20), &[ask(&7, 1)]), Choice::Here(_)));
    assert_eq!(book.decide(at(21), &[of_version(1)]), Choice::Store(vec![]));
    assert_eq!(book.decide(at(22), &[ask(&7, 1)]), Choice::Store(vec![]));
    assert_eq!(book.held(at(30), &7), 0);
    assert_eq!(book.close(&7, ticket), Some(unspent(ticket, 11)));
    assert_eq!(book.counts(), LeaseCounts { taken: 12, spent: 1, unspent: 11 });
}

/// A request of 7 with these units, and of 8, which has no lease.
fn asks(cost: u64) -> [BookAsk<'static, u32>; 2] {
    [ask(&7, cost), ask(&8, 1)]
}

#[test]
fn what_a_refused_request_held_can_be_spent_again() {
    for cost in [2, 12] {
        let (mut book, ticket) = leased();
        let held = leased_by(book.decide(at(20), &asks(cost)));
        assert_eq!((held.len(), book.held(at(20), &7)), (1, 12 - cost));
        assert_eq!(book.release(&asks(cost), &held), vec![]);
        assert_eq!((book.held(at(30), &7), book.counts().spent), (12, 0));
        assert_eq!(book.close(&7, ticket), Some(unspent(ticket, 12)));
    }
}

#[test]
fn refusals_eat_no_lease_that_is_due_while_the_store_decides() {
    for cost in [2, 12] {
        let (mut book, ticket) = leased();
        let held = leased_by(book.decide(at(20), &asks(cost)));
        assert_eq!(book.close(&7, ticket), None, "the giving back waits");
        assert_eq!(book.held(at(150), &7), 0, "and nothing is spent until then");
        assert_eq!(book.release(&asks(cost), &held), vec![unspent(ticket, 12)], "it is one");
        assert_eq!(book.close(&7, ticket), None, "once");
        assert_eq!(book.counts(), LeaseCounts { taken: 12, spent: 0, unspent: 12 });
    }
}

#[test]
fn the_last_of_the_requests_that_hold_units_of_a_closed_lease_takes_it_out() {
    let (mut book, ticket) = leased();
    let first = leased_by(book.decide(at(20), &asks(2)));
    let second = leased_by(book.decide(at(21), &asks(3)));
    assert_eq!(book.close(&7, ticket), None);
    assert_eq!(book.commit(&asks(2), &first), vec![]);
    assert_eq!(book.release(&asks(3), &second), vec![unspent(ticket, 10)]);
    assert_eq!(book.counts(), LeaseCounts { taken: 12, spent: 2, unspent: 10 });
}

#[test]
fn a_lease_of_which_all_is_spent_leaves_nothing_and_ends() {
    let (mut book, ticket) = leased();
    let held = leased_by(book.decide(at(20), &asks(12)));
    assert_eq!(book.commit(&asks(12), &held), vec![]);
    let rest = book.close(&7, ticket).unwrap();
    assert_eq!((rest.ticket, rest.units), (ticket, 0));
    book.finished(at(150), &7, ticket);
    assert_eq!(book.close(&7, ticket), None);
}

#[test]
fn leases_that_are_closed_are_given_back_with_what_requests_held_of_them() {
    let (mut book, ticket) = leased();
    let held = leased_by(book.decide(at(20), &asks(2)));
    assert_eq!(book.close_those(|key| *key == 8), vec![]);
    assert_eq!(book.held(at(20), &7), 10, "another limiter loses nothing");
    assert_eq!(book.close_those(|key| *key == 7), vec![]);
    assert_eq!(book.held(at(20), &7), 0);
    ask_times(&mut book, 21, 1, 1);
    assert_eq!(book.release(&asks(2), &held), vec![unspent(ticket, 12)]);

    let (mut book, Wanted { ticket, .. }) = asked();
    assert_eq!(book.close_those(|_| true), vec![]);
    assert_eq!(book.granted(at(10), &7, &grant(ticket)), Granted::NotAsked);
}

#[test]
fn the_record_keeps_tickets_until_everything_of_their_lease_is_back() {
    let (mut book, first) = leased();
    let _ = book.decide(at(20), &[ask(&7, 6)]);
    let second = book.wants(at(20), &7, 1).unwrap();
    assert_eq!(second.oldest, first);
    assert!(book.close(&7, first).is_some());
    book.not_granted(at(21), &7, second.ticket);
    ask_times(&mut book, 300, 1, 3);
    assert_eq!(
        book.wants(at(300), &7, 1).map(|third| third.oldest),
        Some(first),
        "on its way back"
    );
    book.finished(at(301), &7, first);
    ask_times(&mut book, 600, 1, 3);
    book.not_granted(at(301), &7, 3);
    ask_times(&mut book, 900, 1, 3);
    let fourth = book.wants(at(900), &7, 1).map(|fourth| fourth.oldest);
    assert_eq!(fourth, Some(second.ticket), "it may have been granted");
}

#[test]
fn limiters_beyond_the_cap_are_the_stores_until_others_are_idle() {
    let (mut book, ticket) = leased();
    let _ = book.decide(at(0), &[ask(&8, 1)]);
    for ms in [1, 900] {
        for _ in 0..3 {
            let _ = book.decide(at(ms), &[ask(&9, 1)]);
        }
        reported(&mut book, ms, 9, 500);
        let _ = if ms == 1 { book.close(&7, ticket) } else { None };
        book.finished(at(ms), &7, ticket);
        assert_eq!(book.wants(at(ms), &9, 1).is_some(), ms == 900, "at {ms} ms");
    }
}

#[test]
fn only_rules_whose_units_count_alike_for_a_while_have_leases() {
    let second = Duration::from_secs(1);
    let life = Micros::from_millis(200);
    let of = |spec| {
        let terms = Terms::of(&Rule::new(spec).unwrap(), 100, life, LONGEST);
        terms.map(|terms| (terms.most(), terms.life()))
    };
    let spec = |algorithm| Spec::new(algorithm, 1_000, second);
    assert_eq!(of(spec(AlgorithmKind::FixedWindow)), Some((100, life)));
    assert_eq!(of(spec(AlgorithmKind::SlidingWindow)), Some((100, Micros::from_millis(100))));
    assert_eq!(of(spec(AlgorithmKind::SlidingCounter)), Some((100, life)));
    assert_eq!(of(spec(AlgorithmKind::TokenBucket)), Some((100, life)));
    assert_eq!(of(spec(AlgorithmKind::LeakyBucket).burst(250)), Some((50, life)));
    assert_eq!(of(spec(AlgorithmKind::LeakyBucket).burst(200)), None);
    assert_eq!(of(spec(AlgorithmKind::SlidingLog)), None);
    let mut log = spec(AlgorithmKind::SlidingLog);
    log.resolution = Some(Duration::from_millis(20));
    assert_eq!(of(log), Some((100, Micros::from_millis(20))));
    assert_eq!(of(spec(AlgorithmKind::LeakyQueue)), None);
    assert_eq!(of(Spec::new(AlgorithmKind::FixedWindow, 0, second)), None);
    assert_eq!(of(Spec::unlimited(AlgorithmKind::FixedWindow)), None);
}
