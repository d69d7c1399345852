//! Random reserves, renewals, settles, checks and pauses, compared with a naive model of the units and the ids.

use std::collections::HashMap;

use futures_util::FutureExt;
use testkit::model::{AlgorithmKind, Model, Policy as OwnValues};
use testkit::traffic::Rng;
use tidegate::{Gate, ManualClock, Policy, config};

use super::{USERS, asked};
use crate::limiters::reservations::*;

const SECOND_US: u64 = 1_000_000;

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
                    false => {
                        let asked = Some(actual);
                        let otherwise = Unsettled::Otherwise { settled: *first, asked };
                        assert_eq!(settled.unwrap_err(), otherwise);
                    }
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
    assert!(renewed > 30 && late > 2, "{renewed} {late}");
}
