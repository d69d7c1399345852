//! The leases of this process: which requests spend them, and the terms of the rules in force.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::Micros;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::KeyAsk;
use super::share::limit_of;
use crate::clock::BootClock;
use crate::lease::{Book, Counts, Terms, Unspent, Wanted};
use crate::rules::{Mode, Policy, PolicyRule};

/// The most limiters with leases at a time. The store decides the requests of others.
const MOST_LIMITERS: usize = 16_384;
/// The most leases that are given back at a time.
const MOST_RETURNS: usize = 64;
/// The longest life of any lease of what drains. It is given back as though all leases lived so long, so that nodes whose
/// configurations differ may share a limiter.
const LONGEST_LIFE: Micros = Micros::from_millis(1_000);
/// The longest life of a share of a limit.
const SHARE_LIFE: Micros = Micros::from_millis(2_000);

/// The leases of this process, and their terms under one policy.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    held: Arc<Held>,
    pub(super) clock: BootClock,
    /// By rule and variant; empty if no rule has leases.
    terms: Arc<Vec<Vec<Option<Terms>>>>,
    pub(super) version: u64,
}

/// What all policies share.
#[derive(Debug)]
struct Held {
    book: Mutex<Book<KeyAsk>>,
    /// Whether no more leases are taken, because the process is about to end.
    has_ended: AtomicBool,
    /// What gives units back, so that many at a time do not hold up requests at the store.
    returns: Semaphore,
    /// How many nodes share the store, as far as this one knows.
    nodes: watch::Sender<u64>,
}

impl Leases {
    /// Creates the leases of a process that shares a store with `nodes`, itself included.
    pub(super) fn new(nodes: u64) -> Self {
        let (book, has_ended) = (Mutex::new(Book::new(MOST_LIMITERS)), AtomicBool::new(false));
        let returns = Semaphore::new(MOST_RETURNS);
        let nodes = watch::Sender::new(nodes);
        let held = Arc::new(Held { book, has_ended, returns, nodes });
        Self { held, clock: BootClock::new(), terms: Arc::default(), version: 0 }
    }

    /// Returns these leases under another policy. Those taken before are worth nothing there.
    pub(super) fn under(&self, policy: &Policy) -> Self {
        let version = self.version + 1;
        let of_rule = |rule: &PolicyRule| {
            let variants = 0..rule.variants();
            variants.map(|variant| terms_of(rule, variant, version)).collect()
        };
        let mut terms: Vec<Vec<_>> = policy.rules().iter().map(of_rule).collect();
        if terms.iter().flatten().all(Option::is_none) {
            terms.clear();
        }
        Self { terms: Arc::new(terms), version, ..self.clone() }
    }

    /// Returns the terms of the leases of a rule's limiter.
    pub(super) fn terms(&self, rule: usize, variant: usize) -> Option<Terms> {
        *self.terms.get(rule)?.get(variant)?
    }

    /// Whether requests may spend leases.
    pub(super) fn are_spent(&self) -> bool {
        !self.terms.is_empty() && !self.held.has_ended.load(SeqCst)
    }

    /// Returns what became of all leased units so far.
    pub(super) fn counts(&self) -> Counts {
        self.book().counts()
    }

    /// Takes out what is left of all leases.
    pub(super) fn all(&self) -> Vec<Unspent<KeyAsk>> {
        match self.terms.is_empty() {
            true => Vec::new(),
            false => self.book().drop_those(self.clock.now(), |_| true),
        }
    }

    /// Waits until a lease may be given back.
    pub(super) async fn turn_to_return(&self) -> Option<SemaphorePermit<'_>> {
        self.held.returns.acquire().await.ok()
    }

    /// Notes how many nodes share the store. What exceeds this node's share of a limit is given back.
    pub(super) fn know_nodes(&self, nodes: u64) {
        self.held.nodes.send_if_modified(|known| std::mem::replace(known, nodes) != nodes);
    }

    /// Returns how many nodes share the store, and what notices when others join or leave.
    pub(super) fn nodes(&self) -> watch::Receiver<u64> {
        self.held.nodes.subscribe()
    }

    /// Returns the share of a limiter to ask for after one of this policy has ended.
    pub(super) fn renewal(&self, met: &KeyAsk) -> Option<Wanted> {
        let (now, nodes) = (self.clock.now(), *self.held.nodes.borrow());
        self.are_spent().then(|| self.book().renewal(now, met, nodes, self.version)).flatten()
    }

    /// Takes no more leases.
    pub(super) fn end(&self) {
        self.held.has_ended.store(true, SeqCst);
    }

    /// Returns the book; it is not held across an await.
    pub(super) fn book(&self) -> MutexGuard<'_, Book<KeyAsk>> {
        self.held.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn terms_of(rule: &PolicyRule, variant: usize, version: u64) -> Option<Terms> {
    let (spec, values) = (rule.spec(), rule.variant(variant));
    let terms = match (spec.lease, spec.split) {
        _ if rule.mode() == Mode::Off => None,
        (Some(lease), _) => {
            let most = lease.most(limit_of(values)?);
            Terms::of(values, most, lease.life.into(), LONGEST_LIFE)
        }
        (None, Some(split)) => Terms::of_share(values, split.nodes(), SHARE_LIFE, LONGEST_LIFE),
        (None, None) => None,
    };
    Some(terms?.of_version(version))
}
