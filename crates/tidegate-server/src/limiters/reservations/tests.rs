//! Space, lives, repeats and settlements of reservations, by examples.

mod memory;
mod walk;

use tidegate::{Descriptor, Gate, ManualClock, Policy, config};

use super::*;
use crate::limiters::USUAL_LIFE;

const USERS: [&str; 3] = ["ada", "bob", "eve"];

pub(super) fn asked<T>(user: usize, cost: u64, to: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = [("user", USERS[user])];
    to(&Request::new("default", &[Descriptor::new(&entries).cost(cost)]))
}

/// A clock, a table of this many KiB, and a gate of this rule.
pub(super) fn begun(
    kib: usize,
    rule: &str,
) -> (ManualClock, Reservations<ManualClock>, Gate<ManualClock>) {
    let clock = ManualClock::new();
    let table = Reservations::with_clock(kib << 10, clock.clone());
    let gate = Gate::with_clock(config::parse("test", rule).unwrap(), clock.clone());
    (clock, table, gate)
}

/// Asks a gate, and reserves what it admits.
pub(super) fn reserve(
    table: &Reservations<ManualClock>,
    gate: &Gate<ManualClock>,
    request: &Request<'_>,
) -> Option<ReservationId> {
    let space = table.space(request, &gate.policy(), None).unwrap();
    space.keep(&gate.check(request))
}

#[test]
fn without_space_nothing_is_asked_and_what_has_ended_makes_space() {
    let (clock, table, gate) = begun(4, RULE);
    let reserve = |user: usize| {
        asked(user, 1, |request| {
            let space = table.space(request, &gate.policy(), None)?;
            Ok(space.keep(&gate.check(request)).unwrap())
        })
    };
    let fit = std::iter::from_fn(|| reserve(0).ok()).count();
    assert!((4..12).contains(&fit), "{fit}");
    assert_eq!(reserve(1), Err(Unreserved::Full));
    clock.advance(USUAL_LIFE);
    assert!(reserve(1).is_ok());
    let (counts, bytes) = table.counts();
    assert_eq!((counts.open, counts.unsettled), (1, fit as u64));
    assert!(bytes < 1 << 10, "{bytes}");
}

#[test]
fn a_refusal_and_a_request_that_is_dropped_take_no_space() {
    let (_, table, gate) = begun(64, RULE);
    let space = |request: &Request<'_>| table.space(request, &gate.policy(), None).unwrap();
    asked(0, 1_000, |request| {
        let space_of_one = space(request);
        assert!(table.counts().1 > 0);
        assert_eq!(space_of_one.keep(&gate.check(request)), None);
        drop(space(request));
    });
    assert_eq!(table.counts(), (ReservationCounts::default(), 0));
}

#[test]
fn a_life_is_no_longer_than_each_rule_lets_it_be() {
    let rules = "[[rule]]\nname = \"short\"\nwhen = { user = \"ada\" }\nmax_life = \"30s\"\n\
                 algorithm = \"token_bucket\"\nrate = \"9/1s\"\n\
                 [[rule]]\nname = \"usual\"\nalgorithm = \"token_bucket\"\nrate = \"9/1s\"\n";
    let table = Reservations::with_clock(64 << 10, ManualClock::new());
    let policy: Policy = config::parse("test", rules).unwrap();
    let life = |user: usize, life: Option<u64>| {
        let life = life.map(Duration::from_secs);
        asked(user, 1, |request| {
            table.space(request, &policy, life).map(|space| space.life.as_secs())
        })
    };
    assert_eq!([life(0, None), life(0, Some(30)), life(1, None)], [Ok(30), Ok(30), Ok(60)]);
    assert_eq!(life(1, Some(600)), Ok(600));
    let why = life(0, Some(31)).unwrap_err().to_string();
    assert!(
        why.contains("31000 ms") && why.contains("`short`") && why.contains("`max_life`"),
        "{why}"
    );
    assert!(life(1, Some(601)).unwrap_err().to_string().contains("1 to 600000 ms"));
}

#[test]
fn a_repeated_reserve_gets_the_reservation_of_the_first() {
    let (clock, table, gate) = begun(64, &format!("{RULE}dedupe = \"10s\"\n"));
    let reserve =
        |id: &str| asked(0, 3, |request| reserve(&table, &gate, &request.with_id(id).unwrap()));
    let (first, again, other) = (reserve("a"), reserve("a"), reserve("b"));
    assert!(first.is_some() && first == again && other.is_some() && other != first);
    assert_eq!(asked(0, 1, |request| gate.peek(request).remaining()), Some(94));
    clock.advance(Duration::from_secs(10));
    let later = reserve("a");
    assert!(later.is_some() && later != first, "the answer is no longer remembered");
    assert_eq!(reserve("a"), later);
}

/// A clock, a table with one reservation of five units, and its id.
fn with_one() -> (ManualClock, Reservations<ManualClock>, String) {
    let (clock, table, gate) = begun(64, RULE);
    let id = asked(0, 5, |request| reserve(&table, &gate, request)).unwrap().to_string();
    (clock, table, id)
}

#[test]
fn what_a_limiter_cuts_is_cut_off_the_last_costs_that_met_it_and_once() {
    let toml = "[[rule]]\nname = \"all\"\nrate = \"20/1d\"\n\n[[rule]]\nname = \"own\"\nkey = [\"user\"]\nrate = \"50/1d\"\n";
    let policy: Policy = config::parse("test", toml).unwrap();
    let gate = Gate::with_clock(policy, ManualClock::new());
    let (ada, bob) = ([("user", "ada")], [("user", "bob")]);
    let descriptors = [Descriptor::new(&ada), Descriptor::new(&bob)];
    let request = Request::new("default", &descriptors);
    let taken = Taken::from(&gate.check(&request));
    // Of 120 units `all` takes 40; of each user's own, `own` takes all.
    let answer = gate.settle(&request, &taken, &[50, 70]);
    let settled = SettledReservation::of(&answer, &[50, 70]);
    assert_eq!([settled.shares(0, 50), settled.shares(1, 70)], [[40, 10], [0, 70]]);
}

#[tokio::test]
async fn two_settles_at_once_are_one_and_an_error_leaves_it_open() {
    let (_, table, id) = with_one();
    let undone =
        async |_: &Request<'_>, _: &Taken| Err(Unsettled::Undone(tidegate::StoreError::Away));
    assert!(matches!(table.settle(&id, &[2], undone).await, Err(Unsettled::Undone(_))));
    let times = std::sync::atomic::AtomicU64::new(0);
    let settle = async || {
        let settle = async |_: &Request<'_>, _: &Taken| {
            times.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(Err("unknown".into()))
        };
        table.settle(&id, &[2], settle).await.unwrap()
    };
    let (one, other) = tokio::join!(settle(), settle());
    assert_eq!(one.outcome.stand, other.outcome.stand);
    assert!(one.done.is_some() != other.done.is_some(), "one of them did it");
    assert_eq!(settle().await.outcome.stand, Err("unknown".into()), "and stays so");
    assert_eq!(times.into_inner(), 1);
    let otherwise = Unsettled::Otherwise { settled: 2, asked: Some(3) };
    assert_eq!(table.settle(&id, &[1, 2], undone).await.unwrap_err(), otherwise);
    assert_eq!(table.settle("7", &[2], undone).await.unwrap_err(), Unsettled::NoId);
}

#[tokio::test]
async fn a_settle_that_waits_for_the_store_is_done_once_or_given_up_at_the_end() {
    let away = tidegate::StoreError::Away;
    for ends in [false, true] {
        let (clock, table, id) = with_one();
        let before = table.counts().1;
        assert!(matches!(table.wait(&id, &[2], away.clone()), Ok(Some((_, true)))));
        assert!(
            matches!(table.wait(&id, &[2], away.clone()), Ok(Some((_, false)))),
            "it waits already"
        );
        let otherwise = Unsettled::Otherwise { settled: 2, asked: Some(3) };
        assert_eq!(table.wait(&id, &[3], away.clone()), Err(otherwise.clone()));
        assert!(table.counts().0.pending == 1 && table.counts().1 > before);
        let settle = async |_: &Request<'_>, _: &Taken| Ok(Err("unknown".into()));
        assert_eq!(table.settle(&id, &[3], settle).await.unwrap_err(), otherwise);
        assert!(!table.stops_retrying());
        let (next, costs) = table.next_pending(None).unwrap();
        assert_eq!((next.to_string(), &*costs), (id.clone(), &[2][..]));
        assert_eq!(table.next_pending(Some(next)), None);
        let counts = if ends {
            clock.advance(USUAL_LIFE);
            ReservationCounts { given_up: 1, ..ReservationCounts::default() }
        } else {
            assert!(table.settle(&id, &[2], settle).await.is_ok());
            assert_eq!(table.wait(&id, &[2], away.clone()), Ok(None), "it is open no more");
            ReservationCounts { unknown: 1, ..ReservationCounts::default() }
        };
        assert_eq!((table.next_pending(None), table.counts().0), (None, counts));
        assert!(table.stops_retrying());
    }
}

#[test]
fn operators_see_what_is_held_and_drop_it() {
    let (_, table, id) = with_one();
    let policy: Policy = config::parse("test", RULE).unwrap();
    let listed = serde_json::to_value(table.list(&policy, 9)).unwrap();
    assert_eq!(
        (&listed[0]["reservation"], &listed[0]["costs"][0]),
        (&id.as_str().into(), &5.into())
    );
    assert_eq!(listed[0]["keys"][0]["key"]["user"], "ada");
    let hidden = config::parse("test", &format!("{RULE}hide_keys = true\n")).unwrap();
    let shown = serde_json::to_string(&table.list(&hidden, 9)).unwrap();
    assert!(!shown.contains("\"ada\"") && table.list(&policy, 0).is_empty(), "{shown}");
    assert_eq!(table.drop_open(&id), Ok(()));
    assert_eq!(table.drop_open(&id), Err(Unsettled::Unknown));
    assert_eq!(
        table.counts(),
        (ReservationCounts { dropped: 1, ..ReservationCounts::default() }, 0)
    );
}

pub(super) const RULE: &str =
    "[[rule]]\nname = \"all\"\nkey = [\"user\"]\nalgorithm = \"sliding_log\"\nrate = \"100/1h\"\n";
