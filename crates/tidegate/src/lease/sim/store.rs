//! The simulated store: one limiter for each key, steps that are atomic, and a clock that all times are measured by.

use tidegate_core::{Micros, Timestamp};

use super::super::Report;
use super::history::{GrantId, History, RequestId, Source, What, Why};
use super::plan::Plan;
use super::stored::{Stored, limiter};

/// A question of a node to the store.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// Decides a request: keys and costs.
    Step {
        request: Option<RequestId>,
        parts: Vec<(usize, u64)>,
    },
    Lease {
        id: GrantId,
        key: usize,
        units: u64,
        life: Micros,
    },
    GiveBack {
        of: Source,
        key: usize,
        units: u64,
        since: Timestamp,
        revision: usize,
        /// Whether the lease was due.
        was_due: bool,
    },
}

/// A reply of the store.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Step {
        request: RequestId,
        at: Timestamp,
        admitted: bool,
        limiters: Vec<Stands>,
    },
    Lease {
        id: GrantId,
        key: usize,
        lease: Option<Leased>,
        report: Report,
        revision: usize,
    },
    /// Units of a lease that was due are back.
    Back {
        key: usize,
        report: Report,
    },
}

impl Reply {
    /// Returns what units were taken for by the step that replies so, and by key how many.
    pub(super) fn took(&self) -> Option<(Source, Vec<(usize, u64)>)> {
        match self {
            Self::Step { request, admitted: true, limiters, .. } => {
                let parts = limiters.iter().map(|one| (one.key, one.cost)).collect();
                Some((Source::Request(*request), parts))
            }
            Self::Lease { id, key, lease: Some(lease), .. } => {
                Some((Source::Lease(*id), vec![(*key, lease.units)]))
            }
            _ => None,
        }
    }
}

/// How a limiter stands after a step, under which of its rules, and the cost of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stands {
    pub(super) key: usize,
    pub(super) cost: u64,
    pub(super) report: Report,
    pub(super) revision: usize,
}

/// A lease that was taken: when, and before when it can be spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leased {
    pub(super) at: Timestamp,
    pub(super) end: Timestamp,
    pub(super) units: u64,
}

#[derive(Debug)]
pub(super) struct Store<'a> {
    plan: &'a Plan,
    limiters: Vec<(usize, Box<dyn Stored>)>,
    replica: Vec<(usize, Box<dyn Stored>)>,
}

impl<'a> Store<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self { plan, limiters: fresh(plan), replica: fresh(plan) }
    }

    fn clock(&self, time: u64) -> Timestamp {
        Timestamp::from_micros(self.plan.origin + time)
    }

    /// Runs one step; `held` returns the units of a key that all nodes hold.
    pub(super) fn ask(
        &mut self,
        time: u64,
        question: &Question,
        history: &mut History,
        held: impl Fn(usize) -> u64,
    ) -> Option<Reply> {
        let now = self.clock(time);
        match question {
            Question::Step { request, parts } => {
                let mut fit =
                    parts.iter().map(|(key, cost)| self.limiters[*key].1.fits(now, *cost));
                let admitted = fit.by_ref().fold(true, |all, one| all & one);
                drop(fit);
                for (key, cost) in parts {
                    if admitted {
                        self.limiters[*key].1.take(now, *cost);
                        history.add(time, *key, What::Taken { units: *cost, by: *request });
                    }
                    let refused = !admitted && !self.limiters[*key].1.fits(now, *cost);
                    let used = self.limiters[*key].1.used(now);
                    history.add(time, *key, What::Stands { used, held: held(*key), refused });
                }
                let stands = |&(key, cost): &(usize, u64)| {
                    let (revision, limiter) = &self.limiters[key];
                    Stands { key, cost, report: report(limiter.as_ref(), now), revision: *revision }
                };
                let limiters = parts.iter().map(stands).collect();
                Some(Reply::Step { request: (*request)?, at: now, admitted, limiters })
            }
            Question::Lease { id, key, units, life } => {
                let (revision, limiter) = &mut self.limiters[*key];
                let end = limiter.lease(now, *units, *life);
                if let Some(end) = end {
                    let end = end.as_micros() - self.plan.origin;
                    let what = What::Granted { id: *id, units: *units, end, revision: *revision };
                    history.add(time, *key, what);
                }
                let lease = end.map(|end| Leased { at: now, end, units: *units });
                let report = report(limiter.as_ref(), now);
                Some(Reply::Lease { id: *id, key: *key, lease, report, revision: *revision })
            }
            &Question::GiveBack { of, key, units, since, revision, was_due } => {
                let (own, limiter) = &mut self.limiters[key];
                if *own == revision && limiter.give_back_lease(now, units, since) {
                    let since = since.as_micros().saturating_sub(self.plan.origin);
                    let what = match of {
                        Source::Lease(id) => What::Returned { id, units, since },
                        Source::Request(by) => What::Undone { by, units, since },
                    };
                    history.add(time, key, what);
                } else {
                    history.miss(time, key, of, units, Why::TooLate);
                }
                let report = report(self.limiters[key].1.as_ref(), now);
                was_due.then_some(Reply::Back { key, report })
            }
        }
    }

    pub(super) fn copy(&mut self) {
        self.replica =
            self.limiters.iter().map(|(revision, one)| (*revision, one.copy())).collect();
    }

    /// Loses what the replica does not have, or everything.
    pub(super) fn lose(&mut self, time: u64, to_copy: bool, history: &mut History) {
        let now = self.clock(time);
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
            history.add(time, key, What::Lost);
        }
    }

    pub(super) fn change(&mut self, time: u64, key: usize, history: &mut History) {
        let now = self.clock(time);
        if let Some(new) = self.limiters[key].1.amended(now, &self.plan.keys[key].rules[1]) {
            self.limiters[key] = (1, new);
            history.add(time, key, What::Changed);
        }
    }
}

fn report(limiter: &dyn Stored, now: Timestamp) -> Report {
    Report { remaining: limiter.remaining(now), at: now, idle_at: now }
}

fn fresh(plan: &Plan) -> Vec<(usize, Box<dyn Stored>)> {
    let limiters = plan.keys.iter().filter_map(|key| limiter(&key.rules[0]));
    limiters.map(|limiter| (0, limiter)).collect()
}
