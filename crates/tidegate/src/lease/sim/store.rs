//! The simulated store: one limiter for each key, steps that are atomic, and a clock that all times are measured by.

use std::collections::BTreeMap;

use tidegate_core::{Micros, Timestamp};

use super::super::LimiterReport;
use super::history::{
    GrantId, LeasesEventKind, LeasesHistory, LeasesLossCause, RequestId, TakenFor,
};
use super::plan::LeasesPlan;
use super::sim_limiter::{SimLimiter, limiter};

/// A question of a node to the store.
#[derive(Clone, Debug)]
pub(super) enum LeasesQuestion {
    /// Decides a request: keys and costs.
    Step { request: Option<RequestId>, parts: Vec<(usize, u64)> },
    Lease {
        id: GrantId,
        key: usize,
        units: u64,
        life: Micros,
        /// The lowest ticket of the node and key that is not done.
        oldest: u64,
    },
    /// Gives units of a lease back; `kept` units stay taken. The question has a number of its node.
    GiveBack { id: GrantId, number: u64, key: usize, units: u64, kept: u64, earlier: Micros },
    /// Gives back the units of a request that no caller waits for.
    Undo {
        by: RequestId,
        /// The server that took them.
        server: usize,
        key: usize,
        units: u64,
        since: Timestamp,
    },
}

/// A reply of the store.
#[derive(Clone, Debug)]
pub(super) enum LeasesReply {
    Step {
        request: RequestId,
        admitted: bool,
        limiters: Vec<Stands>,
    },
    Lease {
        id: GrantId,
        key: usize,
        lease: Option<TakenLease>,
        report: LimiterReport,
        revision: usize,
    },
    /// Units of a lease are back, or count no more.
    Back {
        number: u64,
        key: usize,
        report: LimiterReport,
    },
}

impl LeasesReply {
    /// Returns the source that the replying step took units for, and the number of units by key.
    pub(super) fn took(&self) -> Option<(TakenFor, Vec<(usize, u64)>)> {
        match self {
            Self::Step { request, admitted: true, limiters, .. } => {
                let parts = limiters.iter().map(|one| (one.key, one.cost)).collect();
                Some((TakenFor::Request(*request), parts))
            }
            Self::Lease { id, key, lease: Some(lease), .. } => {
                Some((TakenFor::Lease(*id), vec![(*key, lease.units)]))
            }
            _ => None,
        }
    }
}

/// The standing of a limiter after a step, the rule it is under, and the cost of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stands {
    pub(super) key: usize,
    pub(super) cost: u64,
    /// The instant that counted.
    pub(super) at: Timestamp,
    pub(super) report: LimiterReport,
    pub(super) revision: usize,
}

/// A lease that was taken: when, and before when it can be spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenLease {
    pub(super) at: Timestamp,
    pub(super) end: Timestamp,
    pub(super) units: u64,
}

/// A lease in the record of its limiter: the units that are taken, and when they were.
#[derive(Clone, Copy, Debug)]
struct RecordedLease {
    units: u64,
    at: Timestamp,
}

/// The record of the leases of all limiters.
type LeaseRecords = BTreeMap<(usize, GrantId), RecordedLease>;

#[derive(Debug)]
pub(super) struct LeasesStore<'a> {
    plan: &'a LeasesPlan,
    limiters: Vec<(usize, Box<dyn SimLimiter>)>,
    replica: Vec<(usize, Box<dyn SimLimiter>)>,
    records: LeaseRecords,
    copied_records: LeaseRecords,
    /// By how much its clock was set.
    stepped: i64,
}

impl<'a> LeasesStore<'a> {
    pub(super) fn new(plan: &'a LeasesPlan) -> Self {
        let (limiters, replica) = (fresh(plan), fresh(plan));
        let (records, copied_records) = (LeaseRecords::new(), LeaseRecords::new());
        Self { plan, limiters, replica, records, copied_records, stepped: 0 }
    }

    fn clock(&self, time: u64) -> Timestamp {
        Timestamp::from_micros((self.plan.origin + time).saturating_add_signed(self.stepped))
    }

    /// Sets the clock.
    pub(super) fn step(&mut self, time: u64, by: i64, history: &mut LeasesHistory) {
        self.stepped += by;
        (0..self.limiters.len())
            .for_each(|key| history.add(time, key, LeasesEventKind::Stepped { by }));
    }

    /// Runs one step; `held` returns the units of a key that all nodes hold.
    pub(super) fn ask(
        &mut self,
        time: u64,
        question: &LeasesQuestion,
        history: &mut LeasesHistory,
        held: impl Fn(usize) -> u64,
    ) -> Option<LeasesReply> {
        let now = self.clock(time);
        match question {
            LeasesQuestion::Step { request, parts } => {
                let mut fit =
                    parts.iter().map(|(key, cost)| self.limiters[*key].1.fits(now, *cost));
                let admitted = fit.by_ref().fold(true, |all, one| all & one);
                drop(fit);
                for (key, cost) in parts {
                    if admitted {
                        self.limiters[*key].1.take(now, *cost);
                        history.add(
                            time,
                            *key,
                            LeasesEventKind::Taken { units: *cost, by: *request },
                        );
                    }
                    let refused = !admitted && !self.limiters[*key].1.fits(now, *cost);
                    let used = self.limiters[*key].1.used(now);
                    history.add(
                        time,
                        *key,
                        LeasesEventKind::Stands { used, held: held(*key), refused },
                    );
                }
                let stands = |&(key, cost): &(usize, u64)| {
                    let (revision, limiter) = &self.limiters[key];
                    let (at, revision) = (limiter.at(now), *revision);
                    Stands { key, cost, at, report: report(limiter.as_ref(), now), revision }
                };
                let limiters = parts.iter().map(stands).collect();
                Some(LeasesReply::Step { request: (*request)?, admitted, limiters })
            }
            LeasesQuestion::Lease { id, key, units, life, oldest } => {
                let (revision, limiter) = &mut self.limiters[*key];
                let end = limiter.lease(now, *units, *life);
                let at = limiter.at(now);
                if let Some(end) = end {
                    let end = time + end.since(at).as_micros();
                    let what = LeasesEventKind::Granted {
                        id: *id,
                        units: *units,
                        end,
                        revision: *revision,
                    };
                    history.add(time, *key, what);
                    let is_done = |(of, other): &(usize, GrantId)| {
                        of == key && (other.0, other.1) == (id.0, id.1) && other.2 < *oldest
                    };
                    self.records.retain(|lease, _| !is_done(lease));
                    self.records.insert((*key, *id), RecordedLease { units: *units, at });
                }
                let lease = end.map(|end| TakenLease { at, end, units: *units });
                let report = report(limiter.as_ref(), now);
                Some(LeasesReply::Lease { id: *id, key: *key, lease, report, revision: *revision })
            }
            &LeasesQuestion::GiveBack { id, number, key, units, kept, earlier } => {
                if let Some(at) = self.consume(key, id, units, kept) {
                    let since = at.minus(earlier);
                    let limiter = &mut self.limiters[key].1;
                    let is_back = limiter.give_back_lease(now, units, since);
                    let since = before(time, limiter.at(now).since(since));
                    if is_back {
                        history.add(time, key, LeasesEventKind::Returned { id, units, since });
                    } else {
                        history.miss(
                            time,
                            key,
                            TakenFor::Lease(id),
                            units,
                            LeasesLossCause::TooLate,
                        );
                    }
                }
                let report = report(self.limiters[key].1.as_ref(), now);
                Some(LeasesReply::Back { number, key, report })
            }
            &LeasesQuestion::Undo { by, key, units, since, .. } => {
                let limiter = &mut self.limiters[key].1;
                if limiter.give_back_lease(now, units, since) {
                    let since = before(time, limiter.at(now).since(since));
                    history.add(time, key, LeasesEventKind::Undone { by, units, since });
                } else {
                    history.miss(time, key, TakenFor::Request(by), units, LeasesLossCause::TooLate);
                }
                None
            }
        }
    }

    /// Takes units out of the record of a lease. Returns when they were taken; `None` if it does not have them.
    fn consume(&mut self, key: usize, id: GrantId, units: u64, kept: u64) -> Option<Timestamp> {
        let recorded = self.records.get_mut(&(key, id))?;
        if recorded.units < kept + units {
            return None;
        }
        recorded.units = kept;
        Some(recorded.at)
    }

    /// Returns a replica that has all data.
    pub(super) fn successor(&mut self) -> Self {
        let mut new = Self::new(self.plan);
        self.copy();
        new.limiters = std::mem::replace(&mut self.replica, fresh(self.plan));
        new.records.clone_from(&self.records);
        new.stepped = self.stepped;
        new
    }

    pub(super) fn copy(&mut self) {
        self.replica =
            self.limiters.iter().map(|(revision, one)| (*revision, one.copy())).collect();
        self.copied_records.clone_from(&self.records);
    }

    /// Loses the data that the replica does not have, or all data.
    pub(super) fn lose(&mut self, time: u64, to_copy: bool, history: &mut LeasesHistory) {
        let now = self.clock(time);
        self.records = if to_copy { self.copied_records.clone() } else { LeaseRecords::new() };
        for (key, plan) in self.plan.keys.iter().enumerate() {
            let revision = self.limiters[key].0;
            let (copied, copy) = &mut self.replica[key];
            let mut found =
                if to_copy { Some(copy.copy()) } else { limiter(&plan.rules[revision]) };
            if *copied != revision && to_copy {
                found = copy.amended(now, &plan.rules[revision]);
            }
            if let Some(found) = found {
                self.limiters[key].1 = found;
            }
            history.add(time, key, LeasesEventKind::Lost);
        }
    }

    pub(super) fn change(&mut self, time: u64, key: usize, history: &mut LeasesHistory) {
        let now = self.clock(time);
        if let Some(new) = self.limiters[key].1.amended(now, &self.plan.keys[key].rules[1]) {
            self.limiters[key] = (1, new);
            history.add(time, key, LeasesEventKind::Changed);
        }
    }
}

fn report(limiter: &dyn SimLimiter, now: Timestamp) -> LimiterReport {
    let at = limiter.at(now);
    LimiterReport { remaining: limiter.remaining(now), at, idle_at: at }
}

/// The time of a run that is `by` before `time`.
const fn before(time: u64, by: Micros) -> u64 {
    time.saturating_sub(by.as_micros())
}

fn fresh(plan: &LeasesPlan) -> Vec<(usize, Box<dyn SimLimiter>)> {
    let limiters = plan.keys.iter().filter_map(|key| limiter(&key.rules[0]));
    limiters.map(|limiter| (0, limiter)).collect()
}
