//! Where the limiters live: in this process, or in a store that other nodes share. One way to ask them.

mod shared;

use tidegate::{Answer, Gate, Policy, Request, SharedGate, StoreError, StoreEvent, StoreSettings};

use crate::cli::Failure;
pub(crate) use shared::Shared;

/// All limiters of the policy in force.
#[derive(Debug)]
pub(crate) enum Limiters {
    Here(Box<Gate>),
    Shared(Box<Shared>),
}

impl Limiters {
    /// Limiters in the store that the policy names, else in this process.
    ///
    /// # Errors
    /// What can not be with a store.
    pub(crate) fn of(policy: Policy) -> Result<Self, Failure> {
        match policy.store().cloned() {
            None => Ok(Self::Here(Box::new(Gate::new(policy)))),
            Some(store) => shared(policy, store).map(Box::new).map(Self::Shared),
        }
    }

    pub(crate) fn policy(&self) -> &Policy {
        match self {
            Self::Here(gate) => gate.policy(),
            Self::Shared(gate) => gate.policy(),
        }
    }

    /// Ends when the first request can be decided as well as any; a store that is away is not waited for.
    pub(crate) async fn ready(&self) {
        if let Self::Shared(gate) = self {
            // What is wrong has been logged.
            let _ = gate.connected().await;
        }
    }

    /// Decides and takes; a request that may wait does.
    pub(crate) async fn check(&self, request: &Request<'_>) -> Answer<'_> {
        match self {
            Self::Here(gate) => gate.check_in_turn(request).await,
            Self::Shared(gate) => gate.check_in_turn(request).await,
        }
    }

    /// Decides and takes, where that takes no waiting: neither for a limiter nor for the store.
    #[inline]
    pub(crate) fn check_at_once(&self, request: &Request<'_>) -> Option<Answer<'_>> {
        match self {
            Self::Here(gate) => gate.check_unless_waiting(request),
            Self::Shared(_) => None,
        }
    }

    /// A look, where that takes no waiting.
    pub(crate) fn peek_at_once(&self, request: &Request<'_>) -> Option<Answer<'_>> {
        match self {
            Self::Here(gate) => Some(gate.peek(request)),
            Self::Shared(_) => None,
        }
    }

    pub(crate) async fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        match self {
            Self::Here(gate) => gate.peek(request),
            Self::Shared(gate) => gate.peek(request).await,
        }
    }

    pub(crate) async fn refund(&self, request: &Request<'_>) -> Result<Answer<'_>, StoreError> {
        match self {
            Self::Here(gate) => Ok(gate.refund(request)),
            Self::Shared(gate) => gate.refund(request).await,
        }
    }

    pub(crate) async fn reset(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        match self {
            Self::Here(gate) => Ok(gate.reset(request)),
            Self::Shared(gate) => gate.reset(request).await,
        }
    }
}

fn shared(policy: Policy, store: StoreSettings) -> Result<Shared, Failure> {
    let bounds = shared::Bounds::of(&store);
    match SharedGate::new(policy, store, log) {
        Ok(gate) => Ok(Shared::new(gate, bounds)),
        Err(error) => Err(Failure::configuration(format!("tidegate: {error}"))),
    }
}

/// One line for what became of the store, however many requests noticed.
fn log(event: StoreEvent<'_>) {
    match event {
        StoreEvent::Lost(error) => tracing::error!(
            %error,
            "the store is away; rules decide by their own `on_store_error` until it is back"
        ),
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
        StoreEvent::Finding(finding) => tracing::warn!("{finding}"),
        _ => {}
    }
}
