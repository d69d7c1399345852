//! Random reserves, renewals, settles, checks and pauses, compared with a naive model of the units and the ids.

mod memory;

use std::collections::HashMap;

use futures_util::FutureExt;
use testkit::model::{AlgorithmKind, Model, Policy as OwnValues};
use testkit::traffic::Rng;
use tidegate::{Descriptor, Gate, ManualClock, Policy, config};

use super::*;
use crate::limiters::USUAL_LIFE;

const SECOND_US: u64 = 1_000_000;
const USERS: [&str; 3] = ["ada", "bob", "eve"];

/// A reservation as the model knows it.
#[derive(Clone, Debug)]
struct Known {
    user: usize,
    cost: u64,
    life_us: u64,
    ends_us: u64,
    /// When its units were taken.
    since_us: u64,
    /// The token of its permit.
    token: Option<u64>,
    settled: Option<(u64, u64)>,
}

struct World {
    gate: Gate<ManualClock>,
    clock: ManualClock,
    table: Reservations<ManualClock>,
    models: Vec<Model>,
    known: HashMap<String, Known>,
}

pub(super) fn asked<T>(user: usize, cost: u64, to: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = [("user", USERS[user])];
    to(&Request::new("default", &[Descriptor::new(&entries).cost(cost)]))
}

impl World {
    fn new(algorithm: AlgorithmKind) -> Self {
        let toml = format!(
            "[[rule]]\nname = \"all\"\nkey = [\"user\"]\nalgorithm = \"{}\"\nrate = \"20/10s\"\n",
            algorithm.name()
        );
        let policy: Policy = config::parse("test", &toml).unwrap();
        let clock = ManualClock::new();
        let values = OwnValues::new(algorithm, 20, 10 * SECOND_US);
        Self {
            gate: Gate::with_clock(policy, clock.clone()),
            table: Reservations::with_clock(64 << 10, clock.clone()),
            clock,
            models: USERS.iter().map(|_| Model::new(values.clone())).collect(),
            known: HashMap::new(),
        }
    }

    fn now_us(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn reserve(&mut self, user: usize, cost: u64, life: Duration) {
        let now_us = self.now_us();
        let id = asked(user, cost, |request| {
            let space = self.table.space(request, &self.gate.policy(), Some(life)).unwrap();
            let answer = self.gate.check(&(*request).reserving());
            let id = space.keep(&answer);
            assert_eq!(id.is_some(), answer.is_allowed());
            id
        });
        assert_eq!(id.is_some(), self.models[user].reserve(now_us, cost).allowed);
        if let Some(id) = id {
            let life_us = life.as_micros() as u64;
            let ends_us = now_us + life_us;
            let token = self.models[user].token().filter(|_| cost > 0);
            let since_us = self.models[user].last_us().unwrap_or(now_us);
            let known = Known { user, cost, life_us, ends_us, since_us, token, settled: None };
            let before = self.known.insert(id.to_string(), known);
            assert!(before.is_none(), "no id is given twice");
        }
    }

    fn settle(&mut self, id: &str, actual: u64) {
        let now_us = self.now_us();
        let settle = async |request: &Request<'_>, taken: &Taken| {
            Ok(Ok(SettledReservation::of(&self.gate.settle(request, taken, &[actual]), &[actual])))
        };
        let settled = self.table.settle(id, &[actual], settle).now_or_never().unwrap();
        let known = self.known.get_mut(id);
        match known {
            // It holds nothing, and is settled for nothing.
            Some(Known { cost: 0, .. }) => {
                let settled = settled.unwrap();
                let stand = settled.outcome.stand.as_ref().unwrap();
                assert_eq!((stand.shares(0, actual), &settled.done), ([0, actual], &None));
            }
            Some(Known { settled: Some((first, until)), .. }) if now_us < *until => {
                match *first == actual {
                    true => assert!(settled.unwrap().outcome.stand.is_ok()),
                    false => assert_eq!(settled.unwrap_err(), Unsettled::Otherwise),
                }
            }
            Some(known) if known.settled.is_none() && now_us < known.ends_us => {
                let model = &mut self.models[known.user];
                match known.token {
                    Some(token) => model.return_permit(now_us, token, known.cost),
                    None => _ = model.settle_since(now_us, known.since_us, known.cost, actual),
                }
                let settled = settled.unwrap();
                let remaining = settled.outcome.stand.as_ref().unwrap().line().remaining;
                assert_eq!(remaining, Some(self.models[known.user].peek(now_us, 0).remaining));
                known.settled = Some((actual, now_us + REMEMBERED.as_micros() as u64));
            }
            _ => assert_eq!(settled.unwrap_err(), Unsettled::Unknown),
        }
    }

    /// Returns whether a permit was renewed, and whether one was too late.
    fn renew(&mut self, id: &str) -> [bool; 2] {
        let now_us = self.now_us();
        let renew =
            async |request: &Request<'_>, taken: &Taken| Ok(self.gate.renew(request, taken));
        let renewed = self.table.renew(id, renew).now_or_never().unwrap();
        let Some(known) = self.known.get_mut(id) else {
            assert_eq!(renewed, Err(Unsettled::Unknown));
            return [false; 2];
        };
        match known.settled {
            // A reserve of nothing took no permit.
            None if known.cost == 0 => assert_eq!(renewed, Ok(true)),
            Some((_, until)) if now_us < until => assert_eq!(renewed, Ok(false)),
            None if now_us < known.ends_us => {
                let model = &mut self.models[known.user];
                let is_out = known.token.is_none_or(|token| model.renew(now_us, token));
                assert_eq!(renewed, Ok(is_out));
                if is_out {
                    known.ends_us = known.ends_us.max(now_us + known.life_us);
                }
                return [is_out && known.token.is_some(), !is_out];
            }
            _ => assert_eq!(renewed, Err(Unsettled::Unknown)),
        }
        [false; 2]
    }

    fn check_units(&mut self) {
        let now_us = self.now_us();
        for user in 0..USERS.len() {
            let seen = asked(user, 1, |request| self.gate.peek(request).remaining());
            assert_eq!(seen, Some(self.models[user].peek(now_us, 1).remaining));
        }
        let open =
            |known: &&Known| known.cost > 0 && known.settled.is_none() && now_us < known.ends_us;
        let expected = self.known.values().filter(open).count() as u64;
        assert_eq!(self.table.counts().0.open, expected);
    }
}

#[test]
fn a_walk_of_reserves_and_settles_takes_what_a_naive_model_takes() {
    let (mut renewed, mut late) = (0, 0);
    for algorithm in AlgorithmKind::ALL {
        for seed in 0..20 {
            let (mut world, rng) = (World::new(algorithm), &mut Rng::new(seed));
            for _ in 0..200 {
                let user = rng.below(3) as usize;
                match rng.below(10) {
                    0..4 => {
                        let life = Duration::from_micros(rng.pick([1, SECOND_US, 70 * SECOND_US]));
                        world.reserve(user, rng.skewed(12), life);
                    }
                    4..8 => {
                        let mut ids: Vec<_> = world.known.keys().cloned().collect();
                        ids.sort();
                        let id = if ids.is_empty() || rng.chance(5) {
                            "00000000000000000000000000000007".to_owned()
                        } else {
                            ids[rng.below(ids.len() as u64) as usize].clone()
                        };
                        let again = world.known.get(&id).and_then(|known| known.settled);
                        let actual = match again {
                            Some((actual, _)) if rng.chance(50) => actual,
                            _ => rng.skewed(20),
                        };
                        if rng.chance(30) {
                            let [in_time, too_late] = world.renew(&id);
                            (renewed, late) =
                                (renewed + u64::from(in_time), late + u64::from(too_late));
                        } else {
                            world.settle(&id, actual);
                        }
                    }
                    8 => {
                        let now_us = world.now_us();
                        let allowed =
                            asked(user, 1, |request| world.gate.check(request).is_allowed());
                        assert_eq!(allowed, world.models[user].step(now_us, 1).allowed);
                    }
                    _ => {
                        let pauses = [1, 300_000, SECOND_US, 5 * SECOND_US, 61 * SECOND_US];
                        world.clock.advance(Duration::from_micros(rng.pick(pauses)));
                    }
                }
                world.check_units();
            }
        }
    }
    assert!(renewed > 30 && late > 10, "{renewed} {late}");
}

#[test]
fn without_space_nothing_is_asked_and_what_has_ended_makes_space() {
    let clock = ManualClock::new();
    let table = Reservations::with_clock(4 << 10, clock.clone());
    let gate = Gate::with_clock(config::parse("test", RULE).unwrap(), clock.clone());
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
    let clock = ManualClock::new();
    let table = Reservations::with_clock(64 << 10, clock.clone());
    let gate = Gate::with_clock(config::parse("test", RULE).unwrap(), clock);
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
    let clock = ManualClock::new();
    let table = Reservations::with_clock(64 << 10, clock.clone());
    let rule = format!("{RULE}dedupe = \"10s\"\n");
    let gate = Gate::with_clock(config::parse("test", &rule).unwrap(), clock.clone());
    let reserve = |id: &str| {
        asked(0, 3, |request| {
            let request = request.with_id(id).unwrap();
            let space = table.space(&request, &gate.policy(), None).unwrap();
            space.keep(&gate.check(&request))
        })
    };
    let (first, again, other) = (reserve("a"), reserve("a"), reserve("b"));
    assert!(first.is_some() && first == again && other.is_some() && other != first);
    assert_eq!(asked(0, 1, |request| gate.peek(request).remaining()), Some(94));
    clock.advance(Duration::from_secs(10));
    let later = reserve("a");
    assert!(later.is_some() && later != first, "the answer is no longer remembered");
    assert_eq!(reserve("a"), later);
}

/// A table with one reservation of five units, and its id.
fn with_one(clock: &ManualClock) -> (Reservations<ManualClock>, String) {
    let table = Reservations::with_clock(64 << 10, clock.clone());
    let gate = Gate::with_clock(config::parse("test", RULE).unwrap(), clock.clone());
    let id = asked(0, 5, |request| {
        let space = table.space(request, &gate.policy(), None).unwrap();
        space.keep(&gate.check(request)).unwrap().to_string()
    });
    (table, id)
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
    let (table, id) = with_one(&ManualClock::new());
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
    assert_eq!(table.settle(&id, &[1, 2], undone).await.unwrap_err(), Unsettled::Otherwise);
    assert_eq!(table.settle("7", &[2], undone).await.unwrap_err(), Unsettled::NoId);
}

#[tokio::test]
async fn a_settle_that_waits_for_the_store_is_done_once_or_given_up_at_the_end() {
    let (clock, away) = (ManualClock::new(), tidegate::StoreError::Away);
    for ends in [false, true] {
        let (table, id) = with_one(&clock);
        let before = table.counts().1;
        assert!(matches!(table.wait(&id, &[2], away.clone()), Ok(Some((_, true)))));
        assert!(
            matches!(table.wait(&id, &[2], away.clone()), Ok(Some((_, false)))),
            "it waits already"
        );
        assert_eq!(table.wait(&id, &[3], away.clone()), Err(Unsettled::Otherwise));
        assert!(table.counts().0.pending == 1 && table.counts().1 > before);
        let settle = async |_: &Request<'_>, _: &Taken| Ok(Err("unknown".into()));
        assert_eq!(table.settle(&id, &[3], settle).await.unwrap_err(), Unsettled::Otherwise);
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
    let clock = ManualClock::new();
    let (table, id) = with_one(&clock);
    let policy: Policy = config::parse("test", RULE).unwrap();
    let listed = serde_json::to_value(table.list(&policy, 9)).unwrap();
    assert_eq!(
        (&listed[0]["reservation"], &listed[0]["costs"][0]),
        (&id.as_str().into(), &5.into())
    );
    assert_eq!(listed[0]["keys"][0]["key"]["user"], "ada");
    let hidden = config::parse("test", &format!("{RULE}hide_keys = true\n")).unwrap();
    let shown = serde_json::to_string(&table.list(&hidden, 9)).unwrap();
    assert!(!shown.contains("ada") && table.list(&policy, 0).is_empty(), "{shown}");
    assert_eq!(table.drop_open(&id), Ok(()));
    assert_eq!(table.drop_open(&id), Err(Unsettled::Unknown));
    assert_eq!(
        table.counts(),
        (ReservationCounts { dropped: 1, ..ReservationCounts::default() }, 0)
    );
}

pub(super) const RULE: &str =
    "[[rule]]\nname = \"all\"\nkey = [\"user\"]\nalgorithm = \"sliding_log\"\nrate = \"100/1h\"\n";
