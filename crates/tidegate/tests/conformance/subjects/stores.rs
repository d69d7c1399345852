//! Gates over a real Redis, of two nodes in turn, and over a cluster.
//!
//! The answers of a store are awaited here, on one runtime with a thread of its own.

use std::num::NonZero;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use tidegate::{
    AlgorithmKind, Amendment, Answer, Ban, ManualClock, OnFull, Policy, Request, RuleSpec, Setup,
    SharedGate, SharedReplay, Spec, StoreError, StoreSettings, Taken, Timestamp,
};
use tokio::runtime::{Builder, Runtime};

use super::gates::{Answered, AnyGate, Banning, ByTime, Ending, OneRule, Plans, Store, one_rule};
use super::{Capped, DAY, Subject};
use crate::server::nodes::Nodes as Servers;
use crate::server::{Server, settings};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// Settings with which no other test uses the same limiters.
fn settings_of_ones_own(url: &str) -> StoreSettings {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let mut settings = settings(url);
    settings.key_prefix = format!("kit-{}:", NUMBER.fetch_add(1, Relaxed));
    // Over a cluster, which has no such connections, the kit asks by the thread of the store.
    settings.direct = true;
    settings
}

/// Settings with which a node asks about each request.
fn without_memory(url: &str) -> StoreSettings {
    let mut settings = settings_of_ones_own(url);
    settings.denial_memory = false;
    settings
}

/// The change that turns the rules of a behaviour into rules of gates over a store.
type Fitted = fn(Vec<RuleSpec>) -> Vec<RuleSpec>;

/// Nodes over one store, asked in turn.
struct Nodes {
    gates: Vec<SharedGate>,
    fitted: Fitted,
    turn: AtomicUsize,
    revision: AtomicU32,
}

impl Nodes {
    fn new(
        count: usize,
        url: &str,
        rules: Vec<RuleSpec>,
        ban: Option<&Banning>,
        fitted: Fitted,
    ) -> Self {
        let rules = fitted(rules);
        let setup = || {
            let setup = Setup::new(Policy::new(rules.clone()).unwrap());
            match ban {
                Some(ban) => {
                    let refused = Ban::new(ban.refusals, DAY, Banning::WEEK).unwrap();
                    setup.ban(Request::DEFAULT_DOMAIN, ban.rule, refused).unwrap()
                }
                None => setup,
            }
        };
        let mut settings = settings_of_ones_own(url);
        // Among several nodes a denial may be repeated after another node gave units back.
        settings.denial_memory = count == 1;
        Self::over(count, &settings, setup, fitted)
    }

    fn over(
        count: usize,
        settings: &StoreSettings,
        setup: impl Fn() -> Setup,
        fitted: Fitted,
    ) -> Self {
        let gate = |_| {
            let gate = SharedGate::new(setup(), settings.clone(), |_| {}).unwrap();
            RUNTIME.block_on(gate.store().connected()).unwrap();
            gate
        };
        let _inside = RUNTIME.enter();
        let gates = (0..count).map(gate).collect();
        Self { gates, fitted, turn: AtomicUsize::new(0), revision: AtomicU32::new(1) }
    }

    fn next(&self) -> &SharedGate {
        &self.gates[self.turn.fetch_add(1, Relaxed) % self.gates.len()]
    }

    /// Returns the answer of a store that is available.
    fn answer<'g>(&self, answer: impl Future<Output = Answer<'g>>) -> Answer<'g> {
        let answer = RUNTIME.block_on(answer);
        assert!(!answer.is_degraded(), "{answer:?}");
        answer
    }

    /// The revision of the next policy: changes follow each other so fast that nodes could not know their order by the
    /// time.
    fn revision(&self) -> NonZero<u32> {
        NonZero::new(self.revision.fetch_add(1, Relaxed)).unwrap()
    }

    fn of<T>(&self, verb: impl Future<Output = Result<T, StoreError>>) -> T {
        RUNTIME.block_on(verb).unwrap()
    }
}

impl AnyGate for Nodes {
    fn check(&self, request: &Request<'_>) -> Answer<'_> {
        self.answer(self.next().check(request))
    }

    fn admits(&self, request: &Request<'_>) -> bool {
        self.check(request).is_allowed()
    }

    fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        self.answer(self.next().peek(request))
    }

    fn refund(&self, request: &Request<'_>) -> Answer<'_> {
        self.of(self.next().refund(request))
    }

    fn settle(&self, request: &Request<'_>, taken: Option<&Taken>, actual: u64) -> Answer<'_> {
        self.of(self.next().settle(request, taken, &[actual]))
    }

    fn renew(&self, request: &Request<'_>, taken: &Taken) -> bool {
        self.of(self.next().renew(request, taken))
    }

    fn reset(&self, request: &Request<'_>) -> usize {
        self.of(self.next().reset(request))
    }

    fn waiting(&self, request: &Request<'_>) -> usize {
        self.next().waiting(request)
    }

    fn keys(&self) -> Option<usize> {
        None
    }

    /// The future can be polled by hand, like any other: the store's replies are read on other threads.
    fn acquire<'g>(&'g self, request: Request<'g>) -> Answered<'g> {
        Box::pin(async move {
            let mut answer = Box::pin(self.next().acquire(&request));
            std::future::poll_fn(|context| {
                let _inside = RUNTIME.enter();
                answer.as_mut().poll(context)
            })
            .await
        })
    }

    /// Replaces the policy of one node after another.
    fn replace(&self, rules: Vec<RuleSpec>) {
        let policy = Policy::new((self.fitted)(rules)).unwrap().with_revision(self.revision());
        self.gates.iter().for_each(|gate| gate.replace(policy.clone()).unwrap());
    }

    fn amend(&self, rule: &str, values: Amendment) {
        let revision = self.revision();
        for gate in &self.gates {
            gate.amend(Request::DEFAULT_DOMAIN, rule, values.clone()).unwrap();
            gate.replace(Policy::clone(&gate.policy()).with_revision(revision)).unwrap();
        }
    }

    fn hold_while<'g>(
        &'g self,
        request: &Request<'g>,
        happens: &dyn Fn(),
        end: Ending,
    ) -> Result<Answer<'g>, Answer<'g>> {
        let charge = RUNTIME.block_on(self.next().hold(request))?;
        let answer = charge.answer().clone();
        happens();
        match end {
            Ending::Dropped => drop(charge),
            Ending::Kept => charge.keep(),
            Ending::Released => self.of(charge.release()),
            Ending::Settled(actual) => self.of(charge.settle(actual)),
        }
        Ok(answer)
    }
}

impl ByTime for SharedReplay {
    fn decide(&mut self, request: &Request<'_>, at_us: u64) -> Answer<'_> {
        RUNTIME.block_on(Self::decide(self, request, Timestamp::from_micros(at_us))).unwrap()
    }
}

fn by_time(url: &str, rules: Vec<RuleSpec>) -> Option<Box<dyn ByTime>> {
    let (policy, settings) = (Policy::new(rules).unwrap(), settings_of_ones_own(url));
    settings.fits(&policy).ok()?;
    let _inside = RUNTIME.enter();
    let replay = SharedReplay::new(policy, settings).unwrap();
    RUNTIME.block_on(replay.gate().store().connected()).unwrap();
    Some(Box::new(replay))
}

/// The servers that behaviours use at the same time; they end when no behaviour uses them.
struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    fn get(&self, start: impl FnOnce() -> T) -> Arc<T> {
        let mut running = self.0.lock().unwrap();
        running.upgrade().unwrap_or_else(|| {
            let started = Arc::new(start());
            *running = Arc::downgrade(&started);
            started
        })
    }
}

/// Redis, or the program in its place.
pub(crate) struct Redis(Arc<Server>);

impl Redis {
    pub(crate) fn start() -> Self {
        static RUNNING: Shared<Server> = Shared(Mutex::new(Weak::new()));
        Self(RUNNING.get(|| Server::start(&[])))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }
}

impl Store for Redis {
    fn gate_by(&self, _clock: &ManualClock, rules: Vec<RuleSpec>) -> Box<dyn AnyGate + '_> {
        Box::new(Nodes::new(2, &self.url(), rules, None, |rules| rules))
    }

    fn of_one_process(&self, rules: Vec<RuleSpec>, ban: Option<Banning>) -> Box<dyn AnyGate + '_> {
        Box::new(Nodes::new(1, &self.url(), rules, ban.as_ref(), |rules| rules))
    }

    fn planned(
        &self,
        _clock: &ManualClock,
        rules: Vec<RuleSpec>,
        plans: &Plans,
    ) -> Box<dyn AnyGate + '_> {
        let fitted: Fitted = |rules| rules;
        let settings = without_memory(&self.url());
        Box::new(Nodes::over(2, &settings, || plans.setup(fitted(rules.clone())), fitted))
    }

    fn has_time(&self) -> bool {
        false
    }

    fn by_time(&self, _begin_us: u64, rules: Vec<RuleSpec>) -> Option<Box<dyn ByTime + '_>> {
        by_time(&self.url(), rules)
    }

    fn asks(&self) -> u64 {
        40
    }
}

/// Two primaries, each with half of the slots.
pub(crate) struct Cluster(Arc<Servers>);

impl Cluster {
    pub(crate) fn start() -> Self {
        static RUNNING: Shared<Servers> = Shared(Mutex::new(Weak::new()));
        Self(RUNNING.get(|| Servers::start(2, 0)))
    }

    /// Allows rules with keys in different slots.
    fn across_slots(rules: Vec<RuleSpec>) -> Vec<RuleSpec> {
        let are_several = rules.len() > 1;
        let across = |rule: RuleSpec| if are_several { rule.across_slots() } else { rule };
        rules.into_iter().map(across).collect()
    }
}

impl Store for Cluster {
    fn gate_by(&self, _clock: &ManualClock, rules: Vec<RuleSpec>) -> Box<dyn AnyGate + '_> {
        Box::new(Nodes::new(2, &self.0.url(), rules, None, Self::across_slots))
    }

    fn of_one_process(&self, rules: Vec<RuleSpec>, ban: Option<Banning>) -> Box<dyn AnyGate + '_> {
        Box::new(Nodes::new(1, &self.0.url(), rules, ban.as_ref(), Self::across_slots))
    }

    /// No queue: a slot of its time is not given back, so one request cannot match two of them across slots.
    fn algorithms(&self) -> Vec<AlgorithmKind> {
        let all = AlgorithmKind::ALL.iter().copied();
        all.filter(|algorithm| *algorithm != AlgorithmKind::LeakyQueue).collect()
    }

    fn planned(
        &self,
        _clock: &ManualClock,
        rules: Vec<RuleSpec>,
        plans: &Plans,
    ) -> Box<dyn AnyGate + '_> {
        let fitted: Fitted = Self::across_slots;
        let settings = without_memory(&self.0.url());
        Box::new(Nodes::over(2, &settings, || plans.setup(fitted(rules.clone())), fitted))
    }

    fn is_one_step(&self) -> bool {
        false
    }

    fn has_time(&self) -> bool {
        false
    }

    fn by_time(&self, _begin_us: u64, rules: Vec<RuleSpec>) -> Option<Box<dyn ByTime + '_>> {
        by_time(&self.0.url(), Self::across_slots(rules))
    }

    fn asks(&self) -> u64 {
        40
    }
}

impl Capped for Redis {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_> {
        Box::new(OneRule(self.gate(vec![one_rule(spec).max_keys(max_keys, on_full)])))
    }
}
