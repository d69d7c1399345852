//! A node: a book of leases, and what a gate does around it.

use std::collections::{HashMap, HashSet};

use tidegate_core::Micros;

use super::super::{Ask, Book, Choice, Counts, Grant, Granted, Spent, Unspent, Wanted};
use super::clock::Clock;
use super::history::{Account, GrantId, History, What};
use super::plan::Plan;
use super::store::{Leased, Question, Reply};

/// What gives up waiting when the deadline has passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Request(u64),
    Lease { key: usize, ticket: u64 },
}

/// A question that is sent, and what waits for its reply.
pub(super) type Sent = (Question, Option<Wait>);

/// A request that the store decides, with the units that were spent here before.
#[derive(Clone, Debug)]
struct Waiting {
    asked: Vec<(usize, u64)>,
    spent: Vec<Spent>,
    since: u64,
    revisions: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    plan: &'a Plan,
    number: usize,
    /// How often it has begun.
    pub(super) begun: u64,
    pub(super) up: bool,
    pub(super) sleeps_until: u64,
    pub(super) clock: Clock,
    pub(super) revisions: Vec<usize>,
    book: Book<usize>,
    waiting: HashMap<u64, Waiting>,
    /// Where the units of each lease came from: when they were taken, and under which rule.
    granted: HashMap<u64, (u64, usize)>,
    /// The questions that were answered once.
    answered: HashSet<u64>,
    truly_spent: u64,
    requests: u64,
}

impl<'a> Node<'a> {
    pub(super) fn new(plan: &'a Plan, number: usize, begun: u64, clock: Clock) -> Self {
        Self {
            plan,
            number,
            begun,
            up: true,
            sleeps_until: 0,
            clock,
            revisions: vec![0; plan.keys.len()],
            book: Book::new(plan.keys.len()),
            waiting: HashMap::new(),
            granted: HashMap::new(),
            answered: HashSet::new(),
            truly_spent: 0,
            requests: 0,
        }
    }

    fn now(&self, time: u64) -> Micros {
        self.clock.boot(time)
    }

    pub(super) fn held(&self, time: u64, key: usize) -> u64 {
        self.book.held(self.now(time), &key)
    }

    fn asks<'p>(&self, parts: &'p [(usize, u64)]) -> Vec<Ask<'p, usize>> {
        let terms = |key: usize| self.plan.keys[key].terms[self.revisions[key]];
        let ask = |(key, cost): &'p (usize, u64)| Ask { key, terms: terms(*key), cost: *cost };
        parts.iter().map(ask).collect()
    }

    const fn id(&self, ticket: u64) -> GrantId {
        (self.number, self.begun, ticket)
    }

    /// A client asks this node.
    pub(super) fn request(
        &mut self,
        time: u64,
        parts: Vec<(usize, u64)>,
        history: &mut History,
    ) -> Vec<Sent> {
        let now = self.now(time);
        let mut sent = Vec::new();
        match self.book.decide(now, &self.asks(&parts)) {
            Choice::Here(spent) => {
                let revisions = self.revisions.clone();
                self.admitted(time, &parts, &spent, &revisions, history);
            }
            Choice::Store(spent) => {
                let here = |place| spent.iter().any(|part| part.place == place);
                let rest = (0..).zip(&parts).filter(|(place, _)| !here(*place));
                let rest = rest.map(|(_, part)| *part).collect();
                self.requests += 1;
                let request = self.requests;
                let wait = Some(Wait::Request(request));
                sent.push((Question::Step { request, parts: rest }, wait));
                let revisions = self.revisions.clone();
                let waiting = Waiting { asked: parts.clone(), spent, since: time, revisions };
                self.waiting.insert(request, waiting);
            }
        }
        for (key, _) in parts {
            let wanted = self.book.wants(now, &key, self.plan.drifts.len() as u64);
            if let Some(Wanted { ticket, units }) = wanted {
                let question = Question::Lease { id: self.id(ticket), key, units };
                sent.push((question, Some(Wait::Lease { key, ticket })));
            }
        }
        sent
    }

    fn admitted(
        &mut self,
        time: u64,
        parts: &[(usize, u64)],
        spent: &[Spent],
        revisions: &[usize],
        history: &mut History,
    ) {
        for part in spent {
            let ((key, _), (ticket, units)) = (parts[part.place], part.units_of());
            self.truly_spent += units;
            let what = What::Spent { id: self.id(ticket), units, revision: revisions[key] };
            history.add(time, key, what);
        }
    }

    /// The store replied.
    pub(super) fn reply(&mut self, time: u64, reply: Reply, history: &mut History) -> Vec<Sent> {
        match reply {
            Reply::Step { request, admitted, remaining } => {
                remaining.iter().for_each(|(key, units)| self.book.reported(key, *units));
                self.decided(time, request, admitted, history);
                Vec::new()
            }
            Reply::Lease { id: (.., ticket), key, lease: None, remaining, .. } => {
                self.book.not_granted(self.now(time), &key, ticket);
                self.book.reported(&key, remaining);
                Vec::new()
            }
            Reply::Lease { id: (.., ticket), key, lease: Some(lease), remaining, revision } => {
                self.leased(time, key, ticket, lease, remaining, revision)
            }
        }
    }

    fn leased(
        &mut self,
        time: u64,
        key: usize,
        ticket: u64,
        lease: Leased,
        remaining: u64,
        revision: usize,
    ) -> Vec<Sent> {
        let (now, first) = (self.now(time), self.answered.insert(ticket));
        self.granted.insert(ticket, (lease.at, revision));
        let of_other_values = revision != self.revisions[key];
        let granted = if of_other_values {
            self.book.not_granted(now, &key, ticket);
            Granted::NotAsked
        } else {
            let length = Micros::from_micros(lease.end - lease.at);
            self.book.granted(now, &key, &Grant { ticket, length, remaining })
        };
        if granted == Granted::NotAsked && first {
            vec![self.give_back(&Unspent { key, ticket, units: lease.units })]
        } else {
            Vec::new()
        }
    }

    fn decided(&mut self, time: u64, request: u64, admitted: bool, history: &mut History) {
        let Some(waiting) = self.waiting.remove(&request) else {
            history.late += 1;
            return;
        };
        let Waiting { asked, spent, since, revisions } = waiting;
        if admitted {
            self.admitted(since, &asked, &spent, &revisions, history);
        } else {
            history.put_back += spent.iter().map(|part| part.units_of().1).sum::<u64>();
            self.book.put_back(self.now(time), &self.asks(&asked), &spent);
        }
    }

    /// The deadline of a question has passed. A reply that came before leaves nothing to do.
    pub(super) fn give_up(&mut self, time: u64, wait: Wait, history: &mut History) {
        match wait {
            Wait::Request(request) if self.waiting.contains_key(&request) => {
                self.decided(time, request, false, history);
            }
            Wait::Request(_) => {}
            Wait::Lease { key, ticket } => self.book.not_granted(self.now(time), &key, ticket),
        }
    }

    /// Gives back what is not needed.
    pub(super) fn look(&mut self, time: u64) -> Vec<Sent> {
        let unspent = self.book.unspent(self.now(time));
        unspent.iter().map(|one| self.give_back(one)).collect()
    }

    /// Drops the leases of a key, after a refund or because its rule changed.
    pub(super) fn drop_leases(
        &mut self,
        time: u64,
        key: usize,
        history: &mut History,
    ) -> Vec<Sent> {
        history.add(time, key, What::Dropped { node: self.number });
        let unspent = self.book.drop_those(self.now(time), |other| *other == key);
        unspent.iter().map(|one| self.give_back(one)).collect()
    }

    fn give_back(&self, unspent: &Unspent<usize>) -> Sent {
        let Unspent { key, ticket, units } = *unspent;
        let (since, revision) = self.granted.get(&ticket).copied().unwrap_or_default();
        (Question::GiveBack { id: self.id(ticket), key, units, since, revision }, None)
    }

    pub(super) fn account(&self, time: u64) -> Account {
        let Counts { taken, spent, unspent, expired } = self.book.counts();
        let held = (0..self.plan.keys.len()).map(|key| self.held(time, key)).sum();
        Account { taken, spent, unspent, expired, held, truly_spent: self.truly_spent }
    }
}
