//! The limiters of the server, in this process or in a store that nodes share, with one interface. Every protocol
//! asks [`Limiters::check`] or its neighbours; below it stands the gate of the engine. Reservations, reports of
//! callers and the observers of decisions are kept next to the gate.

mod decided;
mod events;
mod key_label;
mod life;
mod observed;
mod refusals;
mod reports;
mod reservations;
mod reserve;
mod settlement_losses;
mod tail;
mod top_keys;
mod unmatched;
mod watching;

use std::future::pending;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tidegate::store::Store;
use tidegate::{
    Answer, Gate, Mode, OnExcess, Policy, PolicyErrors, PolicyRule, Request, Setup, SharedGate,
    SnapshotWritten, StoreError, StoreSettings,
};
use tokio::time::timeout;

use crate::counts::ServerCounts;
use crate::failure::Failure;
use crate::listener::source;
use crate::stop::Stop;
use events::StoreEvents;
pub(crate) use events::StoreStanding;
pub(crate) use life::{LONGEST_LIFE, USUAL_LIFE};
pub(crate) use refusals::was_not_sent;
use reports::CallerReports;
pub(crate) use reports::{CallerReport, Subject, Unreported};
use reservations::Reservations;
pub(crate) use reservations::{
    ListedReservation, SettleResult, SettledReservation, Unreserved, Unsettled,
};
pub(crate) use reserve::ReserveAnswer;
use settlement_losses::SettlementLosses;
pub(crate) use tail::Filter;
pub(crate) use top_keys::{ONE_IN, Top, TopKeysBy};
pub(crate) use unmatched::names;
use watching::Watching;

/// The longest time for which a server that starts waits for its store, before it answers without it.
const UNTIL_CONNECTED: Duration = Duration::from_millis(250);

/// All limiters of the policy in force.
///
/// Futures of a store are boxed; otherwise a decision in memory would be as large a future, and
/// would be moved as such.
#[derive(Debug)]
pub(crate) struct Limiters {
    store: ServerStore,
    /// True if a rule in force lets requests wait; false only once no such rule is.
    lets_wait: AtomicBool,
    /// Signals when requests must stop waiting; `None` only in tests.
    stop: Option<Stop>,
    /// The observers of their decisions.
    pub(crate) watching: Arc<Watching>,
    /// The counts of the listeners that ask them.
    pub(crate) counts: ServerCounts,
    pub(crate) reservations: Reservations,
    /// Units that settlements lost.
    pub(crate) lost: SettlementLosses,
    /// The reports of callers.
    pub(crate) reports: CallerReports,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestVerb {
    /// Decide, and take if all rules admit. If the rules that refuse let a request wait, the answer waits. A client
    /// that leaves before it takes nothing.
    Check,
    /// Return the answer of a check that does not wait; take nothing.
    Peek,
}

impl RequestVerb {
    /// Its name in logs and spans.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Peek => "peek",
        }
    }
}

#[derive(Debug)]
enum ServerStore {
    Memory(Box<Gate>),
    Shared(Box<SharedGate>, Arc<StoreEvents>),
}

impl Limiters {
    /// Limiters in the store that the policy names, or else in this process.
    ///
    /// # Errors
    /// Returns an error if the rules cannot be kept in the store.
    pub(crate) fn of(policy: Policy) -> Result<Self, Failure> {
        let Some(store) = policy.store().cloned() else {
            return Self::here(policy, |fresh| Ok(fresh()));
        };
        let lets_wait = lets_wait(&policy);
        let watching = Watching::new();
        let events = Arc::new(StoreEvents::of(&store.url));
        let gate = shared(watching.watch(policy), store, &events)?;
        Ok(Self::over(ServerStore::Shared(Box::new(gate), events), lets_wait, watching))
    }

    fn over(store: ServerStore, lets_wait: bool, watching: Arc<Watching>) -> Self {
        Self {
            store,
            lets_wait: lets_wait.into(),
            stop: None,
            watching,
            counts: ServerCounts::default(),
            reservations: Reservations::usual(),
            lost: SettlementLosses::default(),
            reports: CallerReports::default(),
        }
    }

    /// The limiters of a gate in this process: `load` makes it of a fresh gate.
    ///
    /// # Errors
    /// Returns the error of `load`.
    pub(crate) fn here(
        policy: Policy,
        load: impl FnOnce(&dyn Fn() -> Gate) -> Result<Gate, Failure>,
    ) -> Result<Self, Failure> {
        let lets_wait = lets_wait(&policy);
        let watching = Watching::new();
        let gate = load(&|| Gate::new(watching.watch(policy.clone())))?;
        Ok(Self::over(ServerStore::Memory(Box::new(gate)), lets_wait, watching))
    }

    /// Ends waits when `stop` refuses them.
    pub(crate) fn until(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The gate over a store, if the limiters live in one.
    pub(crate) fn shared(&self) -> Option<&SharedGate> {
        match &self.store {
            ServerStore::Memory(_) => None,
            ServerStore::Shared(gate, _) => Some(gate),
        }
    }

    /// Writes the limiters, if they are in this process.
    pub(crate) fn write_snapshot(&self, to: impl Write) -> io::Result<SnapshotWritten> {
        match &self.store {
            ServerStore::Memory(gate) => gate.write_snapshot(to),
            ServerStore::Shared(..) => Ok(SnapshotWritten::default()),
        }
    }

    /// Returns when the process begins to stop.
    pub(crate) async fn draining(&self) {
        match self.stop.clone() {
            Some(mut stop) => stop.draining().await,
            None => pending().await,
        }
    }

    /// Returns when requests must stop waiting, because the process stops.
    pub(crate) async fn closing(&self) {
        match self.stop.clone() {
            Some(mut stop) => stop.refusing().await,
            None => pending().await,
        }
    }

    /// Puts another policy in force at one instant; the store stays the one of the start. One call at
    /// a time.
    ///
    /// # Errors
    /// Returns an error if the limiters do not fit in the store, or in the memory that a rule allows;
    /// the policy before stays in force then.
    pub(crate) fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        let lets_wait_before = self.lets_wait.load(SeqCst);
        let lets_wait = lets_wait(&policy);
        let policy = policy.with_store_of(&self.policy());
        // Before the new policy is in force: its first request may wait already, and while it does a stop must end the wait.
        self.lets_wait.fetch_or(lets_wait, SeqCst);
        let replaced = match &self.store {
            ServerStore::Memory(gate) => gate.replace(policy),
            ServerStore::Shared(gate, _) => gate.replace(policy),
        };
        let lets_wait = if replaced.is_ok() { lets_wait } else { lets_wait_before };
        self.lets_wait.store(lets_wait, SeqCst);
        replaced
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        match &self.store {
            ServerStore::Memory(gate) => gate.policy(),
            ServerStore::Shared(gate, _) => gate.policy(),
        }
    }

    /// Returns when the store is fit for the first time, at the latest after [`UNTIL_CONNECTED`].
    pub(crate) async fn connected(&self) {
        if let ServerStore::Shared(gate, _) = &self.store {
            let store = gate.store();
            let is_fit = async {
                // On a busy machine the first probe may be late. The error has been logged.
                if store.connected().await.is_err() {
                    store.fit().await;
                }
            };
            let _ = timeout(UNTIL_CONNECTED, is_fit).await;
        }
    }

    /// Leaves the list of nodes that share the store, so that the shares of the others grow
    /// immediately.
    pub(crate) async fn leave(&self) {
        if let ServerStore::Shared(gate, _) = &self.store
            && let Err(error) = gate.leave().await
        {
            tracing::debug!(%error, "the store still lists this server for some seconds");
        }
    }

    /// Decides and takes. A request that may wait does, and gets its current answer when the
    /// process stops. A request that cannot wait is run to its end, because a store might have
    /// decided it already.
    pub(crate) async fn check(&self, request: &Request<'_>) -> Answer<'_> {
        if let Some(answer) = self.try_answer(RequestVerb::Check, request) {
            return answer;
        }
        let answer = self.check_as_long_as_it_takes(request).await;
        self.log(RequestVerb::Check, request, &answer);
        answer
    }

    async fn check_as_long_as_it_takes(&self, request: &Request<'_>) -> Answer<'_> {
        if !self.lets_wait.load(SeqCst) {
            return self.check_with_waiting(request).await;
        }
        if self.stop.as_ref().is_some_and(Stop::refuses_waits) {
            // Asked without a wait, and not refused: its limiter may admit it at once.
            return self.check_with_waiting(&request.max_wait(Duration::ZERO)).await;
        }
        // Biased, because an answer that has come took its units, and another would take them again.
        tokio::select! {
            biased;
            answer = self.check_with_waiting(request) => answer,
            () = self.closing() => self.check_with_waiting(&request.max_wait(Duration::ZERO)).await,
        }
    }

    async fn check_with_waiting(&self, request: &Request<'_>) -> Answer<'_> {
        match &self.store {
            // Rare and large: boxed, so that the futures around it stay small.
            ServerStore::Memory(gate) => Box::pin(gate.acquire(request.returning_delay())).await,
            ServerStore::Shared(gate, _) => {
                let request = request.from_source(source::current()).returning_delay();
                Box::pin(gate.acquire(request)).await
            }
        }
    }

    /// Checks or peeks if that needs no waiting, neither for a limiter nor for the store.
    #[inline]
    pub(crate) fn try_answer(
        &self,
        verb: RequestVerb,
        request: &Request<'_>,
    ) -> Option<Answer<'_>> {
        let answer = match (verb, &self.store) {
            (RequestVerb::Check, ServerStore::Memory(gate)) => gate.check_unless_waiting(request),
            (RequestVerb::Check, ServerStore::Shared(gate, _)) => {
                gate.check_unless_waiting(request)
            }
            (RequestVerb::Peek, ServerStore::Memory(gate)) => Some(gate.peek(request)),
            // A store answers a peek over the network only.
            (RequestVerb::Peek, ServerStore::Shared(..)) => None,
        };
        if let Some(answer) = &answer {
            self.log(verb, request, answer);
        }
        answer
    }

    /// Checks or peeks.
    pub(crate) async fn answer(&self, verb: RequestVerb, request: &Request<'_>) -> Answer<'_> {
        match verb {
            RequestVerb::Check => self.check(request).await,
            RequestVerb::Peek => self.peek(request).await,
        }
    }

    pub(crate) async fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        let answer = match &self.store {
            ServerStore::Memory(gate) => gate.peek(request),
            ServerStore::Shared(gate, _) => {
                let request = request.from_source(source::current());
                Box::pin(gate.peek(&request)).await
            }
        };
        self.log(RequestVerb::Peek, request, &answer);
        answer
    }

    pub(crate) async fn refund(&self, request: &Request<'_>) -> Result<Answer<'_>, StoreError> {
        match &self.store {
            ServerStore::Memory(gate) => Ok(gate.refund(request)),
            ServerStore::Shared(gate, _) => {
                let answer = Box::pin(gate.refund(request)).await?;
                // A rule with leases gives nothing back without the time when units were taken.
                self.lost.note(&answer);
                Ok(answer)
            }
        }
    }

    pub(crate) async fn reset(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        match &self.store {
            ServerStore::Memory(gate) => Ok(gate.reset(request)),
            ServerStore::Shared(gate, _) => Box::pin(gate.reset(request)).await,
        }
    }

    /// Logs a decision if decisions are logged.
    #[inline]
    fn log(&self, verb: RequestVerb, request: &Request<'_>, answer: &Answer<'_>) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            decided::log(&self.policy(), verb, request, answer);
        }
    }
}

/// Returns whether a request may have to wait for a limiter of one of these rules.
fn lets_wait(policy: &Policy) -> bool {
    policy
        .rules()
        .iter()
        .map(PolicyRule::spec)
        // A rule in shadow mode never delays a request.
        .any(|spec| spec.mode == Mode::Enforce && matches!(spec.on_excess, OnExcess::Wait { .. }))
}

fn shared(
    setup: Setup,
    mut store: StoreSettings,
    events: &Arc<StoreEvents>,
) -> Result<SharedGate, Failure> {
    // The threads of the listeners last as long as the process.
    store.direct = true;
    let observer = Arc::clone(events);
    let gate = SharedGate::new(setup, store, move |event| observer.log(event));
    gate.map_err(Failure::usage)
}

#[cfg(test)]
impl Limiters {
    /// Limiters in this process that panic after deciding a request of the domain `panics`.
    pub(crate) fn that_panic(policy: Policy) -> Self {
        let panics = |request: &Request<'_>, _: &Answer<'_>| {
            assert_ne!(request.domain(), "panics", "a panic that the test asked for");
        };
        let lets_wait = lets_wait(&policy);
        let watching = Watching::new();
        let gate = Gate::new(watching.watch(Setup::new(policy).observer(Arc::new(panics))));
        Self::over(ServerStore::Memory(Box::new(gate)), lets_wait, watching)
    }
}

#[cfg(test)]
mod tests;
