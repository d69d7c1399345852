//! Decisions over a recorded trace, taken in a store at the recorded times.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use tidegate_core::Timestamp;
use tidegate_rules::shared::SharedGateError;

use super::SharedGate;
use crate::answer::Answer;
use crate::request::{Request, RequestInternals as _};
use crate::rules::Policy;
use crate::settings::StoreSettings;
use crate::store::{KeyAsk, StepArgs, Store, StoreError, Verb};

/// A policy and fresh limiters of this run alone in a store, which go by the time of the trace.
#[derive(Debug)]
pub struct SharedReplay {
    gate: SharedGate,
    keys: Mutex<HashSet<Vec<u8>>>,
}

impl SharedReplay {
    /// Creates a replay without any limiters; its keys get a prefix of this run's own.
    ///
    /// # Errors
    /// The errors of [`SharedGate::new`].
    pub fn new(policy: Policy, mut settings: StoreSettings) -> Result<Self, SharedGateError> {
        let run = RandomState::new().hash_one(std::process::id());
        // A replay shares its limits with no node.
        settings.nodes.get_or_insert(1);
        // Cut to 40 characters, so that the whole stays within the 64 that a prefix may have.
        settings.key_prefix = format!("{:.40}run-{run:016x}:", settings.key_prefix);
        Ok(Self { gate: SharedGate::new(policy, settings, |_| {})?, keys: Mutex::default() })
    }

    /// Returns the gate that decides, for its policy and its store.
    #[must_use]
    pub const fn gate(&self) -> &SharedGate {
        &self.gate
    }

    /// Decides one request at the time it carries.
    ///
    /// # Errors
    /// The store did not reply. A replay is worth nothing without it.
    pub async fn decide(
        &self,
        request: &Request<'_>,
        at: Timestamp,
    ) -> Result<Answer<'_>, StoreError> {
        let in_force = self.gate.newest();
        let asks = self.gate.asks(&in_force, request);
        self.remember(&asks, in_force.innermost().answer_key(&asks, request.identity()));
        // Below the layers that decide in place of the store: a replay asks for the store's own decisions.
        let store = in_force.leases();
        let args = StepArgs::new(Verb::Ask, request.origin(), store.host().deadline());
        // Nothing is taken ahead in a replay.
        let args = StepArgs { at: Some(at), is_queued: true, ..args };
        let reply = store.step(&asks, args).await;
        Ok(in_force.answer(&asks, reply.map_err(|gave_up| gave_up.error)?))
    }

    /// Remembers the keys of a request, to remove them at the end.
    fn remember(&self, asks: &[KeyAsk], answer: Option<Vec<u8>>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        for ask in asks {
            // Most keys are known, and are not copied.
            if !keys.contains(&ask.fingerprint) {
                keys.insert(ask.fingerprint.clone());
            }
        }
        keys.extend(answer);
    }

    /// Removes all data of this run from the store.
    ///
    /// # Errors
    /// The store did not reply, and some of the data is still there.
    pub async fn end(self) -> Result<(), StoreError> {
        let keys = self.keys.into_inner().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<_> = keys.into_iter().collect();
        self.gate.store.remove(&keys).await
    }
}
