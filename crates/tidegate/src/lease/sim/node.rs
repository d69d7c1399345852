//! A node: a book of leases, and the work of a gate around it.

mod back;
mod decided;

use std::collections::{BTreeMap, HashMap, HashSet};

use tidegate_core::Micros;

use super::super::{
    Book, BookAsk, Choice, Grant, Granted, LeaseCounts, Leased, LimiterReport, Unspent, Wanted,
};
use super::clock::MachineClocks;
use super::history::{BookCounts, GrantId, LeasesEventKind, LeasesHistory};
use super::plan::LeasesPlan;
use super::store::{LeasesQuestion, LeasesReply, TakenLease};

/// A wait that ends when the deadline has passed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Request(u64),
    Lease {
        key: usize,
        ticket: u64,
    },
    /// No reply about a lease will come any more.
    Unknown {
        key: usize,
        ticket: u64,
    },
    /// Units were given back without a reply.
    Back(u64),
}

/// A lease whose unspent units are to be given back in a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestDue {
    pub(super) after: u64,
    pub(super) key: usize,
    pub(super) ticket: u64,
}

/// A question that is sent, and the work that waits for its reply.
pub(super) type SentQuestion = (LeasesQuestion, Option<Wait>);

/// A request that the store decides, with the units that it holds.
#[derive(Clone, Debug)]
struct WaitingRequest {
    asked: Vec<(usize, u64)>,
    held: Vec<Leased>,
    since: u64,
    revisions: Vec<usize>,
}

/// The limiters of a request that hold no leased units, with their costs.
fn of_store(asked: &[(usize, u64)], held: &[Leased]) -> impl Iterator<Item = (usize, u64)> {
    let here = |place| held.iter().any(|part| part.place == place);
    (0..).zip(asked).filter(move |(place, _)| !here(*place)).map(|(_, part)| *part)
}

#[derive(Debug)]
pub(super) struct LeasesNode<'a> {
    plan: &'a LeasesPlan,
    number: usize,
    /// The number of times that it has begun.
    pub(super) begun: u64,
    pub(super) up: bool,
    /// It takes no more requests and leases, and hears the replies to its questions.
    leaves: bool,
    pub(super) sleeps_until: u64,
    pub(super) clock: MachineClocks,
    pub(super) revisions: Vec<usize>,
    /// The number of nodes, as far as this node knows.
    nodes: u64,
    /// No message comes through before this time.
    pub(super) cut_until: u64,
    /// The keys and tickets of leases that were granted.
    granted: Vec<(usize, u64)>,
    book: Book<usize>,
    waiting: HashMap<u64, WaitingRequest>,
    /// Leases that were granted, until the world has noted when they are due.
    pub(super) due: Vec<RestDue>,
    /// The leases that were asked for and not answered.
    questions: HashMap<u64, Wanted>,
    /// Units that are given back until the store replies, by the number of the question, and whether their lease ends
    /// with that.
    backs: BTreeMap<u64, (Unspent<usize>, bool)>,
    next_back: u64,
    /// The requests that were admitted or undone.
    answered: HashSet<u64>,
    truly_spent: u64,
    requests: u64,
}

impl<'a> LeasesNode<'a> {
    pub(super) fn new(
        plan: &'a LeasesPlan,
        number: usize,
        begun: u64,
        clock: MachineClocks,
    ) -> Self {
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
            questions: HashMap::new(),
            backs: BTreeMap::new(),
            next_back: 0,
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

    fn asks<'p>(&self, parts: &'p [(usize, u64)]) -> Vec<BookAsk<'p, usize>> {
        let terms = |key: usize| self.plan.keys[key].terms(self.number, self.revisions[key]);
        let ask = |(key, cost): &'p (usize, u64)| BookAsk { key, terms: terms(*key), cost: *cost };
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
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        let now = self.now(time);
        let mut sent = Vec::new();
        match self.book.decide(now, &self.asks(&parts)) {
            Choice::Here(spent) => {
                let revisions = self.revisions.clone();
                self.admitted(time, &parts, &spent, &revisions, history);
            }
            Choice::Store(held) => {
                let rest = of_store(&parts, &held).collect();
                self.requests += 1;
                let request = self.requests;
                let wait = Some(Wait::Request(request));
                let revisions = self.revisions.clone();
                let asked = parts.clone();
                let waiting = WaitingRequest { asked, held, since: time, revisions };
                self.waiting.insert(request, waiting);
                if is_away {
                    sent.extend(self.decided(time, request, false, history));
                } else {
                    let question =
                        LeasesQuestion::Step { request: Some(self.id(request)), parts: rest };
                    sent.push((question, wait));
                }
            }
        }
        for (key, _) in parts {
            match self.book.wants(now, &key, self.nodes) {
                Some(Wanted { ticket, .. }) if is_away => {
                    self.book.not_granted(now, &key, ticket);
                    self.book.finished(now, &key, ticket);
                }
                wanted => sent.extend(wanted.map(|wanted| self.lease(key, wanted))),
            }
        }
        sent
    }

    fn lease(&mut self, key: usize, wanted: Wanted) -> SentQuestion {
        let Wanted { ticket, oldest, units, life, .. } = wanted;
        self.questions.insert(ticket, wanted);
        let question = LeasesQuestion::Lease { id: self.id(ticket), key, units, life, oldest };
        (question, Some(Wait::Lease { key, ticket }))
    }

    /// Returns whether it hears replies.
    pub(super) const fn hears(&self) -> bool {
        self.up || self.leaves
    }

    /// Asks for the next share, if a share of this limiter has ended.
    fn renew(&mut self, time: u64, key: usize, history: &mut LeasesHistory) -> Vec<SentQuestion> {
        if self.leaves {
            return Vec::new();
        }
        let version = self.revisions[key] as u64;
        let wanted = self.book.renewal(self.now(time), &key, self.nodes, version);
        history.renewed += u64::from(wanted.is_some());
        wanted.map(|wanted| self.lease(key, wanted)).into_iter().collect()
    }

    /// Hears the number of nodes, and gives back the units above its part.
    pub(super) fn hear(&mut self, nodes: u64, history: &mut LeasesHistory) -> Vec<SentQuestion> {
        self.nodes = nodes;
        let granted = std::mem::take(&mut self.granted);
        let mut sent = Vec::new();
        for (key, ticket) in &granted {
            if let Some(excess) = self.book.excess(key, *ticket, nodes) {
                history.excess += excess.units;
                sent.extend(self.give_back(excess, false));
            }
        }
        self.granted = granted;
        sent
    }

    fn admitted(
        &mut self,
        time: u64,
        parts: &[(usize, u64)],
        spent: &[Leased],
        revisions: &[usize],
        history: &mut LeasesHistory,
    ) {
        for part in spent {
            let ((key, _), (ticket, units)) = (parts[part.place], part.units_of());
            self.truly_spent += units;
            let what =
                LeasesEventKind::Spent { id: self.id(ticket), units, revision: revisions[key] };
            history.add(time, key, what);
        }
    }

    /// The store replied.
    pub(super) fn reply(
        &mut self,
        time: u64,
        server: usize,
        reply: LeasesReply,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        match reply {
            LeasesReply::Step { request, admitted, limiters } => {
                let now = self.now(time);
                limiters.iter().for_each(|one| self.book.reported(now, &one.key, one.report));
                if self.waiting.contains_key(&request.2) {
                    self.decided(time, request.2, admitted, history)
                } else {
                    self.late(request, server, admitted, &limiters, history)
                }
            }
            LeasesReply::Lease { id: (.., ticket), key, lease: None, report, .. } => {
                let now = self.now(time);
                self.book.not_granted(now, &key, ticket);
                self.book.reported(now, &key, report);
                if self.questions.remove(&ticket).is_some() {
                    self.book.finished(now, &key, ticket);
                }
                Vec::new()
            }
            LeasesReply::Back { number, key, report } => {
                let now = self.now(time);
                self.book.reported(now, &key, report);
                self.is_back(time, number, history)
            }
            LeasesReply::Lease { id: (.., ticket), key, lease: Some(lease), report, revision } => {
                self.leased(time, key, ticket, lease, report, revision)
            }
        }
    }

    fn leased(
        &mut self,
        time: u64,
        key: usize,
        ticket: u64,
        lease: TakenLease,
        report: LimiterReport,
        revision: usize,
    ) -> Vec<SentQuestion> {
        let now = self.now(time);
        let TakenLease { at: since, end, .. } = lease;
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
            self.due.push(RestDue { after, key, ticket });
        }
        match self.questions.remove(&ticket) {
            Some(wanted) if !matches!(granted, Granted::Held { .. }) => {
                self.give_back(wanted.unspent(key), true)
            }
            _ => Vec::new(),
        }
    }

    /// The deadline of a question has passed. A reply that came before leaves nothing to do.
    pub(super) fn give_up(
        &mut self,
        time: u64,
        wait: Wait,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        match wait {
            Wait::Request(request) => self.decided(time, request, false, history),
            Wait::Lease { key, ticket } => {
                self.book.not_granted(self.now(time), &key, ticket);
                Vec::new()
            }
            Wait::Unknown { key, ticket } => {
                self.book.not_granted(self.now(time), &key, ticket);
                let wanted = self.questions.remove(&ticket);
                wanted.into_iter().flat_map(|one| self.give_back(one.unspent(key), true)).collect()
            }
            Wait::Back(number) => {
                let back = self.backs.get(&number);
                history.again += back.map_or(0, |(rest, _)| rest.units);
                back.map(|(rest, _)| self.back(number, rest)).into_iter().collect()
            }
        }
    }

    pub(super) fn account(&self) -> BookCounts {
        let LeaseCounts { taken, spent, unspent } = self.book.counts();
        let (held, truly_spent) = (self.book.all_units(), self.truly_spent);
        BookCounts { taken, spent, unspent, held, truly_spent }
    }
}
