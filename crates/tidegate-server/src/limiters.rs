//! The limiters of the server, in this process or in a store that nodes share, behind one
//! interface.

use std::future::pending;
use std::sync::Arc;

use std::time::Duration;
use tidegate::{
    Answer, Gate, Mode, OnExcess, Policy, Request, RuleSpec, SharedGate, StoreError, StoreEvent,
    StoreSettings,
};

use crate::failure::Failure;
use crate::listener::source;
use crate::stop::Stop;

/// All limiters of the policy in force.
///
/// Futures of a store are boxed; otherwise a decision in memory would be as large a future, and
/// would be moved as such.
#[derive(Debug)]
pub(crate) struct Limiters {
    store: Store,
    /// Whether a rule lets requests wait.
    lets_wait: bool,
    /// Signals when requests must stop waiting; `None` only in tests.
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Decide, and take if all rules admit. If the rules that refuse let a request wait, the answer
    /// waits; a client that goes away meanwhile takes nothing.
    Check,
    /// Return the answer of a check that does not wait; take nothing.
    Peek,
}

#[derive(Debug)]
enum Store {
    Memory(Box<Gate>),
    Shared(Box<SharedGate>),
}

impl Limiters {
    /// Limiters in the store that the policy names, or else in this process.
    ///
    /// # Errors
    /// Returns an error if the rules cannot be kept in the store.
    pub(crate) fn of(policy: Policy) -> Result<Self, Failure> {
        match policy.store().cloned() {
            None => Ok(Self::here(Gate::new(policy))),
            Some(store) => {
                let lets_wait = lets_wait(&policy);
                let store = Store::Shared(Box::new(shared(policy, store)?));
                Ok(Self { store, lets_wait, stop: None })
            }
        }
    }

    /// The limiters of a gate in this process.
    pub(crate) fn here(gate: Gate) -> Self {
        let lets_wait = lets_wait(&gate.policy());
        Self { store: Store::Memory(Box::new(gate)), lets_wait, stop: None }
    }

    /// Limiters in this process that panic after deciding a request of the domain `panics`.
    #[cfg(test)]
    pub(crate) fn that_panic(policy: Policy) -> Self {
        let panics = |request: &Request<'_>, _: &Answer<'_>| {
            assert_ne!(request.domain(), "panics", "a panic that the test asked for");
        };
        Self::here(Gate::new(policy).with_observer(std::sync::Arc::new(panics)))
    }

    /// Ends waits when `stop` refuses them.
    pub(crate) fn until(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The gate over a store, if the limiters live in one.
    pub(crate) fn shared(&self) -> Option<&SharedGate> {
        match &self.store {
            Store::Memory(_) => None,
            Store::Shared(gate) => Some(gate),
        }
    }

    /// Returns when requests must stop waiting, because the process stops.
    pub(crate) async fn closing(&self) {
        match self.stop.clone() {
            Some(mut stop) => stop.refusing().await,
            None => pending().await,
        }
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        match &self.store {
            Store::Memory(gate) => gate.policy(),
            Store::Shared(gate) => gate.policy(),
        }
    }

    /// Resolves when the first request can be decided as quickly as later ones; does not wait for
    /// an unavailable store.
    pub(crate) async fn ready(&self) {
        if let Store::Shared(gate) = &self.store {
            // The error has been logged.
            let _ = gate.connected().await;
        }
    }

    /// Leaves the list of nodes that share the store, so that the shares of the others grow
    /// immediately.
    pub(crate) async fn leave(&self) {
        if let Store::Shared(gate) = &self.store
            && let Err(error) = gate.leave().await
        {
            tracing::debug!(%error, "the store still lists this server for some seconds");
        }
    }

    /// Decides and takes. A request that may wait does, and gets its current answer when the
    /// process stops. A request that cannot wait is run to its end, because a store might have
    /// decided it already.
    pub(crate) async fn check(&self, request: &Request<'_>) -> Answer<'_> {
        if let Some(answer) = self.try_check(request) {
            return answer;
        }
        if !self.lets_wait {
            return self.check_with_waiting(request).await;
        }
        if self.stop.as_ref().is_some_and(Stop::refuses_waits) {
            return self.check_with_waiting(&request.max_wait(Duration::ZERO)).await;
        }
        tokio::select! {
            biased;
            answer = self.check_with_waiting(request) => answer,
            () = self.closing() => self.check_with_waiting(&request.max_wait(Duration::ZERO)).await,
        }
    }

    async fn check_with_waiting(&self, request: &Request<'_>) -> Answer<'_> {
        match &self.store {
            Store::Memory(gate) => gate.check_in_turn(request).await,
            Store::Shared(gate) => {
                let request = request.from_source(source::current());
                Box::pin(gate.check_in_turn(&request)).await
            }
        }
    }

    /// Decides and takes if that needs no waiting, neither for a limiter nor for the store.
    #[inline]
    pub(crate) fn try_check(&self, request: &Request<'_>) -> Option<Answer<'_>> {
        match &self.store {
            Store::Memory(gate) => gate.check_unless_waiting(request),
            Store::Shared(_) => None,
        }
    }

    /// Checks or peeks if that needs no waiting.
    pub(crate) fn try_answer(&self, verb: Verb, request: &Request<'_>) -> Option<Answer<'_>> {
        match (verb, &self.store) {
            (Verb::Check, _) => self.try_check(request),
            (Verb::Peek, Store::Memory(gate)) => Some(gate.peek(request)),
            (Verb::Peek, Store::Shared(_)) => None,
        }
    }

    /// Checks or peeks.
    pub(crate) async fn answer(&self, verb: Verb, request: &Request<'_>) -> Answer<'_> {
        match verb {
            Verb::Check => self.check(request).await,
            Verb::Peek => self.peek(request).await,
        }
    }

    pub(crate) async fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        match &self.store {
            Store::Memory(gate) => gate.peek(request),
            Store::Shared(gate) => {
                let request = request.from_source(source::current());
                Box::pin(gate.peek(&request)).await
            }
        }
    }

    pub(crate) async fn refund(&self, request: &Request<'_>) -> Result<Answer<'_>, StoreError> {
        match &self.store {
            Store::Memory(gate) => Ok(gate.refund(request)),
            Store::Shared(gate) => Box::pin(gate.refund(request)).await,
        }
    }

    pub(crate) async fn reset(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        match &self.store {
            Store::Memory(gate) => Ok(gate.reset(request)),
            Store::Shared(gate) => Box::pin(gate.reset(request)).await,
        }
    }
}

/// Whether a request may have to wait for a limiter of one of these rules.
fn lets_wait(policy: &Policy) -> bool {
    let waits = |spec: &RuleSpec| {
        spec.mode == Mode::Enforce && matches!(spec.on_excess, OnExcess::Wait { .. })
    };
    policy.rules().iter().any(|rule| waits(rule.spec()))
}

fn shared(policy: Policy, store: StoreSettings) -> Result<SharedGate, Failure> {
    let gate = SharedGate::new(policy, store, log);
    gate.map_err(|error| Failure::configuration(format!("tidegate: {error}")))
}

/// Logs one line for an event of the store, however many requests noticed it.
fn log(event: StoreEvent<'_>) {
    match event {
        StoreEvent::Lost(error) => tracing::error!(
            %error,
            "the store is away; rules decide by their own `on_store_error` until it is back"
        ),
        StoreEvent::StillLost(error) => {
            tracing::error!(%error, "the store is away still, by now for another reason");
        }
        StoreEvent::Undecided { error: StoreError::OutOfMemory, .. } => tracing::warn!(
            "the store has no memory left: limiters that are there go on, and keys that are new are refused; expected a \
             `maxmemory` that holds all limiters, or rules with `max_keys` (told once a minute, however often)"
        ),
        StoreEvent::Undecided { key, error } => {
            tracing::warn!(
                %error,
                "the store is there and did not decide; the rules did by their own `on_store_error` (told once a \
                 minute, however often; the level debug names the key)"
            );
            // It contains values that callers choose.
            tracing::debug!(key = %String::from_utf8_lossy(key), "a key that the store did not decide about");
        }
        StoreEvent::Back => tracing::info!("the store is back; decisions are exact again"),
        StoreEvent::PartLost { first_slot, last_slot, error } => tracing::error!(
            %error,
            first_slot,
            last_slot,
            "a node of the store's cluster is away; rules decide about its keys by their own \
             `on_store_error` until it is back"
        ),
        StoreEvent::PartBack { first_slot, last_slot } => tracing::info!(
            first_slot,
            last_slot,
            "a node of the store's cluster is back; decisions about its keys are exact again"
        ),
        StoreEvent::Nodes(nodes) => {
            tracing::info!(
                nodes,
                "servers share the store: each has its share of a limit without it"
            );
        }
        StoreEvent::NoShare { rules, nodes } => tracing::warn!(
            nodes,
            rules = some_of(rules),
            "rules have fewer units than servers share the store: some servers have no share of these limits, \
             and deny what they decide without the store"
        ),
        StoreEvent::Overloaded => tracing::warn!(
            "the store answers, but there is more load than it decides in time: the rest is decided in process by \
             rules that are `local` or `open`, and refused by rules that are `closed`"
        ),
        StoreEvent::OverloadEnded { undecided } => {
            tracing::info!(undecided, "the store decides every request in time again");
        }
        StoreEvent::Finding(finding) => tracing::warn!("{finding}"),
        _ => {}
    }
}

/// The first few names.
fn some_of(names: &[&str]) -> String {
    const MOST: usize = 8;
    let first = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{first} and {} more", names.len() - MOST) } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::{Descriptor, config};

    const HOPELESS: &str = r#"
        [[rule]]
        name = "hopeless"
        algorithm = "token_bucket"
        limit = 1
        window = "365d"
        on_excess = { wait = "365d", max_waiters = 1 }
    "#;

    #[test]
    fn only_an_enforced_rule_lets_wait() {
        let said = |toml: &str| lets_wait(&config::parse("test", toml).unwrap());
        assert!(said(HOPELESS));
        assert!(!said(&format!("{HOPELESS}mode = \"shadow\"")));
        let (rejects, _) = HOPELESS.split_once("on_excess").unwrap();
        assert!(!said(rejects));
    }

    #[test]
    fn many_names_are_one_short_line() {
        let names: Vec<_> = (0..10).map(|number| format!("r{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(some_of(&names), "r0, r1, r2, r3, r4, r5, r6, r7 and 2 more");
        assert_eq!(some_of(&names[..8]), "r0, r1, r2, r3, r4, r5, r6, r7");
    }

    #[tokio::test]
    async fn a_request_that_waits_when_the_process_ends_is_refused_and_takes_nothing() {
        let (stop, stopping) = Stop::by_hand();
        let limiters = Limiters::of(config::parse("test", HOPELESS).unwrap()).unwrap();
        let limiters = limiters.until(stopping);
        let descriptors = [Descriptor::new(&[])];
        let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
        assert!(limiters.check(&request).await.is_allowed());
        let ends = async {
            stop.drain();
            tokio::task::yield_now().await;
            stop.refuse();
        };
        let (answer, ()) = tokio::join!(limiters.check(&request), ends);
        assert!(!answer.is_allowed());
        let waits = answer.retry_after().unwrap();
        assert!(waits > Duration::from_secs(86_400), "{waits:?}");
        assert!(!limiters.check(&request).await.is_allowed(), "nobody waits from then on");
        let _ = limiters.refund(&request).await.unwrap();
        assert!(limiters.check(&request).await.is_allowed(), "its place in the line is free");
    }
}
