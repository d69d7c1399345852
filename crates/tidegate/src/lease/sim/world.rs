//! A run: events in the order of their time, the messages on their way, and the faults of the plan.

mod faults;
mod former;
mod traffic;

use std::collections::BTreeMap;

use testkit::traffic::Rng;

use super::clock::MachineClocks;
use super::event_queue::EventQueue;
use super::history::{LeasesHistory, LeasesLossCause, TakenFor};
use super::network::Network;
use super::node::{LeasesNode, RestDue, SentQuestion, Wait};
use super::plan::{LeasesFault, LeasesPlan};
use super::store::{LeasesQuestion, LeasesReply, LeasesStore};
use former::FormerStore;

#[derive(Clone, Debug)]
enum LeasesNext {
    Request {
        node: usize,
    },
    Due {
        node: usize,
        begun: u64,
        due: RestDue,
    },
    ToStore {
        node: usize,
        begun: u64,
        server: usize,
        question: LeasesQuestion,
    },
    ToNode {
        node: usize,
        begun: u64,
        server: usize,
        reply: LeasesReply,
    },
    GiveUp {
        node: usize,
        begun: u64,
        wait: Wait,
    },
    Fault(LeasesFault),
    Begin {
        node: usize,
    },
    Hear {
        node: usize,
        key: usize,
    },
    Beat {
        node: usize,
        begun: u64,
    },
    /// A replica takes the place of the store.
    Promote,
}

#[derive(Debug)]
pub(super) struct LeasesWorld<'a> {
    plan: &'a LeasesPlan,
    rng: Rng,
    /// The requests of each node's clients. They do not depend on other events.
    traffic: Vec<Rng>,
    /// The copies of replies on their way, by the source of their units, until a node receives the first.
    replies: BTreeMap<TakenFor, u64>,
    time: u64,
    events: EventQueue<LeasesNext>,
    nodes: Vec<LeasesNode<'a>>,
    store: LeasesStore<'a>,
    /// The number of times that a replica has taken the place of the store.
    server: usize,
    former: Option<FormerStore<'a>>,
    /// The store stands still until then, and it is known from a deadline after the first of these times on.
    frozen: [u64; 2],
    /// The store is away until then.
    away_until: u64,
    history: LeasesHistory,
}

impl<'a> LeasesWorld<'a> {
    pub(super) fn new(plan: &'a LeasesPlan) -> Self {
        let mut world = Self {
            plan,
            rng: Rng::new(!plan.seed),
            traffic: Vec::new(),
            replies: BTreeMap::new(),
            time: 0,
            events: EventQueue::new(),
            nodes: Vec::new(),
            store: LeasesStore::new(plan),
            server: 0,
            former: None,
            frozen: [0; 2],
            away_until: 0,
            history: LeasesHistory::default(),
        };
        for node in 0..plan.drifts.len() {
            let clock = world.clock(node);
            world.nodes.push(LeasesNode::new(plan, node, 0, clock));
            world.nodes[node].up = false;
            world.traffic.push(Rng::new(plan.seed ^ (node as u64 + 1) << 32));
            world.at(plan.joins[node], LeasesNext::Begin { node });
            world.at(0, LeasesNext::Request { node });
        }
        for (time, fault) in &plan.faults {
            world.at(*time, LeasesNext::Fault(*fault));
        }
        world
    }

    fn clock(&mut self, node: usize) -> MachineClocks {
        MachineClocks::new(self.rng.below(1 << 40), self.plan.drifts[node])
    }

    fn at(&mut self, time: u64, next: LeasesNext) {
        self.events.add(time, next);
    }

    /// Runs to the end, when no lease is left and no message is on its way.
    pub(super) fn run(mut self) -> LeasesHistory {
        while let Some((time, next)) = self.events.pop() {
            self.time = time;
            self.happen(next);
        }
        self.time += self.longest_life();
        self.history.ended = self.time;
        self.ask_for_the_rest();
        let up = self.nodes.iter().filter(|node| node.up);
        self.history.accounts = up.map(LeasesNode::account).collect();
        self.history
    }

    fn longest_life(&self) -> u64 {
        self.plan.keys.iter().map(|key| 2 * key.life.as_micros()).max().unwrap_or_default()
    }

    fn happen(&mut self, next: LeasesNext) {
        if let Some(node) = next.of_node()
            && self.nodes[node].sleeps_until > self.time
        {
            return self.at(self.nodes[node].sleeps_until, next);
        }
        match next {
            LeasesNext::Request { node } => self.request(node),
            LeasesNext::Due { node, begun, due } => {
                if self.is_running(node, begun) {
                    let sent = self.nodes[node].give_back_rest(self.time, due, &mut self.history);
                    self.send(node, sent);
                }
            }
            LeasesNext::ToStore { node, begun, server, question } if server < self.server => {
                self.reach_former(node, begun, server, question);
            }
            LeasesNext::ToStore { node, begun, server, question } if self.time < self.frozen[1] => {
                self.at(self.frozen[1], LeasesNext::ToStore { node, begun, server, question });
            }
            LeasesNext::ToStore { question, .. } if self.time < self.away_until => {
                self.not_heard(&question);
            }
            LeasesNext::ToStore { node, begun, question, .. } => {
                self.reach_store(node, begun, &question);
            }
            LeasesNext::ToNode { node, begun, server, reply } => {
                if self.receives(node, begun, &reply) {
                    let history = &mut self.history;
                    let sent = self.nodes[node].reply(self.time, server, reply, history);
                    self.send(node, sent);
                    self.note_due(node);
                }
            }
            LeasesNext::GiveUp { node, begun, wait } => {
                if self.is_running(node, begun) {
                    let sent = self.nodes[node].give_up(self.time, wait, &mut self.history);
                    self.send(node, sent);
                }
            }
            LeasesNext::Fault(fault) => self.fault(fault),
            LeasesNext::Promote => self.promote(),
            LeasesNext::Begin { node } => self.begin(node),
            LeasesNext::Beat { node, begun } => {
                if self.is_running(node, begun) && !self.is_cut(node) {
                    let nodes = self.nodes.iter().filter(|node| node.up).count() as u64;
                    let sent = self.nodes[node].hear(nodes, &mut self.history);
                    self.send(node, sent);
                }
            }
            LeasesNext::Hear { node, key } => {
                self.nodes[node].revisions[key] = 1;
                if self.nodes[node].up {
                    let sent = self.nodes[node].drop_leases(self.time, key, &mut self.history);
                    self.send(node, sent);
                }
            }
        }
    }

    /// Returns whether a node receives a reply. Units without a reply are lost.
    fn receives(&mut self, node: usize, begun: u64, reply: &LeasesReply) -> bool {
        let (running, is_cut) = (self.is_running(node, begun), self.is_cut(node));
        let receives = running && !is_cut;
        let Some((of, parts)) = reply.took() else { return receives };
        let Some(copies) = self.replies.get_mut(&of) else { return receives };
        *copies -= 1;
        let is_last = *copies == 0;
        if receives || is_last {
            self.replies.remove(&of);
        }
        if is_last && !receives {
            let why = if running { LeasesLossCause::Unanswered } else { LeasesLossCause::Crashed };
            self.miss(of, &parts, why);
        }
        receives
    }

    /// Notes that units of a request are lost. Units of a lease come back as long as its node runs.
    fn miss(&mut self, of: TakenFor, parts: &[(usize, u64)], why: LeasesLossCause) {
        if let TakenFor::Lease(_) = of {
            return;
        }
        for (key, units) in parts {
            self.history.miss(self.time, *key, of, *units, why);
        }
    }

    fn is_cut(&self, node: usize) -> bool {
        self.time < self.nodes[node].cut_until
    }

    fn is_running(&self, node: usize, begun: u64) -> bool {
        self.nodes[node].hears() && self.nodes[node].begun == begun
    }

    fn send(&mut self, node: usize, sent: Vec<SentQuestion>) {
        let begun = self.nodes[node].begun;
        for (question, wait) in sent {
            if let Some(wait) = wait {
                self.at(self.time + self.plan.deadline, LeasesNext::GiveUp { node, begun, wait });
            }
            if let Some(Wait::Lease { key, ticket }) = wait {
                let (wait, after) = (Wait::Unknown { key, ticket }, self.longest_silence());
                self.at(self.time + after, LeasesNext::GiveUp { node, begun, wait });
            }
            let delay = self.plan.network.delay(&mut self.rng);
            if let Some(delay) = delay.filter(|_| !self.is_cut(node)) {
                let server = match question {
                    LeasesQuestion::Undo { server, .. } => server.min(self.server),
                    _ => self.server,
                };
                self.at(self.time + delay, LeasesNext::ToStore { node, begun, server, question });
            } else {
                self.not_heard(&question);
            }
        }
    }

    /// A question did not reach the store. Units of a request that it gives back are lost.
    fn not_heard(&mut self, question: &LeasesQuestion) {
        if let LeasesQuestion::Undo { by, key, units, .. } = question {
            self.not_undone(*by, *key, *units);
        }
    }

    /// After this time no reply comes any more.
    fn longest_silence(&self) -> u64 {
        let frozen = self.plan.faults.iter().map(|(_, fault)| match fault {
            LeasesFault::Freeze { time } => *time,
            LeasesFault::Failover { time } => 2 * *time + self.plan.deadline,
            _ => 0,
        });
        2 * Network::LONGEST + frozen.sum::<u64>()
    }

    /// Notes when leases of a node are due.
    fn note_due(&mut self, node: usize) {
        let begun = self.nodes[node].begun;
        for due in std::mem::take(&mut self.nodes[node].due) {
            let delayed = self.rng.below(self.plan.delayed[node]);
            self.at(self.time + due.after + delayed, LeasesNext::Due { node, begun, due });
        }
    }

    fn reach_store(&mut self, node: usize, begun: u64, question: &LeasesQuestion) {
        let (time, nodes) = (self.time, &self.nodes);
        let up = || nodes.iter().filter(|node| node.up);
        let held = |key| up().map(|node| node.held(time, key)).sum();
        let Some(reply) = self.store.ask(time, question, &mut self.history, held) else { return };
        let server = self.server;
        let took = reply.took();
        let mut copies = 0;
        for _ in 0..self.plan.network.times(&mut self.rng) {
            if let Some(delay) = self.plan.network.delay(&mut self.rng) {
                let reply = reply.clone();
                self.at(time + delay, LeasesNext::ToNode { node, begun, server, reply });
                copies += 1;
            }
        }
        match took {
            Some((of, parts)) if copies == 0 => self.miss(of, &parts, LeasesLossCause::Unanswered),
            Some((of, _)) => drop(self.replies.insert(of, copies)),
            None => {}
        }
    }

    fn begin(&mut self, node: usize) {
        let clock = self.clock(node);
        let old = &mut self.nodes[node];
        // A node that left has waited long enough.
        old.crash(&mut self.history);
        let mut new = LeasesNode::new(self.plan, node, old.begun + 1, clock);
        new.revisions.clone_from(&old.revisions);
        new.cut_until = old.cut_until;
        self.nodes[node] = new;
        self.beat();
    }

    /// Lets all nodes notice after a while how many there are.
    fn beat(&mut self) {
        for node in 0..self.nodes.len() {
            let (begun, after) = (self.nodes[node].begun, self.rng.below(self.plan.beat));
            self.at(self.time + after, LeasesNext::Beat { node, begun });
        }
    }
}

impl LeasesNext {
    /// The node that does this, and does not while it sleeps.
    const fn of_node(&self) -> Option<usize> {
        match self {
            Self::Request { node }
            | Self::Due { node, .. }
            | Self::ToNode { node, .. }
            | Self::GiveUp { node, .. }
            | Self::Hear { node, .. }
            | Self::Beat { node, .. } => Some(*node),
            Self::ToStore { .. } | Self::Fault(_) | Self::Begin { .. } | Self::Promote => None,
        }
    }
}
