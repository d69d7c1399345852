//! A node: a book of leases, and what a gate does around it.

mod ends;

use std::collections::{HashMap, HashSet};
use std::slice::from_ref;

use tidegate_core::{Micros, Timestamp};

use super::super::{Ask, Book, Choice, Counts, Grant, Granted, Report, Spent, Unspent, Wanted};
use super::clock::Clock;
use super::history::{Account, GrantId, History, RequestId, Source, What, Why};
use super::plan::Plan;
use super::store::{Leased, Question, Reply, Stands};

/// What gives up waiting when the deadline has passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Request(u64),
    Lease { key: usize, ticket: u64 },
}

/// A lease of which the rest is to be given back in a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) after: u64,
    pub(super) key: usize,
    pub(super) ticket: u64,
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

/// The limiters of a request that spend no leased units, with their costs.
fn of_store(asked: &[(usize, u64)], spent: &[Spent]) -> impl Iterator<Item = (usize, u64)> {
    let here = |place| spent.iter().any(|part| part.place == place);
    (0..).zip(asked).filter(move |(place, _)| !here(*place)).map(|(_, part)| *part)
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    plan: &'a Plan,
    number: usize,
    /// How often it has begun.
    pub(super) begun: u64,
    pub(super) up: bool,
    /// It takes no more requests and leases, and hears what it has asked for.
    leaves: bool,
    pub(super) sleeps_until: u64,
    pub(super) clock: Clock,
    pub(super) revisions: Vec<usize>,
    /// How many nodes there are, as far as this one knows.
    nodes: u64,
    /// No message comes through before this time.
    pub(super) cut_until: u64,
    /// The keys and tickets of leases that were granted.
    granted: Vec<(usize, u64)>,
    book: Book<usize>,
    waiting: HashMap<u64, Waiting>,
    /// Leases that were granted, until the world has noted when they are due.
    pub(super) due: Vec<Due>,
    /// The leases that were answered once, and the requests that were admitted or undone.
    answered: HashSet<(u64, bool)>,
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
            leaves: false,
            sleeps_until: 0,
            clock,
            revisions: vec![0; plan.keys.len()],
            nodes: 1,
            cut_until: 0,
            granted: Vec::new(),
            book: Book::new(plan.keys.len()),
            waiting: HashMap::new(),
            due: Vec::new(),
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
        let terms = |key: usize| self.plan.keys[key].terms(self.number, self.revisions[key]);
        let ask = |(key, cost): &'p (usize, u64)| Ask { key, terms: terms(*key), cost: *cost };
        parts.iter().map(ask).collect()
    }

    const fn id(&self, ticket: u64) -> GrantId {
        (self.number, self.begun, ticket)
    }

    /// A client asks this node. While the store is away it is not asked.
    pub(super) fn request(
        &mut self,
        time: u64,
        parts: Vec<(usize, u64)>,
        is_away: bool,
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
                let rest = of_store(&parts, &spent).collect();
                self.requests += 1;
                let request = self.requests;
                let wait = Some(Wait::Request(request));
                let revisions = self.revisions.clone();
                let waiting = Waiting { asked: parts.clone(), spent, since: time, revisions };
                self.waiting.insert(request, waiting);
                if is_away {
                    self.decided(time, request, false, history);
                } else {
                    let question = Question::Step { request: Some(self.id(request)), parts: rest };
                    sent.push((question, wait));
                }
            }
        }
        for (key, _) in parts {
            match self.book.wants(now, &key, self.nodes) {
                Some(Wanted { ticket, .. }) if is_away => {
                    self.book.not_granted(now, &key, ticket);
                }
                wanted => sent.extend(wanted.map(|wanted| self.lease(key, wanted))),
            }
        }
        sent
    }

    fn lease(&self, key: usize, wanted: Wanted) -> Sent {
        let Wanted { ticket, units, life } = wanted;
        let question = Question::Lease { id: self.id(ticket), key, units, life };
        (question, Some(Wait::Lease { key, ticket }))
    }

    /// Returns whether it hears replies.
    pub(super) const fn hears(&self) -> bool {
        self.up || self.leaves
    }

    /// Asks for the next share, if one of this limiter has ended.
    fn renew(&mut self, time: u64, key: usize, history: &mut History) -> Vec<Sent> {
        if self.leaves {
            return Vec::new();
        }
        let version = self.revisions[key] as u64;
        let wanted = self.book.renewal(self.now(time), &key, self.nodes, version);
        history.renewed += u64::from(wanted.is_some());
        wanted.map(|wanted| self.lease(key, wanted)).into_iter().collect()
    }

    /// Hears how many nodes there are, and gives back what exceeds its part.
    pub(super) fn hear(&mut self, nodes: u64, history: &mut History) -> Vec<Sent> {
        self.nodes = nodes;
        let granted = std::mem::take(&mut self.granted);
        let mut sent = Vec::new();
        for (key, ticket) in &granted {
            if let Some(excess) = self.book.excess(key, *ticket, nodes) {
                history.excess += excess.units;
                sent.push(self.give_back(&excess, false));
            }
        }
        self.granted = granted;
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
            Reply::Step { request, at, admitted, limiters } => {
                let now = self.now(time);
                limiters.iter().for_each(|one| self.book.reported(now, &one.key, one.report));
                match self.waiting.contains_key(&request.2) {
                    true => self.decided(time, request.2, admitted, history),
                    false => return self.late(request, at, admitted, &limiters, history),
                }
                Vec::new()
            }
            Reply::Lease { id: (.., ticket), key, lease: None, report, .. } => {
                self.book.not_granted(self.now(time), &key, ticket);
                self.book.reported(self.now(time), &key, report);
                Vec::new()
            }
            Reply::Back { key, report } => {
                self.book.reported(self.now(time), &key, report);
                self.renew(time, key, history)
            }
            Reply::Lease { id: (.., ticket), key, lease: Some(lease), report, revision } => {
                let grant = (ticket, lease, revision);
                self.leased(time, key, grant, report, history)
            }
        }
    }

    fn leased(
        &mut self,
        time: u64,
        key: usize,
        (ticket, lease, revision): (u64, Leased, usize),
        report: Report,
        history: &mut History,
    ) -> Vec<Sent> {
        let (now, first) = (self.now(time), self.answered.insert((ticket, true)));
        let Leased { at: since, end, units } = lease;
        let of_other_values = revision != self.revisions[key];
        let granted = if of_other_values {
            self.book.not_granted(now, &key, ticket);
            Granted::NotAsked
        } else {
            self.book.granted(now, &key, &Grant { ticket, since, end })
        };
        self.book.reported(now, &key, report);
        if let Granted::Held { due, .. } = granted {
            self.granted.push((key, ticket));
            let after = due.as_micros().saturating_sub(now.as_micros());
            self.due.push(Due { after, key, ticket });
        }
        let returns = !matches!(granted, Granted::Held { .. }) && first;
        if returns && self.book.is_valid(&key, ticket) {
            let terms = self.plan.keys[key].terms(self.number, revision);
            let since = terms.map_or(since, |terms| terms.counted_from(since));
            let version = revision as u64;
            return vec![self.give_back(&Unspent { key, ticket, units, since, version }, false)];
        }
        if returns {
            history.miss(time, key, Source::Lease(self.id(ticket)), units, Why::Expired);
        }
        Vec::new()
    }

    /// Undoes a request that nobody waits for, once.
    fn late(
        &mut self,
        request: RequestId,
        at: Timestamp,
        admitted: bool,
        limiters: &[Stands],
        history: &mut History,
    ) -> Vec<Sent> {
        history.late += 1;
        if !admitted || !self.answered.insert((request.2, false)) {
            return Vec::new();
        }
        let undo = |one: &Stands| {
            let Stands { key, cost: units, revision, .. } = *one;
            let terms = self.plan.keys[key].terms(self.number, revision);
            let since = terms.map_or(at, |terms| terms.exact_from(at));
            let (of, was_due) = (Source::Request(request), false);
            (Question::GiveBack { of, key, units, since, revision, was_due }, None)
        };
        limiters.iter().map(undo).collect()
    }

    fn decided(&mut self, time: u64, request: u64, admitted: bool, history: &mut History) {
        let Some(waiting) = self.waiting.remove(&request) else { return };
        let Waiting { asked, spent, since, revisions } = waiting;
        if admitted {
            self.answered.insert((request, false));
            for (key, units) in of_store(&asked, &spent) {
                history.add(time, key, What::Told { by: self.id(request), units });
            }
            self.book.keep(&spent);
            self.admitted(since, &asked, &spent, &revisions, history);
        } else {
            self.decide_here(time, &asked, &spent, history);
            history.put_back += spent.iter().map(|part| part.units_of().1).sum::<u64>();
            for part in &spent {
                let expired = self.book.counts().expired;
                self.book.put_back(self.now(time), &self.asks(&asked), from_ref(part));
                let units = self.book.counts().expired - expired;
                let of = Source::Lease(self.id(part.units_of().0));
                history.miss(time, asked[part.place].0, of, units, Why::Expired);
            }
        }
    }

    /// Admits a request in place of the store, if no message comes through and the limiters allow that.
    fn decide_here(
        &self,
        time: u64,
        asked: &[(usize, u64)],
        spent: &[Spent],
        history: &mut History,
    ) {
        for (key, _) in of_store(asked, spent).filter(|_| time < self.cut_until) {
            if self.book.lasts(self.now(time), &key).is_none() {
                history.add(time, key, What::Local { held: self.held(time, key) });
            }
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

    /// Gives back what is left of a lease that is due.
    pub(super) fn give_back_rest(
        &mut self,
        time: u64,
        due: Due,
        history: &mut History,
    ) -> Vec<Sent> {
        match self.book.take_out(&due.key, due.ticket) {
            Some(unspent) => vec![self.give_back(&unspent, true)],
            None => self.renew(time, due.key, history),
        }
    }

    /// Drops the leases of a key, after a reset or because its rule changed.
    pub(super) fn drop_leases(
        &mut self,
        time: u64,
        key: usize,
        history: &mut History,
    ) -> Vec<Sent> {
        history.add(time, key, What::Dropped { node: self.number });
        let unspent = self.book.drop_those(|other| *other == key);
        unspent.iter().map(|one| self.give_back(one, false)).collect()
    }

    fn give_back(&self, unspent: &Unspent<usize>, was_due: bool) -> Sent {
        let Unspent { key, ticket, units, since, version } = *unspent;
        let (of, revision) = (Source::Lease(self.id(ticket)), version as usize);
        (Question::GiveBack { of, key, units, since, revision, was_due }, None)
    }

    pub(super) fn account(&self, time: u64) -> Account {
        let Counts { taken, spent, unspent, expired } = self.book.counts();
        let held = (0..self.plan.keys.len()).map(|key| self.held(time, key)).sum();
        Account { taken, spent, unspent, expired, held, truly_spent: self.truly_spent }
    }
}
