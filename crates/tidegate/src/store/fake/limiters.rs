//! The limiters of a store for tests: the verbs of the core, one atomic step after the other, and a record of each
//! lease.
//!
//! The [`FakeStore`](super::FakeStore) of the layers' tests and the simulator of the layers run their steps here.
//! It is the plainest code that keeps the contract, for comparison with the script in Redis.

mod carried;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tidegate_core::{Decision, Micros, Rule, Settled, Timestamp};

use super::limiter::{FakeLimiter, limiter};
use crate::rules::{Policy, limit_of};
use crate::step::{Decided, Lineage, One, Step};
use crate::store::{
    GivenBack, KeyAsk, LeaseResult, LimiterReply, LimiterReport, ReturnReply, StepArgs, StepReply,
    StoredData, Unspent, Verb, Wanted, is_report,
};

type LimiterKey = (Lineage, Vec<u8>);

/// A lease in the records: its units that are taken, and when they were.
#[derive(Clone, Debug)]
struct Recorded {
    units: u64,
    at: Timestamp,
}

/// All limiters of a store, and the leases of all nodes, by their tickets.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeLimiters {
    /// With the newest revision that each was asked under.
    all: BTreeMap<LimiterKey, (Option<NonZeroU32>, Box<dyn FakeLimiter>)>,
    leases: BTreeMap<(LimiterKey, u64, u64), Recorded>,
    /// When limiters were reset: units that were reported before are not carried there.
    resets: BTreeMap<LimiterKey, Timestamp>,
    /// The number of the server; 0 if it does not tell.
    pub(crate) server: u64,
}

impl FakeLimiters {
    /// Returns the limiter of an ask, which is new if there is none. It keeps the values of the newest revision.
    fn of(&mut self, policy: &Policy, ask: &KeyAsk, now: Timestamp) -> &mut dyn FakeLimiter {
        let rule = ask.rule_in(policy).expect("a rule of the policy");
        let revision = policy.revision();
        let new = || (revision, limiter(rule).expect("the rule has a limit"));
        let (newest, of_key) = self.all.entry(key_of(ask)).or_insert_with(new);
        // A node under an older policy does not undo the values of a newer policy.
        if revision >= *newest {
            *newest = revision;
            if let Some(carried) = of_key.carried_to(rule, now) {
                *of_key = carried;
            }
        }
        &mut **of_key
    }

    /// Returns the values of a limiter, if they are not the values of an ask.
    fn other_values(&self, policy: &Policy, ask: &KeyAsk) -> Option<Rule> {
        let (_, limiter) = self.all.get(&key_of(ask))?;
        let is_own = ask.rule_in(policy) == Some(limiter.rule());
        (!is_own).then(|| limiter.rule().clone())
    }

    /// Runs one step over the limiters of a request, if the states are there that must be.
    pub(crate) fn step(
        &mut self,
        policy: &Policy,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        now: Timestamp,
    ) -> StepReply {
        let data = self.carry(policy, asks, args.known, now);
        if data.is_lost {
            return StepReply { data, ..StepReply::nothing(asks.len(), now) };
        }
        let reply = self.run(policy, asks, args, now);
        StepReply { data, ..reply }
    }

    fn run(
        &mut self,
        policy: &Policy,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        now: Timestamp,
    ) -> StepReply {
        for ask in asks.iter().filter(|ask| ask.begins_in_use(policy)) {
            // It fills from its first request on, also if that is refused; a reset fills it.
            if matches!(args.verb, Verb::Ask | Verb::Reset) {
                self.of(policy, ask, now).run(Step::Ask, 0, now);
            }
        }
        if args.verb == Verb::Reset {
            asks.iter().for_each(|ask| self.reset(policy, ask, now));
            return StepReply::nothing(asks.len(), now);
        }
        // Two passes: no limiter takes anything before all have decided.
        let mut ones = Vec::new();
        for (place, ask) in asks.iter().enumerate() {
            let costs = args.costs.get(place).copied();
            ones.push(match args.verb {
                // A step that takes looks first as well: see below.
                Verb::Ask | Verb::Peek => {
                    self.of(policy, ask, now).run(Step::Peek, costs.unwrap_or(ask.asks()), now)
                }
                Verb::Settle => {
                    let earlier = args.leased.get(place).copied().flatten();
                    self.settle(policy, ask, args.actual[place], earlier, now)
                }
                Verb::Renew => {
                    self.of(policy, ask, now).run(Step::Renew { token: ask.taken.token }, 0, now)
                }
                Verb::Reset => continue,
            });
        }
        let mut allowed = admits(asks, &ones);
        let is_report = is_report(asks);
        for (place, (ask, one)) in asks.iter().zip(&mut ones).enumerate() {
            let takes =
                is_report && ask.is_report() && ask.cost > 0 || allowed && one.verdict.is_allowed();
            if args.verb == Verb::Ask && takes {
                // Units under leases come back without a reservation.
                let (cost, step) = match ask.part(Step::Ask) {
                    (cost, Step::Reserve)
                        if args.leased.get(place).is_some_and(Option::is_some) =>
                    {
                        (cost, Step::Ask)
                    }
                    part => part,
                };
                *one = self.of(policy, ask, now).run(step, cost, now);
            }
        }
        if is_report {
            allowed = admits(asks, &ones);
        }
        let replies = asks.iter().zip(ones).map(|(ask, one)| {
            let decided = Decided { values: self.other_values(policy, ask), ..one.decided };
            let used = Some(self.of(policy, ask, now).used_units(now));
            Some(LimiterReply { used, ..LimiterReply::of_store(decided) })
        });
        let replies = replies.collect();
        StepReply { allowed, replies, ..StepReply::nothing(asks.len(), now) }
    }

    /// Gives back the units of a step.
    pub(crate) fn undo(
        &mut self,
        policy: &Policy,
        asks: &[KeyAsk],
        leased: &[Option<Micros>],
        reply: &StepReply,
        now: Timestamp,
    ) -> StepReply {
        let mut undone = StepReply::nothing(asks.len(), now);
        undone.data.server = self.server;
        for (place, taken) in reply.to_undo(asks).iter().enumerate() {
            if taken.cost > 0 {
                let earlier = leased.get(place).copied().flatten();
                let decided = self.settle(policy, taken, 0, earlier, now).decided;
                let used = Some(self.of(policy, taken, now).used_units(now));
                undone.put(place, LimiterReply { used, ..LimiterReply::of_store(decided) });
            }
        }
        undone
    }

    /// Settles units that were taken. Under leases they count as taken so much `earlier`.
    fn settle(
        &mut self,
        policy: &Policy,
        ask: &KeyAsk,
        actual: u64,
        earlier: Option<Micros>,
        now: Timestamp,
    ) -> One {
        let limiter = self.of(policy, ask, now);
        // Only giving back is special: other nodes may rely on leased units. A shortfall is taken as without
        // leases.
        let Some(earlier) = earlier.filter(|_| actual < ask.cost) else {
            let settle = Step::Settle { actual, token: ask.taken.token, since: ask.since() };
            return limiter.run(settle, ask.cost, now);
        };
        let surplus = ask.cost - actual;
        let since = ask.taken.since.map(|since| since.minus(earlier));
        let back = since.map_or(0, |since| limiter.give_back_lease(surplus, now, since));
        let mut one = limiter.run(Step::Peek, 0, now);
        if back < surplus {
            one.decided.settled = Settled::Late(surplus - back);
        }
        one
    }

    fn reset(&mut self, policy: &Policy, ask: &KeyAsk, now: Timestamp) {
        self.of(policy, ask, now).run(Step::Reset { remembers: true }, 0, now);
        self.leases.retain(|(key, ..), _| *key != key_of(ask));
        self.resets.insert(key_of(ask), now);
    }

    /// Takes a lease for a node, unless the limiter has other values.
    fn take_lease(
        &mut self,
        policy: &Policy,
        ask: &KeyAsk,
        wanted: &Wanted,
        node: u64,
        now: Timestamp,
    ) -> LeaseResult {
        // The values of a newer policy take effect first, so that only a node under an older policy is refused.
        let _ = self.of(policy, ask, now);
        if self.other_values(policy, ask).is_some() {
            return LeaseResult::Undecided;
        }
        let limiter = self.of(policy, ask, now);
        let end = limiter.lease(wanted.units, now, wanted.life);
        let one = limiter.run(Step::Peek, 0, now);
        if end.is_some() {
            // The node has closed its lower tickets, and never asks for their records again.
            self.leases.retain(|(key, of, ticket), _| {
                *key != key_of(ask) || *of != node || *ticket >= wanted.oldest
            });
            let recorded = Recorded { units: wanted.units, at: one.at };
            self.leases.insert((key_of(ask), node, wanted.ticket), recorded);
        }
        LeaseResult::Decided(report_of(&one), end.map(|end| [one.at, end]))
    }

    /// Gives units of a node's lease back, once.
    pub(crate) fn give_back_lease(
        &mut self,
        policy: &Policy,
        rest: &Unspent<KeyAsk>,
        node: u64,
        now: Timestamp,
    ) -> ReturnReply {
        let lease = self.leases.get_mut(&(key_of(&rest.key), node, rest.ticket));
        let mut taken_at = None;
        let mut given_back = GivenBack::NotTaken;
        if let Some(recorded) = lease {
            // The call was repeated: the record says already how many units stay.
            if recorded.units == rest.kept {
                given_back = GivenBack::Back;
            } else if recorded.units >= rest.kept + rest.units {
                recorded.units = rest.kept;
                taken_at = Some(recorded.at);
            }
        }
        let limiter = self.of(policy, &rest.key, now);
        if let Some(at) = taken_at {
            let back = limiter.give_back_lease(rest.units, now, at.minus(rest.earlier));
            given_back = if back > 0 { GivenBack::Back } else { GivenBack::TooLate };
        }
        let report = report_of(&limiter.run(Step::Peek, 0, now));
        let used = Some(limiter.used_units(now));
        let data = StoredData { server: self.server, ..StoredData::default() };
        ReturnReply { used, data, ..ReturnReply::new(given_back, report) }
    }

    /// Returns the units of a lease that are taken, and when they were.
    pub(crate) fn leased(&self, rest: &Unspent<KeyAsk>, node: u64) -> Option<(u64, Timestamp)> {
        let lease = self.leases.get(&(key_of(&rest.key), node, rest.ticket))?;
        Some((lease.units, lease.at))
    }

    /// Returns the newest revision that a limiter was asked under.
    pub(crate) fn revision(&self, ask: &KeyAsk) -> u32 {
        let revision = self.all.get(&key_of(ask)).and_then(|(revision, _)| *revision);
        revision.map_or(0, NonZeroU32::get)
    }

    /// Returns the limit of a limiter; 0 if there is none.
    pub(crate) fn limit(&self, ask: &KeyAsk) -> u64 {
        let limiter = self.all.get(&key_of(ask)).map(|(_, limiter)| limiter.rule());
        limiter.and_then(limit_of).unwrap_or_default()
    }

    /// Forgets the units of a limiter if it exists and is idle, and returns whether it was.
    pub(crate) fn forget_if_idle(&mut self, ask: &KeyAsk, now: Timestamp) -> bool {
        let is_idle =
            self.all.get_mut(&key_of(ask)).is_some_and(|(_, limiter)| limiter.forget_if_idle(now));
        // Units that a node knows of from before came back, or have left.
        if is_idle {
            self.resets.insert(key_of(ask), now);
        }
        is_idle
    }

    /// Returns the units of a limiter in use, rounded up.
    pub(crate) fn used(&self, ask: &KeyAsk, now: Timestamp) -> u64 {
        self.all.get(&key_of(ask)).map_or(0, |(_, limiter)| limiter.used(now))
    }
}

fn admits(asks: &[KeyAsk], ones: &[One]) -> bool {
    asks.iter().zip(ones).all(|(ask, one)| one.verdict.is_allowed() || !ask.enforced)
}

fn key_of(ask: &KeyAsk) -> LimiterKey {
    (ask.lineage, ask.fingerprint.clone())
}

fn report_of(one: &One) -> LimiterReport {
    let Decision { remaining, reset_after, .. } = one.decided.decision;
    LimiterReport { remaining, at: one.at, idle_at: one.at.plus(reset_after) }
}
