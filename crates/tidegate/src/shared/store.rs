//! A shared store under one policy, and the parts of a question to it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_core::{Micros, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::KeyAsk;
use super::counted::Counted;
use super::denial_memory::DenialMemory;
use super::leases::Leases;
use super::loaded::Loaded;
use crate::clock::{Clock, SystemClock};
use crate::frontend::GateQueues;
use crate::key::Seed;
use crate::lease::Terms;
use crate::request::{Descriptor, Identity, Origin};
use crate::rules::{Policy, PolicyRule};
use crate::step::Lineage;
use crate::store::memory::Generation;
use crate::store::redis::script::{NewerValues, Step, Values};
use crate::store::redis::{Client, Route, key_of};

/// The store and the policy under which a request came, kept until the request is decided, its late reply is
/// undone and it has asked again.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) generation: Arc<Generation>,
    pub(super) client: Client,
    pub(super) clock: SystemClock,
    pub(super) loaded: Arc<Loaded>,
    /// By rule, how its keys are counted.
    pub(super) counted: Arc<Vec<Option<Counted>>>,
    /// The rules with plans.
    looked_up: Arc<Vec<Lineage>>,
    /// The queues of requests that wait in this process.
    pub(super) queues: Arc<GateQueues>,
    /// The secrets of the fingerprints by which queues are known.
    pub(super) seed: Seed,
    /// What the store has just denied; `None` if the settings turn it off.
    pub(super) denial_memory: Option<Arc<DenialMemory>>,
    /// The units that this process took ahead.
    pub(super) leases: Leases,
}

/// The id of a request, and how long its answer is remembered.
#[derive(Clone, Copy)]
pub(super) struct Remembered<'a> {
    pub(super) id: Identity<'a>,
    pub(super) time: Micros,
}

/// The parts of a call other than its limiters.
#[derive(Clone, Copy)]
pub(super) struct CallArgs<'a> {
    pub(super) step: Step,
    pub(super) at: Option<Timestamp>,
    pub(super) remembered: Option<Remembered<'a>>,
}

/// The parts of a step other than its limiters.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepArgs<'a> {
    pub(super) step: Step,
    /// The actual cost of each limiter, for [`Step::Settle`].
    pub(super) actual: &'a [u64],
    /// The values under which its units were taken, as far as they are known.
    pub(super) under: &'a [Option<Values>],
    /// The units each limiter is asked for in place of its cost, for [`Step::Peek`]; empty otherwise.
    pub(super) costs: &'a [u64],
    /// The time in a replay; `None` for the store's clock.
    pub(super) at: Option<Timestamp>,
    /// The request's source, and its id if it may be asked again.
    pub(super) origin: Origin<'a>,
    /// The note of its reply.
    pub(super) late: Option<&'a Late>,
}

/// A request that waits for the store: its limiters, its step and its deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingStep<'a> {
    pub(super) asks: &'a [KeyAsk],
    pub(super) args: StepArgs<'a>,
    pub(super) deadline: Instant,
    /// The values that decide in place of the node's own.
    pub(super) newer: Option<&'a NewerValues>,
    /// Whether the units of a late reply are given back, to the limiters in `asks` only.
    pub(super) undoes: bool,
}

impl<'a> StepArgs<'a> {
    pub(super) const fn new(step: Step, origin: Origin<'a>) -> Self {
        Self { step, actual: &[], under: &[], costs: &[], at: None, origin, late: None }
    }

    pub(super) fn settle(actual: &'a [u64], under: &'a [Option<Values>]) -> Self {
        Self { actual, under, ..Self::new(Step::Settle, Origin { id: None, source: 0 }) }
    }
}

impl Store {
    pub(super) fn new(generation: Arc<Generation>, client: Client, clock: SystemClock) -> Self {
        let loaded = Arc::new(Loaded::now(&clock));
        let (queues, counted) = (Arc::new(GateQueues::new()), Arc::default());
        let remembers = client.settings().denial_memory;
        let nodes = client.settings().nodes.unwrap_or(1);
        let store = Self {
            generation,
            client,
            clock,
            loaded,
            counted,
            looked_up: Arc::default(),
            queues,
            seed: Seed::random(),
            denial_memory: remembers.then(|| Arc::new(DenialMemory::new())),
            leases: Leases::new(nodes),
        };
        store.under(Arc::clone(&store.generation))
    }

    /// Returns whether some requests may be decided without a question to the store.
    pub(super) fn decides_here(&self) -> bool {
        let denies = |memory: &Arc<DenialMemory>| memory.has_any(self.clock.now());
        self.leases.are_spent() || self.denial_memory.as_ref().is_some_and(denies)
    }

    /// Returns this store under another policy.
    pub(super) fn under(&self, generation: Arc<Generation>) -> Self {
        let prefix = &self.client.settings().key_prefix;
        let counted = generation.policy.rules().iter().map(|rule| Counted::of(prefix, rule));
        let leases = self.leases.under(self.policy(), &generation.policy);
        Self { counted: Arc::new(counted.collect()), generation, leases, ..self.clone() }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.generation.policy
    }

    /// Returns this store with a rule whose values are looked up for each key.
    pub(super) fn looking_up(&self, rule: Lineage) -> Self {
        let mut store = self.clone();
        Arc::make_mut(&mut store.looked_up).push(rule);
        store
    }

    /// Returns the terms of the leases of a limiter, if it has any: not one with a plan or with values of the request.
    pub(super) fn terms(&self, ask: &KeyAsk) -> Option<Terms> {
        let terms = self.leases.terms(ask.rule, ask.variant)?;
        (ask.values.is_none() && !self.is_looked_up(ask.rule)).then_some(terms)
    }

    /// Returns how long this node can still spend units of a limiter that it took ahead; `None` if it has none.
    pub(super) fn lasts(&self, ask: &KeyAsk) -> Option<Micros> {
        self.terms(ask)?;
        self.leases.book().lasts(self.leases.clock.now(), ask)
    }

    /// Returns whether each request has its own values for a rule.
    pub(super) fn is_looked_up(&self, rule: usize) -> bool {
        let lineage = self.generation.lineage(rule);
        self.looked_up.iter().any(|rule| rule.is_of_rule(lineage))
            || self.policy().rules().get(rule).is_some_and(|rule| rule.spec().limit_from_request)
    }

    /// Returns the key of the limiter of a descriptor that a rule matches.
    pub(super) fn key(&self, rule: &PolicyRule, descriptor: &Descriptor<'_>) -> Vec<u8> {
        key_of(&self.client.settings().key_prefix, rule, descriptor)
    }
}

/// The note of a step's reply. Dropping it gives the units of a late reply back, unless they are kept.
#[derive(Debug, Default)]
pub(crate) struct Late {
    keep: OnceLock<oneshot::Sender<()>>,
    /// The connection that brought the last reply in time.
    route: Mutex<Option<Route>>,
}

impl Late {
    /// Notes that a reply is late; its units are given back when `keep` is dropped. A request has at most one
    /// late reply.
    pub(super) fn note(&self, keep: oneshot::Sender<()>) {
        let _ = self.keep.set(keep);
    }

    /// Notes the connection that brought a reply in time.
    pub(super) fn came_over(&self, route: Route) {
        *self.route.lock().unwrap_or_else(PoisonError::into_inner) = Some(route);
    }

    /// Returns the connection that brought the last reply in time.
    pub(super) fn route(self) -> Option<Route> {
        self.route.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the units of the late reply, because the request is admitted.
    pub(crate) fn keep(self) {
        if let Some(kept) = self.keep.into_inner() {
            // An error means that there was nothing to give back.
            let _ = kept.send(());
        }
    }
}

/// Returns whether a request with these limiters reports usage.
pub(super) fn is_report(asks: &[KeyAsk]) -> bool {
    asks.iter().any(|ask| ask.report)
}
