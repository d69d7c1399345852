//! A node and its jobs. Each takes a permit, renews it every third of its life, counts its life from before the request
//! was sent, works until then at most, and returns it: as the guide of `concurrency` asks for.

use std::collections::BTreeMap;

use tidegate_core::{Micros, Token};

use super::super::clock::MachineClocks;
use super::history::{PermitGrant, PermitsHistory};
use crate::lease::terms::shortened;

/// A job, by its number on its node.
pub(super) type Job = u64;

/// A question to the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum PermitsQuestion {
    Take { job: Job, units: u64 },
    Renew { job: Job, token: Token, sent: Micros },
    Return { token: Token, units: u64 },
}

/// A reply of the store. It repeats when the question was sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum PermitsReply {
    Taken { job: Job, grant: Option<PermitGrant> },
    Renewed { job: Job, is_out: bool, sent: Micros },
}

/// The activity of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Ask(PermitsQuestion),
    /// The job writes to the resource.
    Write(PermitGrant),
    /// The job goes on after a pause.
    GoOn(Job),
}

/// The course of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobCourse {
    pub(super) units: u64,
    pub(super) time: u64,
    pub(super) renews: bool,
    /// It ends without returning its permit.
    pub(super) forgets: bool,
}

#[derive(Clone, Copy, Debug)]
struct HeldPermit {
    grant: PermitGrant,
    /// The job works no longer than this.
    until: Micros,
    /// When the permit was asked for, or last renewed.
    asked: Micros,
    done: Micros,
}

impl HeldPermit {
    /// Returns whether the permit has ended, as far as its holder knows.
    fn has_ended(&self, now: Micros) -> bool {
        now >= self.until
    }
}

#[derive(Clone, Copy, Debug)]
struct Running {
    work: JobCourse,
    begun: Micros,
    /// `None` while it waits for its permit.
    held: Option<HeldPermit>,
}

#[derive(Debug)]
pub(super) struct PermitsNode {
    /// The number of times that it has begun.
    pub(super) begun: u64,
    pub(super) up: bool,
    pub(super) sleeps_until: u64,
    pub(super) cut_until: u64,
    pub(super) clock: MachineClocks,
    life: Micros,
    jobs: BTreeMap<Job, Running>,
    last_job: Job,
}

impl PermitsNode {
    pub(super) fn new(begun: u64, life: Micros, clock: MachineClocks) -> Self {
        let jobs = BTreeMap::new();
        Self { begun, up: true, sleeps_until: 0, cut_until: 0, clock, life, jobs, last_job: 0 }
    }

    fn now(&self, time: u64) -> Micros {
        self.clock.boot(time)
    }

    /// The units that jobs have as far as they know.
    pub(super) fn believed(&self, time: u64) -> u64 {
        let now = self.now(time);
        let held =
            self.jobs.values().filter_map(|job| job.held).filter(|held| !held.has_ended(now));
        held.map(|held| held.grant.units).sum()
    }

    pub(super) fn begin(&mut self, time: u64, work: JobCourse) -> (Job, PermitsQuestion) {
        self.last_job += 1;
        let (job, begun) = (self.last_job, self.now(time));
        self.jobs.insert(job, Running { work, begun, held: None });
        (job, PermitsQuestion::Take { job, units: work.units })
    }

    /// Stops waiting for a permit. If it comes nevertheless, it is returned.
    pub(super) fn give_up(&mut self, job: Job) {
        if self.jobs.get(&job).is_some_and(|job| job.held.is_none()) {
            self.jobs.remove(&job);
        }
    }

    pub(super) fn reply(
        &mut self,
        time: u64,
        reply: PermitsReply,
        history: &mut PermitsHistory,
    ) -> Option<Act> {
        match reply {
            PermitsReply::Taken { job, grant } => self.taken(time, job, grant, history),
            PermitsReply::Renewed { job, is_out, sent } => {
                self.renewed(job, is_out, sent, history);
                None
            }
        }
    }

    fn taken(
        &mut self,
        time: u64,
        job: Job,
        grant: Option<PermitGrant>,
        history: &mut PermitsHistory,
    ) -> Option<Act> {
        let now = self.now(time);
        let Some(grant) = grant else {
            self.give_up(job);
            return None;
        };
        let Some(running) = self.jobs.get_mut(&job) else {
            history.late += 1;
            return Some(Act::Ask(returned(grant)));
        };
        if running.held.is_some() {
            return None;
        }
        let (until, asked) = (running.begun.plus(shortened(self.life)), running.begun);
        let done = now.plus(Micros::from_micros(running.work.time));
        running.held = Some(HeldPermit { grant, until, asked, done });
        Some(Act::GoOn(job))
    }

    fn renewed(&mut self, job: Job, is_out: bool, sent: Micros, history: &mut PermitsHistory) {
        let held = self.jobs.get_mut(&job).and_then(|job| job.held.as_mut());
        match held {
            Some(held) if is_out => {
                held.until = held.until.max(sent.plus(shortened(self.life)));
            }
            Some(_) => {
                history.answered_late += 1;
                self.jobs.remove(&job);
            }
            None => {}
        }
    }

    /// Goes on with a job, if it has not ended. One whose time is over returns its permit as well, which may be too late.
    pub(super) fn go_on(&mut self, time: u64, job: Job, history: &mut PermitsHistory) -> Vec<Act> {
        let (now, life) = (self.now(time), self.life.as_micros());
        let Some(running) = self.jobs.get_mut(&job) else { return Vec::new() };
        let Some(held) = &mut running.held else { return Vec::new() };
        let grant = held.grant;
        if now >= held.done || held.has_ended(now) {
            history.out_of_time += u64::from(now < held.done);
            let forgets = running.work.forgets;
            self.jobs.remove(&job);
            return if forgets { Vec::new() } else { vec![Act::Ask(returned(grant))] };
        }
        let mut acts = vec![Act::Write(grant)];
        if running.work.renews && now >= held.asked.plus(Micros::from_micros(life / 3)) {
            held.asked = now;
            acts.push(Act::Ask(PermitsQuestion::Renew { job, token: grant.token, sent: now }));
        }
        acts.push(Act::GoOn(job));
        acts
    }

    /// Ends all jobs, and returns their permits.
    pub(super) fn leave(&mut self) -> Vec<PermitsQuestion> {
        let jobs = std::mem::take(&mut self.jobs);
        jobs.into_values().filter_map(|job| job.held).map(|held| returned(held.grant)).collect()
    }
}

const fn returned(grant: PermitGrant) -> PermitsQuestion {
    PermitsQuestion::Return { token: grant.token, units: grant.units }
}
