//! A run: jobs on nodes, one limiter in a store, a resource that checks tokens, and the faults of the plan.

use testkit::traffic::Rng;
use tidegate_core::{Timestamp, Token};

use super::super::clock::MachineClocks;
use super::event_queue::EventQueue;
use super::history::{PermitGrant, PermitsEvent, PermitsEventKind, PermitsHistory};
use super::holder::{Act, Job, JobCourse, PermitsNode, PermitsQuestion, PermitsReply};
use super::plan::{PermitsFault, PermitsPlan};
use crate::step::Step;
use crate::store::fake::{FakeLimiter, limiter};

#[derive(Clone, Debug)]
enum PermitsNext {
    Begin { node: usize },
    GoOn { node: usize, begun: u64, job: Job },
    GiveUp { node: usize, begun: u64, job: Job },
    ToStore { node: usize, begun: u64, question: PermitsQuestion },
    ToNode { node: usize, begun: u64, reply: PermitsReply },
    ToResource(PermitGrant),
    Fault(PermitsFault),
    Start { node: usize },
}

#[derive(Debug)]
pub(super) struct PermitsWorld<'a> {
    plan: &'a PermitsPlan,
    rng: Rng,
    time: u64,
    events: EventQueue<PermitsNext>,
    nodes: Vec<PermitsNode>,
    limiter: Box<dyn FakeLimiter>,
    /// The replica's limiter, and true if it is under the second rule.
    replica: (Box<dyn FakeLimiter>, bool),
    is_changed: bool,
    /// By how much the store's clock has stepped.
    stepped: i64,
    /// The largest token that the resource has seen.
    largest: Option<Token>,
    history: PermitsHistory,
}

impl<'a> PermitsWorld<'a> {
    pub(super) fn new(plan: &'a PermitsPlan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let mut clock = |drift: &i64| MachineClocks::new(rng.below(1 << 40), *drift);
        let nodes = plan.drifts.iter().map(|drift| PermitsNode::new(0, plan.life, clock(drift)));
        let nodes: Vec<_> = nodes.collect();
        let mut world = Self {
            plan,
            rng,
            time: 0,
            events: EventQueue::new(),
            nodes,
            limiter: fresh(plan, false),
            replica: (fresh(plan, false), false),
            is_changed: false,
            stepped: 0,
            largest: None,
            history: PermitsHistory::default(),
        };
        for node in 0..plan.drifts.len() {
            world.events.add(0, PermitsNext::Begin { node });
        }
        for (time, fault) in &plan.faults {
            world.events.add(*time, PermitsNext::Fault(*fault));
        }
        world
    }

    pub(super) fn run(mut self) -> PermitsHistory {
        while let Some((time, next)) = self.events.pop() {
            self.time = time;
            self.happen(next);
        }
        self.history
    }

    fn after(&mut self, time: u64, next: PermitsNext) {
        self.events.add(self.time + time, next);
    }

    fn store_clock(&self) -> Timestamp {
        Timestamp::from_micros((self.plan.origin + self.time).saturating_add_signed(self.stepped))
    }

    fn is_running(&self, node: usize, begun: u64) -> bool {
        self.nodes[node].up && self.nodes[node].begun == begun
    }

    fn is_cut(&self, node: usize) -> bool {
        self.time < self.nodes[node].cut_until
    }

    fn happen(&mut self, next: PermitsNext) {
        if let Some(node) = next.of_node()
            && self.nodes[node].sleeps_until > self.time
        {
            return self.events.add(self.nodes[node].sleeps_until, next);
        }
        match next {
            PermitsNext::Begin { node } => self.begin(node),
            PermitsNext::GoOn { node, begun, job } if self.is_running(node, begun) => {
                let acts = self.nodes[node].go_on(self.time, job, &mut self.history);
                if acts.iter().any(|act| matches!(act, Act::Write(_))) {
                    let up = self.nodes.iter().filter(|node| node.up);
                    let units = up.map(|node| node.believed(self.time)).sum();
                    self.history.working.push((self.time, units));
                }
                acts.into_iter().for_each(|act| self.act(node, act));
            }
            PermitsNext::GiveUp { node, begun, job } if self.is_running(node, begun) => {
                self.nodes[node].give_up(job);
            }
            PermitsNext::ToNode { node, begun, reply }
                if self.is_running(node, begun) && !self.is_cut(node) =>
            {
                let act = self.nodes[node].reply(self.time, reply, &mut self.history);
                act.into_iter().for_each(|act| self.act(node, act));
            }
            PermitsNext::GoOn { .. } | PermitsNext::GiveUp { .. } | PermitsNext::ToNode { .. } => {}
            PermitsNext::ToStore { node, begun, question } => {
                self.reach_store(node, begun, question)
            }
            PermitsNext::ToResource(grant) => self.write(grant),
            PermitsNext::Fault(fault) => self.fault(fault),
            PermitsNext::Start { node } => self.start(node),
        }
    }

    /// Begins one job or a few, whose questions come to the store together.
    fn begin(&mut self, node: usize) {
        if self.time >= self.plan.length {
            return;
        }
        let pause = self.rng.below(2 * self.plan.pause) + 1;
        self.after(pause, PermitsNext::Begin { node });
        let delay = self.plan.network.delay(&mut self.rng);
        let jobs = if self.rng.chance(self.plan.together_percent) { 3 } else { 1 };
        for _ in 0..if self.nodes[node].up { jobs } else { 0 } {
            let work = JobCourse {
                units: self.rng.between(1, self.plan.largest_cost),
                time: self.rng.below(self.plan.longest_work) + 1,
                renews: self.rng.chance(80),
                forgets: self.rng.chance(5),
            };
            let begun = self.nodes[node].begun;
            let (job, question) = self.nodes[node].begin(self.time, work);
            self.after(self.plan.deadline, PermitsNext::GiveUp { node, begun, job });
            if let Some(delay) = delay.filter(|_| !self.is_cut(node)) {
                self.after(delay, PermitsNext::ToStore { node, begun, question });
            }
        }
    }

    fn act(&mut self, node: usize, act: Act) {
        match act {
            Act::Ask(question) => self.ask(node, question),
            Act::Write(grant) => {
                if let Some(delay) = self.plan.network.delay(&mut self.rng) {
                    self.after(delay, PermitsNext::ToResource(grant));
                }
            }
            Act::GoOn(job) => {
                let (begun, pause) = (self.nodes[node].begun, self.plan.life.as_micros() / 5);
                let pause = self.rng.below(pause) + 1;
                self.after(pause, PermitsNext::GoOn { node, begun, job });
            }
        }
    }

    /// Sends a renewal or a return, which may be sent again.
    fn ask(&mut self, node: usize, question: PermitsQuestion) {
        let begun = self.nodes[node].begun;
        for _ in 0..self.plan.network.times(&mut self.rng) {
            let delay = self.plan.network.delay(&mut self.rng);
            if let Some(delay) = delay.filter(|_| !self.is_cut(node)) {
                self.after(delay, PermitsNext::ToStore { node, begun, question });
            }
        }
    }

    fn reach_store(&mut self, node: usize, begun: u64, question: PermitsQuestion) {
        let now = self.store_clock();
        let (what, reply) = match question {
            PermitsQuestion::Take { job, units } => {
                let token = self.limiter.run(Step::Ask, units, now).token;
                let number = self.history.store.len();
                let grant = token.map(|token| PermitGrant { token, units, number });
                (PermitsEventKind::Asked { units, token }, Some(PermitsReply::Taken { job, grant }))
            }
            PermitsQuestion::Renew { job, token, sent } => {
                let renew = Step::Renew { token: Some(token) };
                let is_out = self.limiter.run(renew, 0, now).verdict.is_allowed();
                let reply = PermitsReply::Renewed { job, is_out, sent };
                (PermitsEventKind::Renewed { token, is_out }, Some(reply))
            }
            PermitsQuestion::Return { token, units } => {
                let back = Step::Settle { actual: 0, token: Some(token), since: None };
                self.limiter.run(back, units, now);
                (PermitsEventKind::Returned { token, units }, None)
            }
        };
        self.note(what);
        if self.rng.chance(self.plan.swept_percent) && self.limiter.forget_if_idle(now) {
            self.note(PermitsEventKind::Forgotten);
        }
        let Some(reply) = reply else { return };
        for _ in 0..self.plan.network.times(&mut self.rng) {
            if let Some(delay) = self.plan.network.delay(&mut self.rng) {
                self.after(delay, PermitsNext::ToNode { node, begun, reply });
            }
        }
    }

    fn note(&mut self, what: PermitsEventKind) {
        let now = self.store_clock();
        let used = self.limiter.used(now);
        self.history.store.push(PermitsEvent { now: now.as_micros(), what, used });
    }

    /// The resource accepts a write under a token that is no smaller than any that it has seen.
    fn write(&mut self, grant: PermitGrant) {
        if self.largest.is_none_or(|largest| grant.token >= largest) {
            self.largest = Some(grant.token);
            self.history.written.push(grant.number);
        } else {
            self.history.fenced += 1;
        }
    }

    fn fault(&mut self, fault: PermitsFault) {
        match fault {
            PermitsFault::Crash { node, again_after } if self.nodes[node].up => {
                self.history.crashes += 1;
                self.stop(node, again_after);
            }
            PermitsFault::Leave { node, again_after } if self.nodes[node].up => {
                for question in self.nodes[node].leave() {
                    self.ask(node, question);
                }
                self.stop(node, again_after);
            }
            PermitsFault::Crash { .. } | PermitsFault::Leave { .. } => {}
            PermitsFault::Sleep { node, time } => {
                self.nodes[node].sleeps_until = self.time + time;
                self.nodes[node].clock.sleep(time);
            }
            PermitsFault::Cut { node, time } => self.nodes[node].cut_until = self.time + time,
            PermitsFault::Step { node, by } => self.nodes[node].clock.step(by),
            PermitsFault::StoreStep { by } => {
                self.stepped += by;
                if by > 0 {
                    self.history.steps.push(self.time);
                }
            }
            PermitsFault::Copy => {
                self.replica = (self.limiter.copy(), self.is_changed);
                self.note(PermitsEventKind::Copied);
            }
            PermitsFault::Loss { to_copy } => self.lose(to_copy),
            PermitsFault::Change => {
                self.is_changed = true;
                // A store keeps no idle limiter under other values.
                if self.limiter.forget_if_idle(self.store_clock()) {
                    self.note(PermitsEventKind::Forgotten);
                }
                self.amend();
                self.note(PermitsEventKind::Changed { limit: self.plan.limits[1] });
            }
        }
    }

    fn stop(&mut self, node: usize, again_after: u64) {
        self.nodes[node].up = false;
        self.after(again_after, PermitsNext::Start { node });
    }

    fn start(&mut self, node: usize) {
        let clock = MachineClocks::new(self.rng.below(1 << 40), self.plan.drifts[node]);
        let PermitsNode { begun, cut_until, .. } = self.nodes[node];
        self.nodes[node] = PermitsNode::new(begun + 1, self.plan.life, clock);
        self.nodes[node].cut_until = cut_until;
    }

    fn lose(&mut self, to_copy: bool) {
        if to_copy {
            self.limiter = self.replica.0.copy();
            if self.replica.1 != self.is_changed {
                self.amend();
            }
        } else {
            self.limiter = fresh(self.plan, self.is_changed);
        }
        self.history.losses.push(self.time);
        self.note(PermitsEventKind::Lost { to_copy });
    }

    fn amend(&mut self) {
        let now = self.store_clock();
        if let Some(amended) = self.limiter.carried_to(&self.plan.rule(true), now) {
            self.limiter = amended;
        }
    }
}

fn fresh(plan: &PermitsPlan, is_changed: bool) -> Box<dyn FakeLimiter> {
    limiter(&plan.rule(is_changed)).expect("the rule of a plan has a limit")
}

impl PermitsNext {
    /// The node that does this, and does not while it sleeps.
    const fn of_node(&self) -> Option<usize> {
        match self {
            Self::Begin { node }
            | Self::GoOn { node, .. }
            | Self::GiveUp { node, .. }
            | Self::ToNode { node, .. } => Some(*node),
            Self::ToStore { .. } | Self::ToResource(_) | Self::Fault(_) | Self::Start { .. } => {
                None
            }
        }
    }
}
