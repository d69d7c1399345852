//! A gate whose limiters live in a shared store: many nodes, one limit.

mod away;
mod replay;
mod share;
mod under;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::{Decision, Timestamp};

use crate::answer::{Answer, Matched, Standing};
use crate::few::Few;
use crate::gate::{Met, meet};
use crate::request::Request;
use crate::rules::{Policy, PolicyErrors};
use crate::store::redis::script::{self, Call, Limiter, Step};
use crate::store::redis::{Client, StoreError, StoreEvent, key_of};
use crate::store::settings::{SettingsError, StoreSettings};
use away::{Away, Verb};
pub use replay::SharedReplay;

/// A limiter that a request meets, by its key in the store.
type KeyMet = Met<Vec<u8>>;

/// A policy in force, and the limiters of every key in a store that other nodes use as well.
///
/// One decision is one step in the store, by the store's clock: however many nodes ask, and however
/// wrong their own clocks are, no more is admitted than the limit. A request that the store does not
/// answer in time is decided by each rule's own [`OnStoreError`](crate::OnStoreError), and its answer is
/// marked [degraded](Answer::is_degraded). Nothing is asked twice: what was lost on the way may have been
/// taken.
///
/// ```no_run
/// use tidegate::{Algorithm, Descriptor, Micros, Policy, Request, RuleSpec, SharedGate, Spec, StoreSettings};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let rule = RuleSpec::new("per-user", Spec::new(Algorithm::TokenBucket, 100, Micros::from_secs(1)));
/// let policy = Policy::new(vec![rule.key(["user"])])?;
/// let settings = StoreSettings::new("redis://127.0.0.1:6379".parse()?);
/// let gate = SharedGate::new(policy, settings, |event| eprintln!("{event:?}"))?;
///
/// let entries = [("user", "ada")];
/// let descriptors = [Descriptor::new(&entries)];
/// let answer = gate.check(&Request::new("default", &descriptors)).await;
/// if answer.is_allowed() { /* go on */ }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedGate {
    policy: Policy,
    client: Client,
    away: Away,
    degraded: AtomicU64,
}

impl SharedGate {
    /// A gate over the store of `settings`; connecting begins at once, in the background. `observer` is
    /// told what becomes of the store: once for each outage, not for each request.
    ///
    /// # Errors
    /// What can not be of the settings, or of a rule's part of its limit.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(
        policy: Policy,
        settings: StoreSettings,
        observer: impl Fn(StoreEvent<'_>) + Send + Sync + 'static,
    ) -> Result<Self, SharedGateError> {
        let mistakes = settings.mistakes();
        if !mistakes.is_empty() {
            return Err(SharedGateError::Settings(mistakes));
        }
        let away = Away::new(&policy, settings.nodes)?;
        let client = Client::begin(settings, Box::new(observer));
        Ok(Self { policy, client, away, degraded: AtomicU64::new(0) })
    }

    /// The policy in force.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How the store is asked.
    #[must_use]
    pub fn settings(&self) -> &StoreSettings {
        self.client.settings()
    }

    /// Requests decided so far without the store.
    #[must_use]
    pub fn degraded(&self) -> u64 {
        self.degraded.load(Relaxed)
    }

    /// Ends when the store was looked at for the first time. A gate may be asked before.
    ///
    /// # Errors
    /// How the store was found then, if it was not fit; it goes on being looked at.
    pub async fn connected(&self) -> Result<(), StoreError> {
        self.client.first_found().await
    }

    /// Ends when the store is fit: at once, unless it is away.
    pub async fn recovered(&self) {
        self.client.fit().await;
    }

    /// Decides a request and, when every rule admits it, takes its cost from all of them.
    pub async fn check(&self, request: &Request<'_>) -> Answer<'_> {
        let met = self.met(request);
        match self.step(&met, &[], Step::Ask, None).await {
            Ok(done) => {
                self.away.learn(&self.policy, &met, &done);
                self.answer(&met, done)
            }
            Err(_) => self.without_store(&met, Verb::Ask),
        }
    }

    /// What [`SharedGate::check`] would answer, taking nothing.
    pub async fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        let met = self.met(request);
        match self.step(&met, &[], Step::Peek, None).await {
            Ok(done) => self.answer(&met, done),
            Err(_) => self.without_store(&met, Verb::Peek),
        }
    }

    /// Gives the request's cost back to every limiter it meets, to no fewer than none used; the answer
    /// tells how they stand then.
    ///
    /// # Errors
    /// The store gave no answer. Whether anything was given back is known only where nothing was sent.
    pub async fn refund(&self, request: &Request<'_>) -> Result<Answer<'_>, StoreError> {
        self.settle(request, 0).await
    }

    /// Ends a request that was admitted with its costs reserved: each of its descriptors turned out to
    /// cost `actual`, as [`Gate::settle`](crate::Gate::settle) does it.
    ///
    /// # Errors
    /// The store gave no answer. Whether anything was settled is known only where nothing was sent.
    pub async fn settle(
        &self,
        request: &Request<'_>,
        actual: u64,
    ) -> Result<Answer<'_>, StoreError> {
        let costing_actual: Vec<_> =
            request.descriptors().iter().map(|descriptor| descriptor.cost(actual)).collect();
        let actual = self.met(&Request::new(request.domain(), &costing_actual));
        let actual: Vec<_> = actual.iter().map(|met| met.cost).collect();
        let met = self.met(request);
        let done = self.step(&met, &actual, Step::Settle, None).await?;
        Ok(self.answer(&met, done))
    }

    /// Makes every limiter the request meets as good as new, in one atomic step; answers how many it
    /// meets.
    ///
    /// # Errors
    /// The store gave no answer. Whether they were reset is known only where nothing was sent.
    pub async fn reset(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        let met = self.met(request);
        let keys: Vec<_> = met.iter().map(|met| met.print.clone()).collect();
        self.away.forget(&self.policy, &met);
        if !keys.is_empty() {
            let (script, keys) = Call::reset(keys);
            self.client.run(&script, &keys, &[], self.client.deadline()).await?;
        }
        Ok(met.len())
    }

    fn met(&self, request: &Request<'_>) -> Few<KeyMet> {
        let prefix = &self.settings().key_prefix;
        meet(&self.policy, request, |rule, descriptor| key_of(prefix, rule, descriptor))
    }

    /// One step in the store over limiters; `actual` is what each turned out to cost.
    async fn step(
        &self,
        met: &[KeyMet],
        actual: &[u64],
        step: Step,
        at: Option<Timestamp>,
    ) -> Result<script::Decided, StoreError> {
        let actual = actual.iter().copied().chain(std::iter::repeat(0));
        let limiters = met.iter().zip(actual).filter_map(|(met, actual)| {
            let rule = self.policy.rules().get(met.rule)?.variant(met.variant);
            let limiter = Limiter::new(&met.print, rule, met.cost)?.turned_out(actual);
            Some(if met.enforced { limiter } else { limiter.shadow() })
        });
        let limiters: Vec<_> = limiters.collect();
        if limiters.is_empty() {
            let at = at.unwrap_or_else(|| self.away.now());
            return Ok(script::Decided { allowed: true, at, decisions: Vec::new() });
        }
        self.run(&limiters, step, at).await
    }

    /// One step in the store over limiters, of which there is at least one.
    async fn run(
        &self,
        limiters: &[Limiter<'_>],
        step: Step,
        at: Option<Timestamp>,
    ) -> Result<script::Decided, StoreError> {
        let (call, deadline) = (Call::new(limiters, step, at), self.client.deadline());
        let run = async |call: &Call| {
            let reply = self.client.run(&call.script, &call.keys, &call.args, deadline).await?;
            call.answer(limiters, &reply).map_err(|error| StoreError::Answer(error.to_string()))
        };
        match run(&call).await? {
            script::Answer::Decided(done) => Ok(done),
            // Nothing was done: a limiter has yet to follow its changed rule.
            script::Answer::Changed => match run(&call.amending()).await? {
                script::Answer::Decided(done) => Ok(done),
                script::Answer::Changed => Err(StoreError::Answer("changed twice".to_owned())),
            },
        }
    }

    fn answer(&self, met: &[KeyMet], done: script::Decided) -> Answer<'_> {
        let decisions = done.decisions.into_iter().map(Some);
        let matched = self.matched(met, decisions);
        Answer { allowed: done.allowed, at: done.at, standing: Standing::Exact, matched }
    }

    /// What the rules themselves say while the store is away.
    fn without_store(&self, met: &[KeyMet], verb: Verb) -> Answer<'_> {
        self.degraded.fetch_add(1, Relaxed);
        let done = self.away.decide(&self.policy, met, verb);
        let matched = self.matched(met, done.decisions.into_iter());
        Answer { allowed: done.allowed, at: done.at, standing: done.standing, matched }
    }

    fn matched(
        &self,
        met: &[KeyMet],
        decisions: impl Iterator<Item = Option<Decision>>,
    ) -> Few<Matched<'_>> {
        let told = met.iter().zip(decisions).filter_map(|(met, decision)| {
            let rule = self.policy.rules().get(met.rule)?;
            let (variant, cost, by) = (met.variant, met.cost, met.by);
            Some(Matched {
                rule,
                variant,
                cost,
                by,
                decision: decision?,
                overloaded: false,
                elsewhere: false,
            })
        });
        told.collect()
    }
}

/// Why there can be no gate over a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedGateError {
    /// Settings that can not be; never empty.
    Settings(Vec<SettingsError>),
    /// A rule that is decided in process while the store is away has less than one unit for each node.
    NoShare {
        /// The rule's name.
        rule: String,
        /// Its limit or capacity.
        units: u64,
        /// The nodes.
        nodes: u64,
    },
    /// The rules can not be kept with a part of their limits.
    Policy(PolicyErrors),
}

impl fmt::Display for SharedGateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(mistakes) => {
                for (number, mistake) in mistakes.iter().enumerate() {
                    write!(f, "{}{mistake}", if number == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            Self::NoShare { rule, units, nodes } => write!(
                f,
                "rule `{rule}`: {units} units among {nodes} nodes is less than one each: expected fewer \
                 `nodes`, or another `on_store_error` than \"local\""
            ),
            Self::Policy(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for SharedGateError {}
