//! Single steps of shares: their size, their renewal, and the units that a joining node gets of them.

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Micros, Rule, Spec};

use super::{TAKEN, at};
use crate::lease::{Book, BookAsk, Choice, Grant, Granted, Terms};
use crate::store::{LimiterReport, Unspent, Wanted};

const LIFE: Micros = Micros::from_millis(2_000);
const LONGEST: Micros = Micros::from_millis(1_000);

fn share_of(spec: Spec) -> Option<Terms> {
    Terms::of_share(&Rule::new(spec).unwrap(), LIFE, LONGEST)
}

/// A window of 100,000 units, long enough that no share ends with it, among the nodes that live.
fn terms() -> Terms {
    share_of(Spec::new(AlgorithmKind::FixedWindow, 100_000, Duration::from_secs(3_600))).unwrap()
}

fn ask_times(book: &mut Book<u32>, ms: u64, times: u64) {
    for _ in 0..times {
        let _ = book.decide(at(ms), &[BookAsk { key: &7, terms: Some(terms()), cost: 1 }]);
    }
}

fn reported(book: &mut Book<u32>, ms: u64, remaining: u64) {
    book.reported(at(ms), &7, LimiterReport { remaining, at: TAKEN, idle_at: TAKEN });
}

/// The units of the next share among `nodes`, when a life had so many requests, if any, and the current one has some.
fn size(requests: u64, remaining: u64, nodes: u64) -> Option<u64> {
    let mut book = Book::new(2);
    ask_times(&mut book, 0, requests);
    ask_times(&mut book, 2_000, 3);
    reported(&mut book, 2_000, remaining);
    book.wants(at(2_000), &7, nodes).map(|wanted| wanted.units)
}

/// A book with a share of 300 of 900 units, among two nodes and the store, asked for at 0 ms.
fn held() -> (Book<u32>, u64) {
    let mut book = Book::new(2);
    ask_times(&mut book, 0, 3);
    reported(&mut book, 0, 900);
    let Wanted { ticket, units, life, .. } = book.wants(at(0), &7, 2).unwrap();
    assert_eq!((units, life), (300, LIFE));
    let grant = Grant { ticket, since: TAKEN, end: TAKEN.plus(LIFE) };
    assert!(matches!(book.granted(at(10), &7, &grant), Granted::Held { .. }));
    (book, ticket)
}

#[test]
fn a_share_is_a_part_for_each_node_and_the_store_and_then_what_is_needed_twice() {
    assert_eq!([1, 2, 9].map(|nodes| size(0, 900, nodes)), [450, 300, 90].map(Some));
    assert_eq!([40, 400].map(|requests| size(requests, 900, 2)), [80, 300].map(Some));
    assert_eq!([6, 5].map(|remaining| size(0, remaining, 2)), [Some(2), None], "the store decides");
}

#[test]
fn a_share_is_renewed_without_a_request_as_long_as_somebody_asks() {
    let (mut book, ticket) = held();
    let unspent = Unspent { key: 7, ticket, units: 300, kept: 0, earlier: Micros::ZERO };
    assert_eq!(book.renewal(at(1_499), &7, 2, 0), None, "most of it is left");
    assert_eq!(book.close(&7, ticket), Some(unspent));
    reported(&mut book, 1_501, 900);
    assert_eq!(book.renewal(at(1_501), &7, 2, 1), None, "another policy is in force");
    let renewed = book.renewal(at(1_501), &7, 2, 0);
    assert_eq!(renewed.map(|wanted| wanted.units), Some(300));
    assert_eq!(book.renewal(at(1_501), &7, 2, 0), None, "it is on its way");

    let (mut book, ticket) = held();
    assert!(book.close(&7, ticket).is_some());
    reported(&mut book, 4_000, 900);
    assert_eq!(book.renewal(at(4_000), &7, 2, 0), None, "no request asked in two lives");
}

#[test]
fn a_lease_is_not_renewed() {
    let (mut book, ticket) = super::leased();
    assert!(book.close(&7, ticket).is_some());
    super::reported(&mut book, 150, 7, 500);
    assert_eq!(book.renewal(at(150), &7, 1, 0), None);
    assert!(book.wants(at(150), &7, 1).is_some(), "a request asks for one");
}

#[test]
fn a_node_that_joins_gets_its_part_at_once_and_one_that_leaves_is_missed_at_the_next_renewal() {
    let (mut book, ticket) = held();
    assert_eq!(book.excess(&7, ticket, 2), None);
    assert_eq!(book.excess(&7, ticket, 1), None);
    let excess = book.excess(&7, ticket, 3).unwrap();
    assert_eq!((excess.units, book.held(at(20), &7)), (75, 225));
    assert_eq!(book.excess_is_back(&7, ticket), None);
    assert_eq!(book.excess(&7, ticket, 3), None, "it is given back once");
    assert_eq!(book.excess(&7, ticket, 2), None);
    assert_eq!(book.excess(&7, ticket, 3), None, "a list that was short for a moment");
    let rest = book.close(&7, ticket).unwrap();
    assert_eq!(rest.units, 225);
}

/// The store got the rest first: it counted fewer units than stay, by the units on their way, and did not take those
/// back.
#[test]
fn the_rest_of_a_share_does_not_overtake_what_exceeds_it_on_the_way_back() {
    let (mut book, ticket) = held();
    let excess = book.excess(&7, ticket, 3).unwrap();
    assert_eq!((excess.units, excess.kept), (75, 225));
    assert_eq!(book.close_those(|_| true), [], "75 are on their way");
    assert_eq!(book.held(at(20), &7), 0);
    let rest = book.excess_is_back(&7, ticket).unwrap();
    assert_eq!((rest.units, rest.kept), (225, 0));
}

#[test]
fn only_what_is_unspent_goes_to_a_node_that_joins() {
    let (mut book, ticket) = held();
    ask_times(&mut book, 20, 200);
    let excess = book.excess(&7, ticket, 3).unwrap();
    assert_eq!((excess.units, book.held(at(30), &7)), (25, 75));
    assert_eq!(book.counts().spent, 200);
}

#[test]
fn nothing_is_admitted_on_top_of_what_can_still_be_spent() {
    let (mut book, ticket) = held();
    assert_eq!(book.lasts(at(998), &7), Some(Micros::from_millis(1_000)));
    let large = [BookAsk { key: &7, terms: Some(terms()), cost: 301 }];
    assert_eq!(book.decide(at(1_000), &large), Choice::Store(vec![]));
    assert!(book.lasts(at(1_000), &7).is_some());
    assert_eq!(book.lasts(at(1_998), &7), None);
    assert_eq!(book.close(&7, ticket).map(|rest| rest.units), Some(300), "it is given back");
    let (mut book, _) = held();
    ask_times(&mut book, 20, 300);
    assert_eq!(book.lasts(at(20), &7), None, "all of it is spent");
}

#[test]
fn a_share_lives_until_its_window_bucket_or_tick_ends_and_a_quarter_of_draining() {
    let of = |spec| share_of(spec).map(|terms| terms.life());
    let ms = |ms| Some(Micros::from_millis(ms));
    let spec = |algorithm, s| Spec::new(algorithm, 1_000, Duration::from_secs(s));
    assert_eq!(of(spec(AlgorithmKind::FixedWindow, 60)), Some(LIFE));
    assert_eq!(of(spec(AlgorithmKind::FixedWindow, 1)), ms(1_000));
    assert_eq!(of(spec(AlgorithmKind::SlidingWindow, 10)), ms(1_000));
    assert_eq!(of(spec(AlgorithmKind::SlidingCounter, 60)), Some(LIFE));
    let mut log = spec(AlgorithmKind::SlidingLog, 60);
    assert_eq!(of(log), None);
    log.resolution = Some(Duration::from_millis(100));
    assert_eq!(of(log), ms(100));
    assert_eq!(of(spec(AlgorithmKind::TokenBucket, 60)), Some(LONGEST));
    assert_eq!(of(spec(AlgorithmKind::TokenBucket, 1)), ms(250));
    assert_eq!(of(spec(AlgorithmKind::LeakyBucket, 1).burst(100)), ms(25));
    assert_eq!(of(spec(AlgorithmKind::LeakyBucket, 1).burst(39)), None, "less than 10 ms");
    assert_eq!(of(spec(AlgorithmKind::LeakyQueue, 1)), None);
}
