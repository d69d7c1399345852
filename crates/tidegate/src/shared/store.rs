//! A shared store under one policy, and what a request asks of it.

use std::sync::{Arc, OnceLock};

use tidegate_core::{Micros, Rule, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::KeyMet;
use super::counted::Counted;
use super::loaded::Loaded;
use crate::clock::SystemClock;
use crate::frontend::GateQueues;
use crate::request::Descriptor;
use crate::request::Origin;
use crate::rules::{Policy, PolicyRule};
use crate::step::{Figures, Lineage};
use crate::store::memory::Generation;
use crate::store::redis::script::{NewerValues, Step};
use crate::store::redis::{Client, key_of};

/// The store, and a policy whose limiters live in it: that of when a request came, for as long as it takes to decide
/// it, to undo a late reply, and to ask again.
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
}

/// The id of a request, and for how long its answer is remembered.
#[derive(Clone, Copy)]
pub(super) struct Remembered<'a> {
    pub(super) id: &'a str,
    pub(super) time: Micros,
}

/// What a call is made of, beside its limiters.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) step: Step,
    pub(super) at: Option<Timestamp>,
    pub(super) remembered: Option<Remembered<'a>>,
}

/// What a step is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) step: Step,
    /// What each limiter turned out to cost, for [`Step::Settle`].
    pub(super) actual: &'a [u64],
    /// What each is asked for in place of its own cost, for [`Step::Peek`]; else none.
    pub(super) costs: &'a [u64],
    /// When, in a replay; else the store's own clock tells.
    pub(super) at: Option<Timestamp>,
    /// The request's id, where it may be asked again, and its source.
    pub(super) origin: Origin<'a>,
    /// Where it is noted that the reply comes too late.
    pub(super) late: Option<&'a Late>,
}

/// A request that waits for the store: its limiters, what is asked of them, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits<'a> {
    pub(super) met: &'a [KeyMet],
    pub(super) asked: Asked<'a>,
    pub(super) deadline: Instant,
    /// The values that decide in place of the node's own.
    pub(super) by: Option<&'a NewerValues>,
    /// What a late reply took is given back: from the limiters that were met, and from no others.
    pub(super) undoes: bool,
}

impl<'a> Asked<'a> {
    pub(super) const fn new(step: Step, origin: Origin<'a>) -> Self {
        Self { step, actual: &[], costs: &[], at: None, origin, late: None }
    }

    pub(super) fn settle(actual: &'a [u64]) -> Self {
        Self { actual, ..Self::new(Step::Settle, Origin { id: None, source: 0 }) }
    }
}

impl Store {
    pub(super) fn new(generation: Arc<Generation>, client: Client, clock: SystemClock) -> Self {
        let loaded = Arc::new(Loaded::now(&clock));
        let (queues, counted) = (Arc::new(GateQueues::new()), Arc::default());
        let store =
            Self { generation, client, clock, loaded, counted, looked_up: Arc::default(), queues };
        store.under(Arc::clone(&store.generation))
    }

    /// The same store under another policy.
    pub(super) fn under(&self, generation: Arc<Generation>) -> Self {
        let prefix = &self.client.settings().key_prefix;
        let counted = generation.policy.rules().iter().map(|rule| Counted::of(prefix, rule));
        Self { counted: Arc::new(counted.collect()), generation, ..self.clone() }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.generation.policy
    }

    /// The same store, where the figures of a rule are looked up for each key.
    pub(super) fn looking_up(&self, rule: Lineage) -> Self {
        let mut store = self.clone();
        Arc::make_mut(&mut store.looked_up).push(rule);
        store
    }

    /// Whether the figures of a rule come with each request.
    pub(super) fn is_figured(&self, rule: usize) -> bool {
        self.looked_up.contains(&self.generation.lineage(rule))
            || self.policy().rules().get(rule).is_some_and(|rule| rule.spec().limit_from_request)
    }

    /// The key of the limiter of a descriptor that a rule matches.
    pub(super) fn key(&self, rule: &PolicyRule, descriptor: &Descriptor<'_>) -> Vec<u8> {
        key_of(&self.client.settings().key_prefix, rule, descriptor)
    }

    /// The figures of a rule's variant, whose own are these, where they come with each request; `None` where it does
    /// not limit.
    pub(super) fn figures(&self, rule: usize, own: &Rule) -> Option<Figures> {
        let unlimited = || own.is_unlimited().then(|| Arc::new(own.clone()));
        (self.is_figured(rule) || !own.is_unlimited()).then(unlimited)
    }
}

/// A note that a reply comes too late. What it took is given back once this is dropped, unless it is kept.
#[derive(Debug, Default)]
pub(crate) struct Late(OnceLock<oneshot::Sender<()>>);

impl Late {
    /// Notes that what the reply took is given back once `keep` is dropped. There is one late reply to a request at
    /// most.
    pub(super) fn note(&self, keep: oneshot::Sender<()>) {
        let _ = self.0.set(keep);
    }

    /// What the late reply took is not given back: its request goes on all the same.
    pub(crate) fn keep(self) {
        if let Some(kept) = self.0.into_inner() {
            // Nobody listens where there was nothing to give back.
            let _ = kept.send(());
        }
    }
}

/// Whether a request that meets these limiters reports what was used.
pub(super) fn is_report(met: &[KeyMet]) -> bool {
    met.iter().any(|met| met.report)
}
