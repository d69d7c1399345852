//! The leases of this process: which requests spend them, and the terms of the rules in force.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::Micros;
use tokio::sync::{Semaphore, watch};

use crate::lease::{Book, Terms};
use crate::rules::{Mode, Policy, PolicyInternals as _, PolicyRule, limit_of, most_leased};
use crate::store::{KeyAsk, Unspent, Wanted};

/// The largest number of limiters with leases. The store decides the requests of other limiters.
const MOST_LIMITERS: usize = 16_384;
/// The largest number of leases that are given back at a time.
const MOST_GIVEN_BACK: usize = 64;
/// The longest life of any lease of a limit that drains. Such leases are given back as though all of them lived so
/// long, so that nodes whose configurations differ may share a limiter.
const LONGEST_LIFE: Micros = Micros::from_millis(1_000);
/// The longest life of a share of a limit.
const SHARE_LIFE: Micros = Micros::from_millis(2_000);

/// The leases of this process, and their terms under one policy.
#[derive(Clone, Debug)]
pub(super) struct LeaseState {
    pub(super) held: Arc<SharedLeases>,
    /// By rule and variant; empty if no rule has leases.
    terms: Arc<Vec<Vec<Option<Terms>>>>,
    version: u64,
}

/// The state that all policies share.
#[derive(Debug)]
pub(super) struct SharedLeases {
    book: Mutex<Book<KeyAsk>>,
    /// Names this process in the records of leases in the store.
    pub(super) node: u64,
    /// True if the gate was dropped: nothing is given back any more to a store that does not reply.
    pub(super) is_dropped: watch::Sender<bool>,
    /// True if no more leases are taken, because the process is about to end.
    has_ended: AtomicBool,
    /// Lets a few leases be given back at a time, so that they do not hold up requests at the store.
    pub(super) giving_back: Semaphore,
    /// The number of nodes that share the store, as far as this node knows.
    pub(super) nodes: watch::Sender<u64>,
    /// The version of the newest policy.
    newest: AtomicU64,
    /// The number of leases that are asked for or given back now.
    pub(super) under_way: watch::Sender<usize>,
    pub(super) calls: CallCounts,
}

/// Counts of the questions to the store.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    /// Leases that can be spent.
    pub(crate) granted: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Leases that were granted when nothing waited for them any more.
    pub(crate) late: AtomicU64,
    /// Questions without a reply.
    pub(crate) unanswered: AtomicU64,
    /// Questions for a share as one ended, without a request.
    pub(crate) renewed: AtomicU64,
    /// Units of those leases.
    pub(crate) units_late: AtomicU64,
    /// Units that the store got back.
    pub(crate) returned: AtomicU64,
    /// Units that could not be given back, by the cause.
    lost: [AtomicU64; Lost::ALL.len()],
    /// Questions since one was answered in time.
    in_vain: AtomicU64,
}

/// The cause for which units of a lease could not be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The store did not have them, because it lost data or the limiter was reset.
    NotTaken,
    /// Their window, bucket or tick had ended.
    TooLate,
    /// Their rule counts in another way by now.
    Changed,
    /// The store did not reply for as long as they counted, or until this process ended.
    NoReply,
}

impl Lost {
    const ALL: [Self; 4] = [Self::NotTaken, Self::TooLate, Self::Changed, Self::NoReply];
}

/// So many questions in vain, one after the other, are reported.
const MANY_IN_VAIN: u64 = 8;

impl CallCounts {
    /// Counts units that were given back, or could not be.
    pub(super) fn given_back(&self, units: u64, result: Result<(), Lost>) {
        let counter = match result {
            Ok(()) => &self.returned,
            Err(cause) => &self.lost[cause as usize],
        };
        counter.fetch_add(units, Relaxed);
    }

    /// Returns the units that could not be given back for this cause.
    pub(crate) fn lost(&self, cause: Lost) -> u64 {
        self.lost[cause as usize].load(Relaxed)
    }

    /// Returns the units that could not be given back.
    pub(crate) fn all_lost(&self) -> u64 {
        Lost::ALL.into_iter().map(|cause| self.lost(cause)).sum()
    }

    /// Notes that a reply came in time; returns whether it is the first after many that did not.
    pub(super) fn in_time(&self) -> bool {
        self.in_vain.swap(0, Relaxed) >= MANY_IN_VAIN
    }

    /// Notes that no reply came in time; returns whether that is to be reported.
    pub(super) fn in_vain(&self) -> bool {
        // Equal and not more, so that it is reported once.
        self.in_vain.fetch_add(1, Relaxed) + 1 == MANY_IN_VAIN
    }
}

impl LeaseState {
    /// Creates the leases of a process that shares a store with `nodes`, itself included.
    pub(super) fn new(nodes: u64) -> Self {
        let held = Arc::new(SharedLeases {
            book: Mutex::new(Book::new(MOST_LIMITERS)),
            node: RandomState::new().hash_one(std::process::id()),
            is_dropped: watch::Sender::new(false),
            has_ended: AtomicBool::new(false),
            giving_back: Semaphore::new(MOST_GIVEN_BACK),
            nodes: watch::Sender::new(nodes),
            newest: AtomicU64::new(0),
            under_way: watch::Sender::new(0),
            calls: CallCounts::default(),
        });
        Self { held, terms: Arc::default(), version: 0 }
    }

    /// Returns these leases, which belong to the policy `before`, under `policy`. Leases of a rule that differs there
    /// are worth nothing.
    pub(super) fn under(&self, before: &Policy, policy: &Policy) -> Self {
        let version = self.version + 1;
        // From here on no share is renewed under an earlier policy.
        self.held.newest.store(version, SeqCst);
        let mut terms = Vec::with_capacity(policy.rules().len());
        for rule in policy.rules() {
            let known = before.named(rule.domain(), rule.name()).ok();
            let same = known.filter(|(_, known)| known.spec() == rule.spec());
            let same = same.and_then(|(number, _)| self.terms.get(number)?.iter().flatten().next());
            // A rule that stays the same keeps its version, so its leases stay as well.
            let version = same.map_or(version, Terms::version);
            let variants = 0..rule.variants();
            terms
                .push(variants.map(|variant| terms_of(rule, variant, version)).collect::<Vec<_>>());
        }
        if terms.iter().flatten().all(Option::is_none) {
            terms.clear();
        }
        Self { terms: Arc::new(terms), version, ..self.clone() }
    }

    /// Returns the terms of the leases of a rule's limiter.
    pub(super) fn terms(&self, rule: usize, variant: usize) -> Option<Terms> {
        *self.terms.get(rule)?.get(variant)?
    }

    /// Returns whether requests may spend leases.
    pub(super) fn may_spend(&self) -> bool {
        !self.terms.is_empty() && !self.held.has_ended.load(SeqCst)
    }

    /// Closes the leases of all limiters that `of` selects, and takes out their unspent units.
    pub(super) fn close(&self, of: impl Fn(&KeyAsk) -> bool) -> Vec<Unspent<KeyAsk>> {
        if self.terms.is_empty() { Vec::new() } else { self.book().close_those(of) }
    }

    /// Returns the share of a limiter to ask for after one of these terms has ended; `None` if another policy is in force.
    pub(super) fn renewal(&self, now: Micros, ask: &KeyAsk, terms: Terms) -> Option<Wanted> {
        let is_newest = self.held.newest.load(SeqCst) == self.version;
        let nodes = *self.held.nodes.borrow();
        let renews = is_newest && self.may_spend();
        renews.then(|| self.book().renewal(now, ask, nodes, terms.version())).flatten()
    }

    /// Takes no more leases, and takes out the unspent units of all leases. Leases that are still asked for are given
    /// back when they come.
    pub(super) fn end(&self) -> Vec<Unspent<KeyAsk>> {
        self.held.has_ended.store(true, SeqCst);
        self.book().close_those(|_| true)
    }

    /// Notes that a lease is asked for or given back, until the result is dropped.
    pub(super) fn under_way(&self) -> UnderWay<'_> {
        self.held.under_way.send_modify(|count| *count += 1);
        UnderWay(&self.held.under_way)
    }

    /// Returns the book; it is not held across an await.
    pub(super) fn book(&self) -> MutexGuard<'_, Book<KeyAsk>> {
        self.held.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lease that is asked for or given back.
pub(super) struct UnderWay<'a>(&'a watch::Sender<usize>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// A part of a gate. When it is dropped, nothing waits any more to give leases back.
#[derive(Debug)]
pub(crate) struct UntilDropped(pub(super) Arc<SharedLeases>);

impl Drop for UntilDropped {
    fn drop(&mut self) {
        self.0.is_dropped.send_replace(true);
    }
}

fn terms_of(rule: &PolicyRule, variant: usize, version: u64) -> Option<Terms> {
    let spec = rule.spec();
    let values = rule.variant(variant);
    let terms = match spec.lease {
        _ if rule.mode() == Mode::Off => None,
        Some(lease) => {
            let most = most_leased(&lease, limit_of(values)?);
            Terms::of(values, most, lease.life.into(), LONGEST_LIFE)
        }
        None if spec.split => Terms::of_share(values, SHARE_LIFE, LONGEST_LIFE),
        None => None,
    };
    Some(terms?.of_version(version))
}
